// A memory adapter in the engine: what PyTorch computes (tests/golden/memory), and that it is the
// same in any slices and from any store. Sessions: adapter_sessions_test.cc.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kAskingRows = 63;

// The largest difference, in parts of the largest number.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0, difference = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(double{b[i]}));
    difference = std::max(difference, std::abs(double{a[i]} - b[i]));
  }
  return difference / std::max(most, 1e-9);
}

TEST_P(AdapterTest, DocumentsHaveTheOraclesBlocksKeysAndStates) {
  auto store = store::CreateMemoryStore();
  store::DocumentStore& records = *store;
  auto engine = Make(SmallOptions(), std::move(store));
  const auto info = IngestTokens(*engine, "d", golden_.Ids("tokens"));
  ASSERT_THAT(info, IsOk());
  const std::vector<int32_t> lengths = golden_.Ids("block_lengths");
  ASSERT_EQ(info->chunks, std::ssize(lengths));
  const model::ModelConfig& config = engine->model().config();
  const int64_t key_width = config.key_width(), d_r = config.d_r, d = config.d;
  const int64_t d_p = config.adapter.d_pointer;
  const auto keys = records.ReadLandmarkKeys(info->owner, info->chunks, key_width);
  ASSERT_THAT(keys, IsOk());
  std::vector<float> dense, weights, states, pointer_keys;
  std::vector<ChunkRef> refs;
  for (int64_t chunk = 0; chunk < info->chunks; ++chunk) {
    for (int64_t i = 0; i < key_width; ++i) {
      const float value = (*keys)[static_cast<size_t>(chunk * key_width + i)].ToFloat();
      (i < d_r ? dense : weights).push_back(value);
    }
    refs.push_back({info->owner, chunk});
  }
  const auto chunks = records.ReadChunks(refs);
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    ASSERT_THAT(chunks[chunk], IsOk());
    ASSERT_EQ(chunks[chunk]->rows, lengths[chunk]) << chunk;
    std::vector<float> padded(static_cast<size_t>(kAskingRows * config.state_width()));
    std::transform(chunks[chunk]->states.begin(), chunks[chunk]->states.end(), padded.begin(),
                   [](Bf16 value) { return value.ToFloat(); });
    for (int64_t row = 0; row < kAskingRows; ++row) {
      const auto begin = padded.begin() + row * config.state_width();
      states.insert(states.end(), begin, begin + d);
      pointer_keys.insert(pointer_keys.end(), begin + d, begin + d + d_p);
    }
  }
  // Stored in bf16.
  EXPECT_LE(Difference(dense, golden_.Floats("keys")), 1.0 / 256);
  EXPECT_LE(Difference(weights, golden_.Floats("word_weights")), 1.0 / 256);
  EXPECT_LE(Difference(states, golden_.Floats("states")), 1.0 / 256);
  EXPECT_LE(Difference(pointer_keys, golden_.Floats("pointer_keys")), 1.0 / 256);
}

TEST_P(AdapterTest, AnswersAsTheOracleDoes) {
  auto engine = MakeWithDocument();
  for (const char* name : {"case.safetensors", "short.safetensors"}) {
    const Golden golden(name);
    GenerateRequest request = Ask(golden.Ids("prompt"));
    request.ignore_eos = false;
    request.logprobs = 1;
    const Generated generated = Generate(*engine, request);
    ASSERT_THAT(generated.status, IsOk());
    EXPECT_EQ(generated.tokens, golden.Ids("answer")) << name;
    const std::vector<float> log_probs = golden.Floats("log_probs");
    const TokenLogprob& first = generated.logprobs[0].chosen;
    EXPECT_NEAR(first.logprob, log_probs[static_cast<size_t>(first.token)], 2e-2) << name;

    ASSERT_THAT(generated.retrievals, SizeIs(1));
    const Retrieval& retrieval = generated.retrievals[0];
    ASSERT_TRUE(retrieval.nothing.has_value());
    EXPECT_NEAR(*retrieval.nothing, golden.Floats("weight_nothing")[0], 5e-3) << name;
    const std::vector<int32_t> chosen = golden.Ids("chosen");
    const std::vector<float> weights = golden.Floats("weights");
    const std::vector<float> scores = golden.Floats("scores");
    ASSERT_EQ(retrieval.hits.size(), chosen.size()) << name;
    float best = -std::numeric_limits<float>::infinity();
    for (const Hit& hit : retrieval.hits) {
      const auto at = std::ranges::find(chosen, hit.chunk) - chosen.begin();
      ASSERT_LT(at, std::ssize(chosen)) << name << hit.chunk;
      EXPECT_NEAR(hit.weight, weights[static_cast<size_t>(at)], 5e-3) << name;
      best = std::max(best, hit.score);
    }
    EXPECT_NEAR(best, *std::ranges::max_element(scores), 5e-2) << name;
    EXPECT_EQ(retrieval.candidates, std::ssize(scores));
  }
}

