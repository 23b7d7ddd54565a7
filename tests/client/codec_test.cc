// The two codecs against each other: what the client encodes the service decodes to the same, and
// the other way round.
#include "client/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/codec.h"
#include "tests/support/tiny_model.h"

namespace recollect::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ClientCodecTest, GenerateRequestsGoThrough) {
  GenerateRequest request;
  request.session.mounts = {"a", "b"};
  request.session.dilation = -1;
  request.session.window = 0;
  request.session.initial = 4;
  request.session.context = 5000;
  request.session.top_k_blocks = 7;
  request.session.layer_windows = {{0}, {5, 9}};
  request.session.random_chunks = true;
  request.prompt.text = "Wie geht's? Żółw";
  request.flush = false;
  request.sampling = {0.5, 0.25, 40, 99, 0.75, 3};
  request.max_tokens = 17;
  request.stop = {".", "\n\n"};
  request.ignore_eos = true;
  request.with_retrievals = true;
  const engine::GenerateRequest decoded = service::DecodeGenerate(Encode(request)).value();
  EXPECT_EQ(decoded.session_options.mounts, request.session.mounts);
  EXPECT_EQ(decoded.session_options.dilation, -1);
  EXPECT_EQ(decoded.session_options.window, 0);
  EXPECT_EQ(decoded.session_options.initial, 4);
  EXPECT_EQ(decoded.session_options.context, 5000);
  EXPECT_EQ(decoded.session_options.top_k_blocks, 7);
  EXPECT_EQ(decoded.session_options.layer_windows, request.session.layer_windows);
  EXPECT_TRUE(decoded.session_options.layer_dilations.empty());
  EXPECT_TRUE(decoded.session_options.random_chunks);
  EXPECT_EQ(decoded.prompt.text, request.prompt.text);
  EXPECT_FALSE(decoded.flush);
  EXPECT_EQ(decoded.sampling.temperature, 0.5);
  EXPECT_EQ(decoded.sampling.top_p, 0.25);
  EXPECT_EQ(decoded.sampling.top_k, 40);
  EXPECT_EQ(decoded.sampling.seed, 99u);
  EXPECT_EQ(decoded.sampling.dry_multiplier, 0.75);
  EXPECT_EQ(decoded.sampling.dry_allowed_length, 3);
  EXPECT_EQ(decoded.max_tokens, 17);
  EXPECT_EQ(decoded.stop, request.stop);
  EXPECT_TRUE(decoded.ignore_eos);
  EXPECT_TRUE(decoded.want_hits);
  EXPECT_FALSE(decoded.session.has_value());
}

TEST(ClientCodecTest, ATopPTooSmallForTheWireIsNotOne) {
  GenerateRequest request;
  request.sampling.top_p = 1e-46;
  EXPECT_LT(service::DecodeGenerate(Encode(request)).value().sampling.top_p, 1e-30);
  request.sampling.top_p = 0;
  EXPECT_EQ(service::DecodeGenerate(Encode(request)).value().sampling.top_p, 1);
}

TEST(ClientCodecTest, RequestsInASessionLeaveItsOptionsOut) {
  GenerateRequest request;
  request.session_id = 5;
  const engine::GenerateRequest decoded = service::DecodeGenerate(Encode(request)).value();
  EXPECT_EQ(decoded.session, engine::SessionId{5});
}

TEST(ClientCodecTest, DefaultsAreTheSameOnBothSides) {
  const engine::GenerateRequest decoded =
      service::DecodeGenerate(Encode(GenerateRequest{})).value();
  const engine::GenerateRequest expected;
  EXPECT_EQ(decoded.max_tokens, expected.max_tokens);
  EXPECT_EQ(decoded.flush, expected.flush);
  EXPECT_EQ(decoded.sampling.top_p, expected.sampling.top_p);
  EXPECT_EQ(decoded.sampling.temperature, expected.sampling.temperature);
}

