// What --json prints of each message: names, order, and what is left out.
#include "cli/common/json.h"

#include <gtest/gtest.h>

#include <string>

namespace recollect::cli {
namespace {

std::string Dump(const Json& json) { return json.dump(); }

v1::Hit HitOf(v1::Tier tier) {
  v1::Hit hit;
  hit.set_document("d");
  hit.set_chunk(1);
  hit.set_score(2.5f);
  hit.set_weight(0.5f);
  hit.set_text_begin(3);
  hit.set_text_end(4);
  hit.set_tier(tier);
  return hit;
}

TEST(JsonTest, DocumentsAndIngestsHaveWhatTheirKindHas) {
  v1::Document document;
  document.set_id("d");
  document.set_kind(v1::DOCUMENT_KIND_CHUNKS);
  document.set_bytes(1);
  document.set_sha256("s");
  EXPECT_EQ(Dump(ToJson(document)),
            R"({"id":"d","kind":"chunks","bytes":1,"tokens":0,"chunks":0,"stored_bytes":0,)"
            R"("created_unix_ms":0,"from_tokens":false,"sha256":"s","fingerprint":""})");
  document.set_kind(v1::DOCUMENT_KIND_PREFIX);
  document.set_pattern("window 8");
  document.set_state_bytes(int64_t{1} << 40);
  EXPECT_EQ(Dump(ToJson(document)),
            R"({"id":"d","kind":"prefix","bytes":1,"tokens":0,"chunks":0,"stored_bytes":0,)"
            R"("created_unix_ms":0,"from_tokens":false,"sha256":"s","fingerprint":"",)"
            R"("pattern":"window 8","state_bytes":1099511627776})");
  v1::UnfinishedIngest ingest;
  ingest.set_id("d");
  ingest.set_kind(v1::DOCUMENT_KIND_CHUNKS);
  EXPECT_EQ(Dump(ToJson(ingest)),
            R"({"id":"d","kind":"chunks","committed_offset":0,"bytes":0,"tokens":0,"chunks":0,)"
            R"("from_tokens":false,"fingerprint":"","refresh":false})");
}

TEST(JsonTest, OfADamagedDocumentNothingElseIsKnown) {
  v1::Document document;
  document.set_id("d");
  document.set_damage("checksum");
  EXPECT_EQ(Dump(ToJson(document)), R"({"id":"d","damage":"checksum"})");
}

TEST(JsonTest, RetrievalsHaveTierAndPerhapsText) {
  v1::Retrieval retrieval;
  EXPECT_EQ(Dump(ToJson(retrieval)), R"({"position":0,"group":0,"candidates":0,"hits":[]})");
  *retrieval.add_hits() = HitOf(v1::TIER_STATES);
  *retrieval.add_hits() = HitOf(static_cast<v1::Tier>(77));
  retrieval.mutable_hits(1)->set_text("x");
  retrieval.mutable_hits(1)->set_quote("y");
  EXPECT_EQ(Dump(ToJson(retrieval)["hits"]),
            R"([{"document":"d","chunk":1,"score":2.5,"weight":0.5,"tier":"states","text_begin":3,)"
            R"("text_end":4},{"document":"d","chunk":1,"score":2.5,"weight":0.5,"tier":"unknown",)"
            R"("text_begin":3,"text_end":4,"text":"x","quote":"y"}])");
}

TEST(JsonTest, GenerationsEndWithReasonAndUsage) {
  client::GenerateResult result;
  result.text = "x";
  result.tokens = {5};
  result.done.set_reason(v1::FINISH_REASON_MAX_TOKENS);
  result.done.mutable_usage()->set_prompt_tokens(3);
  EXPECT_EQ(Dump(ToJson(result)),
            R"({"text":"x","tokens":[5],"finish_reason":"max_tokens","usage":{"prompt_tokens":3,)"
            R"("generated_tokens":0,"time_to_first_token_ms":0.0,"generation_ms":0.0,)"
            R"("cached_tokens":0,"dropped_messages":0}})");
  result.retrievals.Add()->set_position(64);
  EXPECT_EQ(ToJson(result)["retrievals"][0]["position"], 64);
}

TEST(JsonTest, StatsAreSortedAndCountCodes) {
  v1::Stats stats;
  stats.set_backend("cpu");
  v1::RpcStats& rpc = *stats.add_rpcs();
  for (const char* code : {"OK", "DATA_LOSS"}) {
    rpc.add_codes()->set_code(code);
    rpc.mutable_codes()->rbegin()->set_count(2);
  }
  const Json json = ToJson(stats);
  EXPECT_EQ(Dump(json["rpcs"][0]["codes"]), R"({"DATA_LOSS":2,"OK":2})");
  std::string names;
  for (const auto& [name, value] : json.items()) names += name + " ";
  EXPECT_EQ(names.find("cached_prompt_tokens cached_prompts chunk_hits_memory chunk_hits_states"),
            0u)
      << names;
  EXPECT_NE(names.find("store_reads landmark_step_p50_ms "), std::string::npos) << names;
  EXPECT_NE(names.find("uptime_s store_cache_read_only store_read_only backend chunk_states_format "
                       "index landmark_index rpcs "),
            std::string::npos)
      << names;
}

TEST(JsonTest, PatternsByLayerAreLists) {
  v1::ModelInfo info;
  EXPECT_FALSE(ToJson(info).contains("layer_patterns"));
  EXPECT_TRUE(ToJson(info)["dilations"].is_array());
  for (const char* unset : {"local", "windows", "initials", "context", "max_context", "top_k"})
    EXPECT_FALSE(ToJson(info).contains(unset));
  info.add_layer_patterns()->add_heads()->set_window(5);
  EXPECT_EQ(Dump(ToJson(info)["layer_patterns"]),
            R"([[{"window":5,"dilation":0,"initial":0,"span":0}]])");
}

}  // namespace
}  // namespace recollect::cli