TEST_P(AdapterTest, WithNothingMountedItIsTheBase) {
  auto engine = MakeWithDocument();
  GenerateRequest request = Ask(golden_.Ids("prompt"), {});
  request.ignore_eos = false;
  const Generated generated = Generate(*engine, request);
  ASSERT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.tokens, golden_.Ids("base_answer"));
  EXPECT_THAT(generated.retrievals, IsEmpty());
  // And of the same bits as the base without an adapter.
  auto base = model::CpuModel::Load(TinyAdapterGolden() + "/base");
  ASSERT_THAT(base, IsOk());
  auto plain = MakeOf(std::shared_ptr<const model::CpuModel>(*std::move(base)));
  for (int32_t seed = 0; seed < 20; ++seed) {
    GenerateRequest asked = TokensRequest(Tokens(10 + 11 * seed, seed), 12);
    asked.logprobs = 3;
    const Generated with = Generate(*engine, asked), without = Generate(*plain, asked);
    EXPECT_EQ(with.tokens, without.tokens);
    for (size_t i = 0; i < with.logprobs.size(); ++i) {
      EXPECT_EQ(with.logprobs[i].chosen.logprob, without.logprobs[i].chosen.logprob) << seed;
    }
  }
}

TEST_P(AdapterTest, AnySlicesGiveTheSameDocumentAndAnswer) {
  const std::vector<int32_t> document = golden_.Ids("tokens"), prompt = golden_.Ids("prompt");
  std::string all;
  for (const int64_t slice : {1, 64, 200, 100000}) {
    TestOptions options = SmallOptions();
    options.ingest_slice_tokens = options.shared_slice_tokens = slice;
    options.prefill_slice_tokens = slice;
    options.commit_tokens = 100;
    auto store = store::CreateMemoryStore();
    store::DocumentStore& records = *store;
    auto engine = Make(options, std::move(store));
    ASSERT_THAT(IngestTokens(*engine, "d", document), IsOk());
    const std::string now = Records(records, "d", engine->model().config().key_width());
    if (all.empty()) all = now;
    EXPECT_TRUE(now == all) << slice;
    EXPECT_EQ(Generate(*engine, Ask(prompt)).tokens,
              Generate(*MakeWithDocument(), Ask(prompt)).tokens)
        << slice;
  }
}

TEST_P(AdapterTest, AnIngestResumesInTheMiddleOfASegment) {
  const std::vector<int32_t> document = golden_.Ids("tokens");
  auto store = store::CreateMemoryStore();
  store::DocumentStore& records = *store;
  auto engine = Make(SmallOptions(), std::move(store));
  ASSERT_THAT(IngestTokens(*engine, "whole", document), IsOk());
  const int64_t width = engine->model().config().key_width();
  for (const int64_t cut : {70, 128, 200, 300}) {
    const std::string id = absl::StrCat("cut", cut);
    {
      auto stream = engine->BeginIngest(id, /*from_tokens=*/true, {});
      ASSERT_THAT(stream, IsOk());
      const std::vector<int32_t> part(document.begin(), document.begin() + cut);
      ASSERT_THAT(AppendTokens(**stream, 0, part), IsOk());
      ASSERT_THAT(Commit(**stream), IsOk());
    }
    auto stream = engine->BeginIngest(id, /*from_tokens=*/true, {});
    ASSERT_THAT(stream, IsOk());
    const int64_t offset = (*stream)->status().committed_offset;
    EXPECT_GT(offset, 0);
    const std::vector<int32_t> rest(document.begin() + offset, document.end());
    ASSERT_THAT(AppendTokens(**stream, offset, rest), IsOk());
    ASSERT_THAT(Finish(**stream), IsOk());
    EXPECT_TRUE(Records(records, id, width) == Records(records, "whole", width)) << cut;
  }
}

// A token is scored before it is part of what asks.
TEST_P(AdapterTest, ScoresWhatItWouldSay) {
  auto engine = MakeWithDocument();
  const std::vector<int32_t> prompt = golden_.Ids("prompt");
  GenerateRequest asked = Ask(prompt);
  asked.logprobs = 1;
  const Generated generated = Generate(*engine, asked);
  ScoreRequest request = ScoreOf(prompt, {"d"});
  request.prompt.tokens.insert(request.prompt.tokens.end(), generated.tokens.begin(),
                               generated.tokens.end());
  request.flush_after = {std::ssize(prompt)};
  const auto scored = Score(*engine, request);
  ASSERT_THAT(scored, IsOk());
  for (size_t i = 0; i < generated.tokens.size(); ++i) {
    EXPECT_EQ(scored->logprobs[prompt.size() + i], generated.logprobs[i].chosen.logprob) << i;
  }
  // The prompt's own tokens are the base's.
  const auto base = Score(*engine, ScoreOf(prompt));
  ASSERT_THAT(base, IsOk());
  for (size_t i = 0; i < prompt.size(); ++i) EXPECT_EQ(scored->logprobs[i], base->logprobs[i]) << i;
}