TEST(ClientCodecTest, RetrieveAndScoreRequestsGoThrough) {
  RetrieveRequest retrieve;
  retrieve.session.mounts = {"a"};
  retrieve.query.tokens = {5, 6};
  retrieve.k = 12;
  const engine::RetrieveRequest decoded = service::DecodeRetrieve(Encode(retrieve)).value();
  EXPECT_THAT(decoded.session_options.mounts, ElementsAre("a"));
  EXPECT_THAT(decoded.query.tokens, ElementsAre(5, 6));
  EXPECT_EQ(decoded.k, 12);
  ScoreRequest score;
  score.prompt.text = "abc";
  score.flush_after = {1, 3};
  const engine::ScoreRequest scored = service::DecodeScore(Encode(score)).value();
  EXPECT_EQ(scored.prompt.text, "abc");
  EXPECT_THAT(scored.flush_after, ElementsAre(1, 3));
}

TEST(ClientCodecTest, DocumentsAndIngestsComeBack) {
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
  const Document document = Decode(service::Encode(info));
  EXPECT_EQ(document.id, "d");
  EXPECT_EQ(document.fingerprint, "f");
  EXPECT_TRUE(document.from_tokens);
  EXPECT_EQ(document.bytes, 1);
  EXPECT_EQ(document.tokens, 2);
  EXPECT_EQ(document.chunks, 3);
  EXPECT_EQ(document.created_unix_ms, 4);
  EXPECT_EQ(document.stored_bytes, 5);
  EXPECT_EQ(document.sha256, "s");
  EXPECT_EQ(document.damage, "checksum");
  info.damage.clear();
  EXPECT_EQ(Decode(service::Encode(info)).kind, "chunks");
  info.pattern = "(window 8)";
  info.state_bytes = 12;
  const Document prefix = Decode(service::Encode(info));
  EXPECT_EQ(prefix.kind, "prefix");
  EXPECT_EQ(prefix.pattern, "(window 8)");
  EXPECT_EQ(prefix.state_bytes, 12);

  store::IngestProgress unfinished;
  unfinished.id = "d";
  unfinished.fingerprint = "f";
  unfinished.input_offset = 6;
  unfinished.bytes = 7;
  unfinished.tokens = 8;
  unfinished.chunks = 9;
  const UnfinishedIngest ingest = Decode(service::Encode(unfinished));
  EXPECT_EQ(ingest.id, "d");
  EXPECT_EQ(ingest.fingerprint, "f");
  EXPECT_EQ(ingest.committed_offset, 6);
  EXPECT_EQ(ingest.bytes, 7);
  EXPECT_EQ(ingest.tokens, 8);
  EXPECT_EQ(ingest.chunks, 9);
  EXPECT_EQ(ingest.kind, "chunks");
  unfinished.pattern = "(window 8)";
  EXPECT_EQ(Decode(service::Encode(unfinished)).kind, "prefix");
  EXPECT_EQ(Decode(service::Encode(unfinished)).pattern, "(window 8)");

  const IngestProgress progress =
      Decode(service::Encode(engine::IngestStatus{1, 2, 3, 4, 5, 6.5, "ab"}));
  EXPECT_EQ(progress.committed_offset, 1);
  EXPECT_EQ(progress.accepted_offset, 2);
  EXPECT_EQ(progress.bytes, 3);
  EXPECT_EQ(progress.tokens, 4);
  EXPECT_EQ(progress.chunks, 5);
  EXPECT_EQ(progress.tokens_per_s, 6.5);
  EXPECT_EQ(progress.committed_sha256, "ab");
}

