// Documents of a family without landmarks: a session that mounts one goes on as if it had read the
// tokens itself, bit for bit.
#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "model/text/tokenizer.h"
#include "tests/engine/session/prefix_testing.h"

namespace recollect::engine {
namespace {

using ::testing::HasSubstr;

TEST_F(PrefixTest, TokensAfterAMountAreThoseAfterTheSamePrompt) {
  auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(300, 3);
  for (const auto& [name, options] : PrefixPatterns()) {
    SCOPED_TRACE(name);
    const std::vector<int32_t> expected = Read(*engine, options, tokens, 40);
    ASSERT_EQ(expected.size(), 40u);
    for (const int64_t split : {1, 2, 63, 64, 65, 66, 128, 129, 257, 299, 300}) {
      const std::string id = absl::StrCat(name, split);
      const auto info = IngestTokens(*engine, id, Part(tokens, 0, split), options);
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_EQ(info->tokens, split);
      EXPECT_EQ(info->chunks, 0);
      const Generated after = Generate(*engine, After(id, options, Part(tokens, split, 300), 40));
      ASSERT_TRUE(after.status.ok()) << after.status;
      EXPECT_EQ(after.tokens, expected) << "split at " << split;
      EXPECT_EQ(after.usage.prompt_tokens, 300 - split);
    }
  }
}

TEST_F(PrefixTest, EverySplitOfOneSequence) {
  auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(140, 4);
  const std::vector<int32_t> expected = Read(*engine, {}, tokens, 3);
  for (int64_t split = 1; split <= 140; ++split) {
    const std::string id = absl::StrCat(split);
    ASSERT_TRUE(IngestTokens(*engine, id, Part(tokens, 0, split)).ok());
    EXPECT_EQ(Generate(*engine, After(id, {}, Part(tokens, split, 140), 3)).tokens, expected)
        << split;
  }
}

TEST_F(PrefixTest, TheStoredStateIsThatOfTheWholeSequenceInOneGo) {
  std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), model_);
  const std::vector<int32_t> tokens = SampleTokens(1000, 5);
  for (const auto& [name, options] : PrefixPatterns()) {
    const auto info = IngestTokens(*engine, name, tokens, options);
    ASSERT_TRUE(info.ok()) << info.status();
    const model::LocalPatterns pattern = *SessionPatterns(*model_, options);
    EXPECT_EQ(info->pattern, pattern.Text());
    StateBudget budget(1 << 30);
    StateCharge charge;
    const auto stored = RestoreState(*model_, pattern, *store,
                                     {info->owner, info->state_bytes, 999}, budget, charge);
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_EQ(budget.used_bytes(), stored->bytes());
    model::LocalState whole = model::LocalState::Create(model_->config(), pattern, 3);
    RunTokens(*model_, pattern, Part(tokens, 0, 999), 50, &whole);
    EXPECT_TRUE(stored->Serialize() == whole.Serialize()) << name;
  }
}

TEST_F(PrefixTest, SlicesMessagesAndCommitsDoNotChangeRecords) {
  const std::string text = SampleText(20000, 9);
  std::string expected;
  for (const int64_t slice : {1, 100, 65536}) {
    for (const int64_t message : {1 << 20, 777, 1}) {
      if (message == 1 && slice != 100) continue;
      SCOPED_TRACE(testing::Message() << slice << " " << message);
      TestOptions options = SmallOptions();
      options.ingest_slice_tokens = slice;
      options.commit_tokens = slice == 1 ? 100 : 3000;
      std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
      auto engine = MakeEngine(options, std::make_unique<ForwardingStore>(store), model_);
      const auto info = Ingest(*engine, "doc", text, message);
      ASSERT_TRUE(info.ok()) << info.status();
      const std::string dump = DumpDocument(*store, "doc", 0);
      if (expected.empty()) expected = dump;
      EXPECT_TRUE(dump == expected);
      EXPECT_GT(info->state_bytes, 0);
      EXPECT_GT(info->stored_bytes, info->state_bytes);
    }
  }
}

