// What the engine's answers become on the wire; requests are tested by codec_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/stats.h"
#include "google/protobuf/descriptor.h"
#include "model/model.h"
#include "service/codec/codec.h"
#include "tests/support/tiny_model.h"

namespace recollect::service {
namespace {

using ::testing::ElementsAre;

TEST(EncodeTest, DocumentsAndIngests) {
  store::DocumentInfo info;
  info.id = "d";
  info.fingerprint = "f";
  info.from_tokens = true;
  info.bytes = 1;
  info.tokens = 2;
  info.chunks = 3;
  info.created_unix_ms = 4;
  info.stored_bytes = 5;
  info.sha256 = "s";
  info.damage = "checksum";
  const v1::Document document = Encode(info);
  EXPECT_EQ(document.id(), "d");
  EXPECT_EQ(document.fingerprint(), "f");
  EXPECT_TRUE(document.from_tokens());
  EXPECT_EQ(document.bytes(), 1);
  EXPECT_EQ(document.tokens(), 2);
  EXPECT_EQ(document.chunks(), 3);
  EXPECT_EQ(document.created_unix_ms(), 4);
  EXPECT_EQ(document.stored_bytes(), 5);
  EXPECT_EQ(document.sha256(), "s");
  EXPECT_EQ(document.damage(), "checksum");
  info.damage.clear();
  EXPECT_EQ(Encode(info).kind(), v1::DOCUMENT_KIND_CHUNKS);
  EXPECT_FALSE(Encode(info).has_damage() || Encode(info).has_pattern());
  info.pattern = "(window 8)";
  info.state_bytes = 12;
  const v1::Document prefix = Encode(info);
  EXPECT_EQ(prefix.kind(), v1::DOCUMENT_KIND_PREFIX);
  EXPECT_EQ(prefix.pattern(), "(window 8)");
  EXPECT_EQ(prefix.state_bytes(), 12);

  store::IngestProgress unfinished;
  unfinished.id = "d";
  unfinished.fingerprint = "f";
  unfinished.input_offset = 6;
  unfinished.bytes = 7;
  unfinished.tokens = 8;
  unfinished.chunks = 9;
  const v1::UnfinishedIngest ingest = Encode(unfinished);
  EXPECT_EQ(ingest.id(), "d");
  EXPECT_EQ(ingest.fingerprint(), "f");
  EXPECT_EQ(ingest.committed_offset(), 6);
  EXPECT_EQ(ingest.bytes(), 7);
  EXPECT_EQ(ingest.tokens(), 8);
  EXPECT_EQ(ingest.chunks(), 9);
  EXPECT_EQ(ingest.kind(), v1::DOCUMENT_KIND_CHUNKS);
  unfinished.pattern = "(window 8)";
  EXPECT_EQ(Encode(unfinished).kind(), v1::DOCUMENT_KIND_PREFIX);
  EXPECT_EQ(Encode(unfinished).pattern(), "(window 8)");

  const v1::IngestProgress progress = Encode(engine::IngestStatus{1, 2, 3, 4, 5, 6.5, "ab"});
  EXPECT_EQ(progress.committed_offset(), 1);
  EXPECT_EQ(progress.accepted_offset(), 2);
  EXPECT_EQ(progress.bytes(), 3);
  EXPECT_EQ(progress.tokens(), 4);
  EXPECT_EQ(progress.chunks(), 5);
  EXPECT_EQ(progress.tokens_per_s(), 6.5);
  EXPECT_EQ(progress.committed_sha256(), "ab");
}

TEST(EncodeTest, RetrievalsHaveTheirTiers) {
  engine::Retrieval retrieval;
  retrieval.position = 64;
  retrieval.group = 1;
  retrieval.candidates = 100;
  retrieval.hits = {{"a", 1, 2.5f, 0.5f, 10, 20, engine::Tier::kMemory},
                    {"b", 2, 1.5f, 0.25f, 30, 40, engine::Tier::kStates},
                    {"", 3, 0.5f, 0.25f, 50, 60, engine::Tier::kStore}};
  const v1::Retrieval message = Encode(retrieval);
  EXPECT_EQ(message.position(), 64);
  EXPECT_EQ(message.group(), 1);
  EXPECT_EQ(message.candidates(), 100);
  ASSERT_EQ(message.hits_size(), 3);
  EXPECT_EQ(message.hits(0).tier(), v1::TIER_MEMORY);
  EXPECT_EQ(message.hits(1).tier(), v1::TIER_STATES);
  EXPECT_EQ(message.hits(2).tier(), v1::TIER_STORE);
  EXPECT_EQ(message.hits(1).document(), "b");
  EXPECT_EQ(message.hits(1).chunk(), 2);
  EXPECT_EQ(message.hits(1).score(), 1.5f);
  EXPECT_EQ(message.hits(1).weight(), 0.25f);
  EXPECT_EQ(message.hits(1).text_begin(), 30);
  EXPECT_EQ(message.hits(1).text_end(), 40);
  EXPECT_FALSE(message.hits(1).has_text());
}

TEST(EncodeTest, EndsOfGeneration) {
  engine::Usage usage;
  usage.prompt_tokens = 1;
  usage.generated_tokens = 2;
  usage.time_to_first_token = absl::Milliseconds(3);
  usage.generation_time = absl::Milliseconds(4);
  usage.repeats_from = 5;
  const std::pair<engine::FinishReason, v1::FinishReason> reasons[] = {
      {engine::FinishReason::kMaxTokens, v1::FINISH_REASON_MAX_TOKENS},
      {engine::FinishReason::kStop, v1::FINISH_REASON_STOP},
      {engine::FinishReason::kEos, v1::FINISH_REASON_EOS},
      {engine::FinishReason::kRepetition, v1::FINISH_REASON_REPETITION}};
  for (const auto& [reason, encoded] : reasons) {
    const v1::GenerateResponse response = EncodeDone(reason, usage);
    EXPECT_EQ(response.done().reason(), encoded);
    EXPECT_EQ(response.done().usage().prompt_tokens(), 1);
    EXPECT_EQ(response.done().usage().generated_tokens(), 2);
    EXPECT_EQ(response.done().usage().time_to_first_token_ms(), 3);
    EXPECT_EQ(response.done().usage().generation_ms(), 4);
    EXPECT_EQ(response.done().repeats_from(), 5);
  }
}

TEST(EncodeTest, SessionsAndScores) {
  const v1::Session session = Encode(engine::SessionInfo{engine::SessionId{7}, {"a", "b"}, 8, 9});
  EXPECT_EQ(session.id(), 7u);
  EXPECT_THAT(session.mounts(), ElementsAre("a", "b"));
  EXPECT_EQ(session.positions(), 8);
  EXPECT_EQ(session.own_chunks(), 9);
  const v1::ScoreResponse score =
      Encode(engine::ScoreResult{{1, 2}, {-1.0f, -2.0f}, {3, 4}, {-0.5f, -0.25f}, 5});
  EXPECT_THAT(score.tokens(), ElementsAre(1, 2));
  EXPECT_THAT(score.logprobs(), ElementsAre(-1.0f, -2.0f));
  EXPECT_THAT(score.argmax(), ElementsAre(3, 4));
  EXPECT_THAT(score.argmax_logprobs(), ElementsAre(-0.5f, -0.25f));
  EXPECT_EQ(score.text_bytes(), 5);
}

TEST(EncodeTest, Stats) {
  engine::EngineStats stats;
  stats.chunk_hits_store = 3;
  stats.store_read_bytes = 7;
  stats.store_read_p50_ms = 0.25;
  stats.steps = 4;
  stats.ingests = 9;
  stats.max_queued = 10;
  stats.store_read_only = true;
  stats.index = "ivf";
  stats.chunk_states_format = "mxint8";
  stats.indexed_documents = 11;
  stats.indexes_made = 12;
  stats.landmark_step_p99_ms = 5.5;
  v1::Stats message = Encode(stats);
  MethodMetrics metrics;
  metrics.started = 5;
  metrics.running = 1;
  metrics.codes = {{absl::StatusCode::kOk, 3}, {absl::StatusCode::kDataLoss, 1}};
  metrics.total = absl::Milliseconds(8);
  metrics.max = absl::Milliseconds(6);
  *message.add_rpcs() = Encode("Documents/GetDocument", metrics);
  EXPECT_EQ(message.chunk_hits_store(), 3);
  EXPECT_EQ(message.store_read_bytes(), 7);
  EXPECT_EQ(message.store_read_p50_ms(), 0.25);
  EXPECT_EQ(message.steps(), 4);
  EXPECT_EQ(message.ingests(), 9);
  EXPECT_EQ(message.max_queued(), 10);
  EXPECT_TRUE(message.store_read_only());
  EXPECT_EQ(message.index(), "ivf");
  EXPECT_EQ(message.chunk_states_format(), "mxint8");
  EXPECT_EQ(message.indexed_documents(), 11);
  EXPECT_EQ(message.indexes_made(), 12);
  EXPECT_EQ(message.landmark_step_p99_ms(), 5.5);
  const v1::RpcStats& rpc = message.rpcs(0);
  EXPECT_EQ(rpc.method(), "Documents/GetDocument");
  EXPECT_EQ(rpc.started(), 5);
  EXPECT_EQ(rpc.running(), 1);
  ASSERT_EQ(rpc.codes_size(), 2);
  EXPECT_EQ(rpc.codes(0).code(), "OK");
  EXPECT_EQ(rpc.codes(0).count(), 3);
  EXPECT_EQ(rpc.codes(1).code(), "DATA_LOSS");
  EXPECT_EQ(rpc.codes(1).count(), 1);
  EXPECT_EQ(rpc.total_ms(), 8);
  EXPECT_EQ(rpc.max_ms(), 6);
}

TEST(EncodeTest, StatsHaveAllFieldsOfTheEngine) {
  std::set<std::string> names = {"rpcs", "resident_bytes", "uptime_s"};  // of the server
  engine::VisitFields(engine::EngineStats(),
                      [&names](const auto& row, const auto&) { names.insert(row.name); });
  const google::protobuf::Descriptor& message = *v1::Stats::descriptor();
  std::set<std::string> fields;
  for (int i = 0; i < message.field_count(); ++i) fields.insert(message.field(i)->name());
  EXPECT_EQ(names, fields);
}

TEST(EncodeTest, Models) {
  const std::string directory = ::testing::TempDir() + "/encode_model";
  WriteTinyModel(directory, TinyConfig(), 1);
  const auto model = model::Model::Load(directory, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const v1::ModelInfo info = Encode(**model, "tiny");
  EXPECT_EQ(info.name(), "tiny");
  EXPECT_EQ(info.architecture(), "drt");
  EXPECT_EQ(info.fingerprint(), (*model)->fingerprint());
  EXPECT_EQ(info.dtype(), "fp32");
  EXPECT_EQ(info.parameters(), (*model)->parameters());
  EXPECT_EQ(info.vocab_size(), 320);
  EXPECT_TRUE(info.has_tokenizer());
  EXPECT_EQ(info.width(), 32);
  EXPECT_EQ(info.layers(), 5);
  EXPECT_EQ(info.lower_layers(), 2);
  EXPECT_EQ(info.groups(), 2);
  ASSERT_TRUE(info.has_local());
  EXPECT_EQ(info.local().window(), 127);
  EXPECT_THAT(info.dilations(), ElementsAre(8, 16, 32));
  EXPECT_FALSE(info.has_windows());
  EXPECT_FALSE(info.has_top_k());
  EXPECT_FALSE(info.has_max_context());
}

TEST(EncodeTest, ModelsWithPatternsByLayer) {
  const std::string directory = ::testing::TempDir() + "/encode_ratplus";
  const auto pattern = [](int64_t window, int64_t dilation) {
    return model::LocalPattern{window, dilation, 0, model::kUnboundedSpan};
  };
  model::ModelConfig config = TinyRatPlusConfig();
  config.local =
      model::LocalPatterns({{pattern(0, 4)}, {pattern(0, 1), pattern(5, -1)}, {pattern(0, 4)}});
  WriteTinyModel(directory, config, 1);
  const auto model = model::Model::Load(directory, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const v1::ModelInfo info = Encode(**model, "tiny");
  EXPECT_EQ(info.architecture(), "ratplus");
  EXPECT_EQ(info.groups(), 0);
  EXPECT_FALSE(info.has_local());
  ASSERT_EQ(info.layer_patterns_size(), 3);
  ASSERT_EQ(info.layer_patterns(0).heads_size(), 1);
  ASSERT_EQ(info.layer_patterns(1).heads_size(), 2);
  EXPECT_EQ(info.layer_patterns(1).heads(1).window(), 5);
  EXPECT_EQ(info.layer_patterns(1).heads(1).dilation(), -1);
  EXPECT_EQ(info.layer_patterns(1).heads(1).span(), -1);
  EXPECT_THAT(info.dilations(), ElementsAre(-1, 1, 4, 64));
  EXPECT_EQ(info.windows().min(), 8);
  EXPECT_EQ(info.windows().max(), 512);
  EXPECT_EQ(info.initials().max(), 8);
  EXPECT_EQ(info.context(), 256);
  EXPECT_EQ(info.max_context(), 1024);
  ASSERT_TRUE(info.has_top_k());
  EXPECT_EQ(info.top_k().block(), 16);
  EXPECT_EQ(info.top_k().max(), 8);
  EXPECT_EQ(info.top_k().score(), "quest");
}

}  // namespace
}  // namespace recollect::service