TEST(ClientCodecTest, RetrievalsComeBackWithTheirTiers) {
  engine::Retrieval retrieval;
  retrieval.position = 64;
  retrieval.group = 1;
  retrieval.candidates = 100;
  retrieval.hits = {{"a", 1, 2.5f, 0.5f, 10, 20, engine::Tier::kDevice},
                    {"b", 2, 1.5f, 0.25f, 30, 40, engine::Tier::kHost},
                    {"", 3, 0.5f, 0.25f, 50, 60, engine::Tier::kStore}};
  const Retrieval decoded = Decode(service::Encode(retrieval));
  EXPECT_EQ(decoded.position, 64);
  EXPECT_EQ(decoded.group, 1);
  EXPECT_EQ(decoded.candidates, 100);
  ASSERT_EQ(decoded.hits.size(), 3u);
  EXPECT_EQ(decoded.hits[0].tier, "device");
  EXPECT_EQ(decoded.hits[1].tier, "host");
  EXPECT_EQ(decoded.hits[2].tier, "store");
  EXPECT_EQ(decoded.hits[1].document, "b");
  EXPECT_EQ(decoded.hits[1].chunk, 2);
  EXPECT_EQ(decoded.hits[1].score, 1.5f);
  EXPECT_EQ(decoded.hits[1].weight, 0.25f);
  EXPECT_EQ(decoded.hits[1].text_begin, 30);
  EXPECT_EQ(decoded.hits[1].text_end, 40);
}

TEST(ClientCodecTest, EndsOfGenerationComeBack) {
  engine::Usage usage;
  usage.prompt_tokens = 1;
  usage.generated_tokens = 2;
  usage.time_to_first_token = absl::Milliseconds(3);
  usage.generation_time = absl::Milliseconds(4);
  const std::pair<engine::FinishReason, std::string> reasons[] = {
      {engine::FinishReason::kMaxTokens, "max_tokens"},
      {engine::FinishReason::kStop, "stop"},
      {engine::FinishReason::kEos, "eos"}};
  for (const auto& [reason, name] : reasons) {
    GenerateResult result;
    DecodeDone(service::EncodeDone(reason, usage).done(), &result);
    EXPECT_EQ(result.finish_reason, name);
    EXPECT_EQ(result.usage.prompt_tokens, 1);
    EXPECT_EQ(result.usage.generated_tokens, 2);
    EXPECT_EQ(result.usage.time_to_first_token_ms, 3);
    EXPECT_EQ(result.usage.generation_ms, 4);
  }
}

TEST(ClientCodecTest, SessionsAndScoresComeBack) {
  const Session session =
      Decode(service::Encode(engine::SessionInfo{engine::SessionId{7}, {"a", "b"}, 8, 9}));
  EXPECT_EQ(session.id, 7u);
  EXPECT_THAT(session.mounts, ElementsAre("a", "b"));
  EXPECT_EQ(session.positions, 8);
  EXPECT_EQ(session.own_chunks, 9);
  const ScoreResult score =
      Decode(service::Encode(engine::ScoreResult{{1, 2}, {-1.0f, -2.0f}, {3, 4}, 5}));
  EXPECT_THAT(score.tokens, ElementsAre(1, 2));
  EXPECT_THAT(score.logprobs, ElementsAre(-1.0f, -2.0f));
  EXPECT_THAT(score.argmax, ElementsAre(3, 4));
  EXPECT_EQ(score.text_bytes, 5);
}

TEST(ClientCodecTest, StatsComeBackUnderTheirProtoNames) {
  engine::EngineStats stats;
  stats.chunk_hits_store = 3;
  stats.store_read_bytes = 7;
  stats.store_read_p50_ms = 0.25;
  stats.steps = 4;
  stats.landmark_step_p99_ms = 5.5;
  v1::Stats message = service::Encode(stats);
  service::MethodMetrics metrics;
  metrics.started = 5;
  metrics.running = 1;
  metrics.codes = {{absl::StatusCode::kOk, 3}, {absl::StatusCode::kDataLoss, 1}};
  metrics.total = absl::Milliseconds(8);
  metrics.max = absl::Milliseconds(6);
  *message.add_rpcs() = service::Encode("Documents/GetDocument", metrics);
  const Stats decoded = Decode(message);
  EXPECT_EQ(decoded.counters.at("chunk_hits_store"), 3);
  EXPECT_EQ(decoded.counters.at("store_read_bytes"), 7);
  EXPECT_EQ(decoded.gauges.at("store_read_p50_ms"), 0.25);
  EXPECT_EQ(decoded.counters.at("steps"), 4);
  EXPECT_EQ(decoded.gauges.at("landmark_step_p99_ms"), 5.5);
  ASSERT_EQ(decoded.rpcs.size(), 1u);
  EXPECT_EQ(decoded.rpcs[0].method, "Documents/GetDocument");
  EXPECT_EQ(decoded.rpcs[0].started, 5);
  EXPECT_EQ(decoded.rpcs[0].running, 1);
  EXPECT_THAT(decoded.rpcs[0].codes, ElementsAre(Pair("DATA_LOSS", 1), Pair("OK", 3)));
  EXPECT_EQ(decoded.rpcs[0].total_ms, 8);
  EXPECT_EQ(decoded.rpcs[0].max_ms, 6);
}