TEST_P(AdapterTest, RetrieveFindsWhatAnAnswerWouldRead) {
  auto engine = MakeWithDocument();
  const std::vector<int32_t> prompt = golden_.Ids("prompt");
  const Generated generated = Generate(*engine, Ask(prompt));
  RetrieveRequest request = RetrieveOf(prompt, {"d"});
  const auto same = Retrieve(*engine, request);
  ASSERT_THAT(same, IsOk());
  ASSERT_THAT(*same, SizeIs(1));
  ASSERT_EQ((*same)[0].hits.size(), generated.retrievals[0].hits.size());
  for (size_t i = 0; i < (*same)[0].hits.size(); ++i) {
    EXPECT_EQ((*same)[0].hits[i].chunk, generated.retrievals[0].hits[i].chunk);
    EXPECT_EQ((*same)[0].hits[i].weight, generated.retrievals[0].hits[i].weight);
  }
  // By words alone, as documents that are mounted as text are found.
  request.session_options.mount_as = MountAs::kText;
  request.k = 3;
  const auto by_words = Retrieve(*engine, request);
  ASSERT_THAT(by_words, IsOk());
  EXPECT_THAT((*by_words)[0].hits, SizeIs(3));
  EXPECT_FALSE((*by_words)[0].nothing.has_value());
}

TEST_P(AdapterTest, RetrieveRanksAsManyAsAreAskedFor) {
  auto engine = MakeWithDocument();
  RetrieveRequest request = RetrieveOf(golden_.Ids("prompt"), {"d"});
  const std::vector<float> scores = golden_.Floats("scores");
  std::vector<float> best = scores;
  std::ranges::sort(best, std::greater<>());
  for (const int64_t k : {1, 2, 9}) {
    request.k = k;
    const auto ranked = Retrieve(*engine, request);
    ASSERT_THAT(ranked, IsOk());
    const std::vector<Hit>& hits = (*ranked)[0].hits;
    ASSERT_THAT(hits, SizeIs(k));
    for (size_t i = 0; i < hits.size(); ++i) {
      EXPECT_NEAR(hits[i].score, scores[static_cast<size_t>(hits[i].chunk)], 5e-2) << i;
      EXPECT_NEAR(hits[i].score, best[i], 5e-2) << i;
    }
  }
}

TEST_P(AdapterTest, TheOrderOfMountingChangesNoAnswer) {
  auto engine = MakeWithDocument();
  ASSERT_THAT(IngestTokens(*engine, "e", Tokens(500, 11)), IsOk());
  const std::vector<int32_t> prompt = golden_.Ids("prompt");
  EXPECT_EQ(Generate(*engine, Ask(prompt, {"d", "e"})).tokens,
            Generate(*engine, Ask(prompt, {"e", "d"})).tokens);
}

TEST_P(AdapterTest, DocumentsMayBeMountedAsTextToo) {
  auto engine = MakeWithDocument();
  const auto ask = [&](MountAs mount_as) {
    GenerateRequest request = Ask(golden_.Ids("prompt"));
    request.session_options.mount_as = mount_as;
    request.session_options.text_tokens = 100;
    return Generate(*engine, request);
  };
  const Generated memory = ask(MountAs::kMemory), text = ask(MountAs::kText);
  const Generated both = ask(MountAs::kBoth);
  EXPECT_EQ(memory.tokens, ask(MountAs::kDefault).tokens);
  for (const Generated* one : {&memory, &text, &both}) ASSERT_THAT(one->status, IsOk());
  ASSERT_THAT(text.retrievals, SizeIs(1));
  EXPECT_TRUE(text.retrievals[0].as_text);
  EXPECT_FALSE(text.retrievals[0].nothing.has_value());
  EXPECT_GT(text.usage.prompt_tokens, memory.usage.prompt_tokens);
  ASSERT_THAT(both.retrievals, SizeIs(2));
  EXPECT_TRUE(both.retrievals[0].as_text);
  EXPECT_TRUE(both.retrievals[1].nothing.has_value());
  EXPECT_EQ(both.usage.prompt_tokens, text.usage.prompt_tokens);
  // The passages of the text are read by the base.
  EXPECT_NE(both.tokens, text.tokens);
  EXPECT_EQ(ask(MountAs::kText).tokens, text.tokens);
  EXPECT_EQ(ask(MountAs::kMemory).tokens, memory.tokens);
}

INSTANTIATE_TEST_SUITE_P(Places, AdapterTest, kPlaces, NameOfPlace);

}  // namespace
}  // namespace recollect::engine