# Tests that the preset asan leaves out, as patterns of gtest's filter: they take long there and run the same code as others
# that stay, at least one of each kind. The release build runs them all.
set(left_out_under_sanitizers
  # A device that the host stands in for: every operation has its cases, and models and engines have some tests each.
  Cases/DeviceGoldenTest.*
  Families/DeviceMixersTest.AnyCut* Families/DeviceMixersTest.*/HeadsAsPublished
  Families/DeviceMixersTest.AStored*/RatPlus Families/DeviceMixersTest.AStored*/RatSwa Families/DeviceMixersTest.AStored*/Alibi
  Families/DeviceMixersTest.AStored*/Llama Families/DeviceMixersTest.ARewound*/Alibi Families/DeviceMixersTest.ARewound*/L*
  Families/DeviceMixersTest.Sequences*/RatPlus Families/DeviceMixersTest.Sequences*/RatSwa
  Families/DeviceMixersTest.TheSteps*/RatPlus Families/DeviceMixersTest.TheSteps*/RatSwa Families/DeviceMixersTest.TheSteps*/Alibi
  Families/DeviceMixersTest.TheSteps*/Llama
  Families/FamiliesEngineTest.A*OnADevice Engines/EngineContractTest.*OnADevice Engines/IngestContractTest.*OnADevice
  Places/LlamaEngineTest.*/Device Places/AdapterTest.AnAnswer*/Device Places/AdapterTest.AnIngest*/Device Places/AdapterTest.AnySlices*/Device
  Places/AdapterTest.AT*/Device Places/AdapterTest.D*/Device Places/AdapterTest.R*/Device Places/AdapterTest.S*/Device
  Places/AdapterTest.T*/Device Places/AdapterTest.W*/Device
  # The same bits in any order, batch or cut, which is a question of numbers and not of memory.
  GcaBlockTest.OrderOf* RangeBlockTest.OrderOf* TileAttentionBlockTest.A* TileAttentionBlockTest.O* Runners/*.ARowHas*/Device
  Runners/GcaTest.ARow*/scalar Runners/GatedScanTest.SameBits*/Device Runners/LinearAttentionTest.SameBitsInAnyCut*/Device
  Runners/LinearAttentionTest.SameBitsInAnyCut*/scalar *RangeAttentionOfBf16Test.ARowHasTheSameBitsInAnyBatch RangeAttentionOfBf16Test.ATeam*
  QuantGemmTest.EveryCodeHas* Dtypes/RecallTest.SameBitsInAny*/bf16 Dtypes/RecallTest.TheAnswer*/bf16 Rules/BpeGoldenTest.AnyCut*/gpt2
  Rules/BpeGoldenTest.AnyCut*/qwen2 Settings/DrtPaperTest.*/Of64Tokens Settings/DrtPaperTest.*/ReadsOwn *GoldenTest.*/shipped
  # What an ingest makes, for kinds of documents beside those that stay.
  Blocks/IngestBlocksTest.Slices*/Sentences Kinds/AppendTest.*/Prefix Kinds/IngestCommitsTest.*/Prefix PrefixTest.SlicesMessages*
  SearchAheadTest.SessionsT* Kinds/AppendTest.A*/Adapter Kinds/AppendTest.B*/Adapter Kinds/AppendTest.G*/Adapter Kinds/AppendTest.W*/Adapter
  Kinds/AppendTest.A*/Sentences Kinds/AppendTest.B*/Sentences Kinds/AppendTest.G*/Sentences Kinds/AppendTest.W*/Sentences
  Models/RefreshTest.A*/TextToPrefix Models/RefreshTest.D*/TextToPrefix Models/RefreshTest.F*/TextToPrefix
  Models/RefreshTest.I*/TextToPrefix Models/RefreshTest.A*/PrefixToText Models/RefreshTest.D*/PrefixToText
  Models/RefreshTest.F*/PrefixToText Models/RefreshTest.I*/PrefixToText
  # Large inputs.
  BpeTokenizerTest.LongRuns* BpeTokenizerTest.TheBoundIsAtTheSamePlace* BlockCacheTest.PositionsAre* LocalStateTest.RangesAreTheSet*
  LandmarkListsTest.FindsMostOf* LandmarkSketchTest.ASearchFinds* LandmarkSketchTest.NoScore* LandmarkIndexTest.WhatASearch*
  LandmarkIndexTest.SketchesChangeNothingThatIs* RocksStoreTest.ClosedSessions*
  RocksDamageTest.DamagedBlockThatACompaction*
  # Takes all descriptors, without which the sanitizer cannot look at memory.
  GateTest.AcceptsAgainOnceThereAreDescriptors)

# Sources of which nothing would stay, for the same reason.
set(sources_left_out_under_sanitizers
  backend/device_backend_test.cc backend/device_llama_test.cc backend/device_prefix_test.cc device/device_model_test.cc)