TEST_F(PrefixTest, SessionsGoOnByThemselves) {
  auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(400, 6);
  ASSERT_TRUE(IngestTokens(*engine, "doc", Part(tokens, 0, 200)).ok());
  const SessionId one = *engine->OpenSession({.mounts = {"doc"}});
  const SessionId two = *engine->OpenSession({.mounts = {"doc"}});
  EXPECT_EQ(engine->GetSession(one)->positions, 199);  // the last token runs with the first turn
  EXPECT_THAT(engine->GetSession(one)->mounts, testing::ElementsAre("doc"));
  std::vector<int32_t> past = Part(tokens, 0, 200);
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<int32_t> prompt = Part(tokens, 200 + 20 * turn, 220 + 20 * turn);
    const Generated generated = Generate(*engine, TurnRequest(one, prompt, 15));
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    past.insert(past.end(), prompt.begin(), prompt.end());
    ExpectGreedy(past, generated.tokens, default_);
    past.insert(past.end(), generated.tokens.begin(), generated.tokens.end());
  }
  ASSERT_TRUE(engine->DeleteDocument("doc").ok());
  EXPECT_EQ(Generate(*engine, After("doc", {}, {5}, 1)).status.code(), absl::StatusCode::kNotFound);
  const Generated generated = Generate(*engine, TurnRequest(two, Part(tokens, 200, 400), 15));
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  ExpectGreedy(tokens, generated.tokens, default_);
  EXPECT_EQ(engine->stats().prefix_mounts, 2);
  EXPECT_EQ(engine->stats().prefix_tokens, 400);
  EXPECT_EQ(engine->stats().ingested_tokens, 200);
}

TEST_F(PrefixTest, ScoresBehindAPrefixAreThoseOfTheWholeText) {
  auto engine = Make();
  const std::vector<int32_t> tokens = SampleTokens(250, 7);
  ScoreRequest request = ScoreOf(tokens);
  const auto whole = *Score(*engine, request);
  for (const int64_t split : {1, 64, 130, 249}) {
    const std::string id = absl::StrCat(split);
    ASSERT_TRUE(IngestTokens(*engine, id, Part(tokens, 0, split)).ok());
    request.prompt.tokens = Part(tokens, split, 250);
    request.session_options.mounts = {id};
    const auto rest = Score(*engine, request);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_EQ(rest->tokens, request.prompt.tokens);
    EXPECT_TRUE(std::equal(rest->logprobs.begin(), rest->logprobs.end(),
                           whole.logprobs.begin() + split, whole.logprobs.end()));
    EXPECT_TRUE(std::equal(rest->argmax.begin(), rest->argmax.end(), whole.argmax.begin() + split,
                           whole.argmax.end()));
  }
}

// mount(A) and prompt B is the token sequence A ++ B, where of a tokenizer with a dummy prefix A
// has the space and B has none, in the first turn as in later ones.
TEST_F(PrefixTest, TheDummySpaceBelongsToTheDocument) {
  const std::string path = RECOLLECT_SOURCE_DIR "/tests/support/llama_tokenizer.model";
  const auto tokenizer = *model::Tokenizer::Load(path);
  model::ModelConfig config = TinyRatPlusConfig();
  config.vocab_size = tokenizer->vocab_size();
  const std::string directory = ::testing::TempDir() + "/prefix_llama";
  WriteTinyModel(directory, config, 1, /*sublayers=*/8);
  std::filesystem::copy_file(path, directory + "/tokenizer.model",
                             std::filesystem::copy_options::overwrite_existing);
  model_ = *model::CpuModel::Load(directory);
  auto engine = Make();
  const std::string document = "The captain looked at the sea", prompt = " and the ship",
                    more = "went";
  ASSERT_TRUE(Ingest(*engine, "doc", document, 5).ok());
  std::vector<int32_t> tokens = *tokenizer->Encode(document);
  const auto continued = [&](const std::string& text) {
    return tokenizer->EncodePrefix(text, true, 1)->ids;
  };
  // One text that is cut between two words.
  std::vector<int32_t> joined = tokens;
  const std::vector<int32_t> second = continued(prompt), third = continued(more);
  joined.insert(joined.end(), second.begin(), second.end());
  ASSERT_EQ(joined, *tokenizer->Encode(document + prompt));
  ASSERT_NE(second, *tokenizer->Encode(prompt));
  ASSERT_NE(third, *tokenizer->Encode(more));

  const SessionId session = *engine->OpenSession({.mounts = {"doc"}});
  for (const auto& [text, ids] : {std::pair(prompt, second), std::pair(more, third)}) {
    GenerateRequest request;
    request.session = session;
    request.prompt.text = text;
    request.max_tokens = 10;
    request.ignore_eos = true;
    const Generated generated = Generate(*engine, request);
    ASSERT_TRUE(generated.status.ok()) << generated.status;
    EXPECT_EQ(generated.usage.prompt_tokens, static_cast<int64_t>(ids.size()));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    ExpectGreedy(tokens, generated.tokens, default_);
    tokens.insert(tokens.end(), generated.tokens.begin(), generated.tokens.end());
  }
  ScoreRequest score;
  score.session_options.mounts = {"doc"};
  score.prompt.text = prompt;
  EXPECT_EQ(Score(*engine, score)->tokens, second);
  score.prompt.text = "caf\xc3(";
  EXPECT_THAT(std::string(Score(*engine, score).status().message()), HasSubstr("at byte 3"));
}