TEST(ClientCodecTest, ModelsComeBack) {
  const std::string directory = ::testing::TempDir() + "/client_codec_model";
  WriteTinyModel(directory, TinyConfig(), 1);
  const auto model = model::Model::Load(directory);
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelInfo info = Decode(service::Encode(**model, "tiny"));
  EXPECT_EQ(info.name, "tiny");
  EXPECT_EQ(info.architecture, "drt");
  EXPECT_EQ(info.fingerprint, (*model)->fingerprint());
  EXPECT_EQ(info.dtype, "fp32");
  EXPECT_EQ(info.parameters, (*model)->parameters());
  EXPECT_EQ(info.vocab_size, 320);
  EXPECT_TRUE(info.has_tokenizer);
  EXPECT_EQ(info.width, 32);
  EXPECT_EQ(info.layers, 5);
  EXPECT_EQ(info.lower_layers, 2);
  EXPECT_EQ(info.groups, 2);
  ASSERT_TRUE(info.local.has_value());
  EXPECT_EQ(info.local->window, 127);
  EXPECT_THAT(info.dilations, ElementsAre(8, 16, 32));
  EXPECT_FALSE(info.windows.has_value());
  EXPECT_FALSE(info.top_k.has_value());
  EXPECT_EQ(info.max_context, 0);
}

TEST(ClientCodecTest, ModelsWithPatternsByLayerComeBack) {
  const std::string directory = ::testing::TempDir() + "/client_codec_ratplus";
  const auto pattern = [](int64_t window, int64_t dilation) {
    return model::LocalPattern{window, dilation, 0, model::kUnboundedSpan};
  };
  model::ModelConfig config = TinyRatPlusConfig();
  config.local =
      model::LocalPatterns({{pattern(0, 4)}, {pattern(0, 1), pattern(5, -1)}, {pattern(0, 4)}});
  WriteTinyModel(directory, config, 1);
  const auto model = model::Model::Load(directory);
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelInfo info = Decode(service::Encode(**model, "tiny"));
  EXPECT_EQ(info.architecture, "ratplus");
  EXPECT_EQ(info.groups, 0);
  EXPECT_FALSE(info.local.has_value());
  ASSERT_EQ(info.layer_patterns.size(), 3u);
  ASSERT_EQ(info.layer_patterns[0].size(), 1u);
  ASSERT_EQ(info.layer_patterns[1].size(), 2u);
  EXPECT_EQ(info.layer_patterns[1][1].window, 5);
  EXPECT_EQ(info.layer_patterns[1][1].dilation, -1);
  EXPECT_EQ(info.layer_patterns[1][1].span, -1);
  EXPECT_THAT(info.dilations, ElementsAre(-1, 1, 4, 64));
  EXPECT_EQ(info.windows->min, 8);
  EXPECT_EQ(info.windows->max, 512);
  EXPECT_EQ(info.initials->max, 8);
  EXPECT_EQ(info.context, 256);
  EXPECT_EQ(info.max_context, 1024);
  ASSERT_TRUE(info.top_k.has_value());
  EXPECT_EQ(info.top_k->block, 16);
  EXPECT_EQ(info.top_k->max, 8);
  EXPECT_EQ(info.top_k->score, "quest");
}

}  // namespace
}  // namespace recollect::client