TEST_F(PrefixTest, ABrokenStreamResumesAtItsLastCommit) {
  const std::string text = SampleText(30000, 10);
  std::shared_ptr<store::DocumentStore> whole = store::CreateMemoryStore();
  auto engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(whole), model_);
  ASSERT_TRUE(Ingest(*engine, "doc", text).ok());

  std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  int64_t before = 0, resumed = 0;
  for (int part = 1; part <= 8; ++part) {
    // Another process each time.
    engine = MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), model_);
    auto stream = engine->BeginIngest("doc", false, {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    const int64_t begin = (*stream)->status().committed_offset;
    EXPECT_GE(begin, before);
    resumed += begin > before ? 1 : 0;
    before = begin;
    std::promise<absl::Status> done;
    (*stream)->Append(begin, text.substr(begin, std::max<int64_t>(3700 * part - begin, 1)),
                      [&](absl::StatusOr<IngestStatus> s) { done.set_value(s.status()); });
    EXPECT_TRUE(done.get_future().get().ok());
    if (part % 2 == 0) stream->reset();  // by the caller, not by the engine's end
    EXPECT_EQ(engine->GetDocument("doc").status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_GT(resumed, 3);
  ASSERT_TRUE(Ingest(*engine, "doc", text).ok());
  EXPECT_TRUE(DumpDocument(*store, "doc", 0) == DumpDocument(*whole, "doc", 0));
  EXPECT_TRUE(engine->ListIngests()->empty());
}

TEST_F(PrefixTest, ASliceThatRestsGivesTheSamePrefix) {
  const std::vector<int32_t> tokens = SampleTokens(3000, 1);
  std::string alone;
  for (const bool beside : {false, true}) {
    const std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
    auto engine = MakeEngine(OneSliceOptions(), std::make_unique<ForwardingStore>(store), model_);
    int pauses = 0;
    EXPECT_EQ(beside ? IngestBesideAStream(*engine, tokens, [&](IngestStream&) { ++pauses; })
                     : IngestTokens(*engine, "beside", tokens).status(),
              absl::OkStatus());
    EXPECT_EQ(pauses > 0, beside);
    const std::string now = DumpDocument(*store, "beside", 0);
    if (!beside) alone = now;
    EXPECT_TRUE(now == alone);
  }
}

TEST_F(PrefixTest, AStreamWaitsForAtMostOneSliceOfAPrefix) {
  TestOptions options = SmallOptions();
  options.commit_tokens = 1 << 20;
  auto engine = Make(options);
  // The last token stays for the session that mounts it.
  const std::string turns =
      TurnsBesideAStream(*engine, SampleTokens(20 * options.ingest_slice_tokens + 1, 1));
  EXPECT_THAT(turns, testing::MatchesRegex("i((p?st)+p?i)+"));
  EXPECT_EQ(std::ranges::count(turns, 'i'), 20);
}

}  // namespace
}  // namespace recollect::engine
