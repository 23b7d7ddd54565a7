// Answers by drafts: what the judge chooses is said, and nothing else of an answer changes. The
// golden judge prefers unlikely first tokens.
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "model/judge.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {
namespace {

constexpr int kTokens = 12;  // of an answer: three times as many as a draft has

std::string Question(int i) { return SampleText(60, 100 + static_cast<uint64_t>(i)); }

GenerateRequest AskBy(const std::string& question, bool drafts) {
  GenerateRequest request;
  request.session_options.mounts = {"d"};
  request.prompt.messages = {{.role = ChatRole::kUser, .content = question}};
  request.max_tokens = kTokens;
  request.stop_repetition = false;
  request.drafts = drafts;
  request.with_retrievals = true;
  return request;
}

// The same, and the log probabilities of its tokens and of the likeliest in their places.
GenerateRequest Telling(GenerateRequest request, int64_t likeliest) {
  request.logprobs = likeliest;
  return request;
}

bool ReadsDocuments(const Generated& answer) {
  return !answer.retrievals.empty() && answer.retrievals.front().nothing.value_or(1) < 0.5f;
}

std::vector<int32_t> From(const std::vector<int32_t>& tokens, int64_t begin) {
  return {tokens.begin() + begin, tokens.end()};
}

// A draft as the judge sees it.
model::Draft DraftOf(const JudgedDrafts::Draft& told) {
  model::Draft draft{
      .tokens = {}, .logprobs = {}, .ended = told.ended, .from_span = told.from_span};
  for (const TokenLogprob& one : told.tokens) {
    draft.tokens.push_back(one.token);
    draft.logprobs.push_back(one.logprob);
  }
  if (told.ended) draft.tokens.pop_back();
  return draft;
}

// The tokens of a greedy answer that was made to begin with these, and their log probabilities
// after them, up to `most`.
std::vector<TokenLogprob> GoOn(Engine& engine, const std::string& question,
                               const std::vector<int32_t>& begin, int64_t most) {
  GenerateRequest request = Telling(AskBy(question, false), 0);
  request.generated = begin;
  std::vector<TokenLogprob> said;
  for (const ChosenLogprob& one : Generate(engine, request).logprobs)
    if (std::ssize(begin) + std::ssize(said) < most) said.push_back(one.chosen);
  return said;
}

TEST_P(AdapterTest, TheJudgeChoosesAmongGreedyAnswersAndSpans) {
  const auto model = AdapterModelForTest();
  const auto engine = MakeWithDocument();
  const model::Judge& judge = *model->judge();
  const int64_t most = judge.config().draft_tokens;
  int compared = 0, others = 0, spans = 0;
  for (int i = 0; i < 8; ++i) {
    GenerateRequest request = AskBy(Question(i), true);
    request.with_drafts = true;
    const Generated answer = Generate(*engine, request);
    ASSERT_THAT(answer.status, IsOk());
    if (answer.drafts.empty()) continue;
    ASSERT_TRUE(ReadsDocuments(answer));
    ASSERT_EQ(answer.drafts.size(), 1u);
    const JudgedDrafts& told = answer.drafts.front();
    EXPECT_FALSE(told.spans.empty());
    EXPECT_LT(told.nothing, 0);
    std::vector<double> scores;
    size_t span = 0;
    for (const JudgedDrafts::Draft& draft : told.drafts) {
      // Each goes on as an answer does that has begun with it.
      std::vector<int32_t> begin = {draft.tokens.front().token};
      if (draft.from_span) {
        const std::string text(absl::StripAsciiWhitespace(told.spans[span++].text));
        begin = *model->tokenizer()->Encode(text);
        begin.resize(static_cast<size_t>(std::min<int64_t>(std::ssize(begin), most)));
        ++spans;
      }
      const std::vector<TokenLogprob> rest = GoOn(*engine, Question(i), begin, most);
      ASSERT_EQ(draft.tokens.size(), begin.size() + rest.size());
      for (size_t n = 0; n < draft.tokens.size(); ++n) {
        const int32_t token = n < begin.size() ? begin[n] : rest[n - begin.size()].token;
        EXPECT_EQ(draft.tokens[n].token, token);
      }
      for (size_t n = 0; n < rest.size(); ++n)
        EXPECT_EQ(draft.tokens[begin.size() + n].logprob, rest[n].logprob);
      scores.push_back(draft.score);
    }
    const auto best = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
    const std::vector<int32_t> said = DraftOf(told.drafts[best]).tokens;
    EXPECT_EQ(std::vector(answer.tokens.begin(), answer.tokens.begin() + std::ssize(said)), said);
    ++compared;
    others += best > 0 ? 1 : 0;
  }
  EXPECT_GE(compared, 4);
  EXPECT_GE(others, 2);
  EXPECT_GE(spans, 4);
}

// A memory from before there were readers.
TEST_P(AdapterTest, WithoutAReaderDraftsAreThoseOfFirstTokensAlone) {
  const std::string directory = ::testing::TempDir() + "/without_reader";
  WriteTinyAdapter(directory);
  nlohmann::json root = nlohmann::json::parse(ReadFile(directory + "/memory.json"));
  root.erase("reader");
  WriteFile(directory + "/memory.json", root.dump());
  const auto engine =
      MakeOf(std::shared_ptr<const model::CpuModel>(model::CpuModel::Load(directory).value()));
  ASSERT_THAT(IngestTokens(*engine, "d", golden_.Ids("tokens")), IsOk());
  int drafted = 0;
  for (int i = 0; i < 4; ++i) {
    GenerateRequest request = AskBy(Question(i), true);
    request.with_drafts = true;
    const Generated answer = Generate(*engine, request);
    ASSERT_THAT(answer.status, IsOk());
    if (answer.drafts.empty()) continue;
    ++drafted;
    EXPECT_TRUE(answer.drafts.front().spans.empty());
    for (const JudgedDrafts::Draft& draft : answer.drafts.front().drafts)
      EXPECT_FALSE(draft.from_span);
  }
  EXPECT_GE(drafted, 1);
}

// An answer that begins with a span tells of which block it is, even if only the reader has read
// it.
TEST_P(AdapterTest, AnAnswerFromASpanQuotesItsBlock) {
  const auto engine = MakeWithDocument();
  int quoted = 0;
  for (int i = 0; i < 16; ++i) {
    GenerateRequest request = AskBy(Question(i), true);
    request.with_drafts = true;
    const Generated answer = Generate(*engine, request);
    if (answer.drafts.empty()) continue;
    const JudgedDrafts& told = answer.drafts.front();
    const auto best = std::ranges::max_element(told.drafts, {}, &JudgedDrafts::Draft::score);
    const auto spans =
        std::ranges::count_if(told.drafts.begin(), best, &JudgedDrafts::Draft::from_span);
    std::vector<std::string> quotes;
    for (const Hit& hit : answer.retrievals.front().hits) {
      if (hit.quote.empty()) continue;
      quotes.push_back(hit.quote);
      const JudgedDrafts::Span& span = told.spans.at(static_cast<size_t>(spans));
      EXPECT_EQ(hit.chunk, told.blocks.at(static_cast<size_t>(span.block)).chunk);
      EXPECT_EQ(hit.quote, absl::StripAsciiWhitespace(span.text));
    }
    EXPECT_EQ(quotes.size(), best->from_span ? 1u : 0u);
    quoted += best->from_span ? 1 : 0;
  }
  EXPECT_GE(quoted, 2);
}

// The numbers by which drafts are judged come from the blocks that were read, first those of the
// answer, then the reader's own.
TEST_P(AdapterTest, ScoresAreTheJudges) {
  const auto model = AdapterModelForTest();
  const auto engine = MakeWithDocument();
  GenerateRequest request = AskBy(Question(0), true);
  request.with_drafts = true;
  const Generated answer = Generate(*engine, request);
  ASSERT_EQ(answer.drafts.size(), 1u);
  const JudgedDrafts& told = answer.drafts.front();
  std::vector<int64_t> read;
  for (const Hit& hit : answer.retrievals.front().hits) read.push_back(hit.chunk);
  const auto chunk = [&](size_t i) { return told.blocks.at(i).chunk; };
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(chunk(i), read[i]);
  EXPECT_GT(told.blocks.size(), read.size());
  for (size_t i = read.size(); i < told.blocks.size(); ++i) {
    EXPECT_THAT(read, ::testing::Not(::testing::Contains(chunk(i))));
    EXPECT_LE(told.blocks[i].weight, told.blocks.front().weight);
  }
  std::vector<std::vector<int32_t>> texts;
  std::vector<model::ReadBlock> blocks;
  for (const Hit& hit : told.blocks) {
    const std::string text = *engine->ReadText("d", hit.text_begin, hit.text_end);
    texts.push_back(*model->tokenizer()->Encode(text));
    blocks.push_back({{}, hit.weight, 0});
  }
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b].tokens = texts[b];
  model::Reading reading{.spans = {}, .nothing = told.nothing};
  for (const JudgedDrafts::Span& span : told.spans) {
    const auto block = static_cast<size_t>(span.block);
    ASSERT_LT(block, texts.size());
    const auto found = std::search(texts[block].begin(), texts[block].end(), span.tokens.begin(),
                                   span.tokens.end());
    ASSERT_NE(found, texts[block].end());
    const auto first = static_cast<int>(found - texts[block].begin());
    reading.spans.push_back(
        {block, first, first + static_cast<int>(std::ssize(span.tokens)) - 1, span.logprob});
  }
  std::vector<model::Draft> drafts;
  for (const JudgedDrafts::Draft& draft : told.drafts) drafts.push_back(DraftOf(draft));
  const std::vector<double> scores =
      model->judge()->Scores(*model->tokenizer()->Encode(Question(0)), blocks, reading, drafts);
  for (size_t k = 0; k < scores.size(); ++k) EXPECT_DOUBLE_EQ(told.drafts[k].score, scores[k]) << k;
}

TEST_P(AdapterTest, AnAnswerByDraftsIsOneLikeAnyOther) {
  const auto engine = MakeWithDocument();
  for (int i = 0; i < 4; ++i) {
    const GenerateRequest request = AskBy(Question(i), true);
    const Generated answer = Generate(*engine, request);
    ASSERT_THAT(answer.status, IsOk());
    const Generated told = Generate(*engine, Telling(request, 2));
    EXPECT_EQ(told.tokens, answer.tokens);
    ASSERT_GE(told.logprobs.size(), answer.tokens.size());
    for (size_t n = 0; n < answer.tokens.size(); ++n) {
      EXPECT_EQ(told.logprobs[n].chosen.token, answer.tokens[n]);
      EXPECT_EQ(told.logprobs[n].top.size(), 2u);
    }
    for (const int64_t said : {1, 3, 7}) {  // within the draft and after it
      if (said >= std::ssize(answer.tokens)) continue;
      GenerateRequest shorter = request, on = request;
      shorter.max_tokens = said;
      const std::vector<int32_t> beginning = Generate(*engine, shorter).tokens;
      EXPECT_EQ(beginning, std::vector(answer.tokens.begin(), answer.tokens.begin() + said));
      on.generated = beginning;
      EXPECT_EQ(Generate(*engine, on).tokens, From(answer.tokens, said)) << "broken off";
    }
    EXPECT_EQ(Generate(*engine, request).usage.generated_tokens, std::ssize(answer.tokens));
  }
}

TEST_P(AdapterTest, DraftsAreTheSameBesideOthersAndInTheNextTurn) {
  const auto engine = MakeWithDocument(), fresh = MakeWithDocument();
  std::vector<Generated> alone;
  for (int i = 0; i < 6; ++i) alone.push_back(Generate(*engine, AskBy(Question(i), true)));
  std::vector<std::shared_ptr<Collector>> collectors;
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int i = 0; i < 6; ++i) {
    collectors.push_back(std::make_shared<Collector>());
    handles.push_back(engine->Generate(AskBy(Question(i), true), collectors.back()));
  }
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_EQ(collectors[i]->Wait().tokens, alone[i].tokens);
  for (int i = 0; i < 6; ++i) {
    GenerateRequest turn = AskBy(Question(i), true);
    turn.prompt.messages.push_back({.role = ChatRole::kAssistant, .content = alone[i].text});
    turn.prompt.messages.push_back({.role = ChatRole::kUser, .content = "And then?"});
    EXPECT_EQ(Generate(*engine, turn).tokens, Generate(*fresh, turn).tokens);
  }
}

// A session whose drafts were broken off serves the next request as any other does.
TEST_P(AdapterTest, DraftsCanBeCancelledAtAnyStep) {
  const auto engine = MakeWithDocument();
  const std::vector<int32_t> answer = Generate(*engine, AskBy(Question(0), true)).tokens;
  int cancelled = 0;
  for (int cancelled_step = 1; cancelled_step <= 6; ++cancelled_step) {
    std::promise<std::shared_ptr<RequestHandle>> handle;
    int steps = 0;
    engine->scheduler_for_test().ObserveForTest([&](TurnKind, int64_t) {
      if (++steps == cancelled_step) handle.get_future().get()->Cancel();
    });
    const auto collector = std::make_shared<Collector>();
    handle.set_value(engine->Generate(AskBy(Question(0), true), collector));
    cancelled += absl::IsCancelled(collector->Wait().status) ? 1 : 0;
    engine->scheduler_for_test().ObserveForTest(nullptr);
    EXPECT_EQ(Generate(*engine, AskBy(Question(0), true)).tokens, answer) << cancelled_step;
  }
  EXPECT_GE(cancelled, 3);
}

// A session that is kept for later prompts is charged for itself alone, however its drafts ended.
TEST_P(AdapterTest, EndedDraftsAreNotCharged) {
  const auto engine = MakeWithDocument();
  const auto expect_charged_once = [&] {
    const EngineStats stats = engine->stats();
    EXPECT_GT(stats.prompt_cache_bytes, 0);
    EXPECT_EQ(stats.state_bytes, stats.prompt_cache_bytes);
  };
  GenerateRequest request = AskBy(Question(0), true);
  request.max_tokens = 2;  // the draft is the whole answer
  ASSERT_THAT(Generate(*engine, request).status, IsOk());
  expect_charged_once();
  std::promise<std::shared_ptr<RequestHandle>> handle;
  int steps = 0;
  engine->scheduler_for_test().ObserveForTest([&](TurnKind, int64_t) {
    if (++steps == 3) handle.get_future().get()->Cancel();
  });
  const auto collector = std::make_shared<Collector>();
  handle.set_value(engine->Generate(AskBy(Question(1), true), collector));
  EXPECT_TRUE(absl::IsCancelled(collector->Wait().status));
  engine->scheduler_for_test().ObserveForTest(nullptr);
  expect_charged_once();
}

TEST_P(AdapterTest, DraftsAreForGreedyConversationsThatReadDocuments) {
  const auto engine = MakeWithDocument();
  const auto same = [&](const auto& change) {
    for (int i = 0; i < 3; ++i) {
      GenerateRequest with = AskBy(Question(i), true), without = AskBy(Question(i), false);
      change(with);
      change(without);
      EXPECT_EQ(Generate(*engine, with).tokens, Generate(*engine, without).tokens);
    }
  };
  int differ = 0;  // without any of these changes
  for (int i = 0; i < 3; ++i) {
    const Generated with = Generate(*engine, AskBy(Question(i), true));
    differ += with.tokens != Generate(*engine, AskBy(Question(i), false)).tokens ? 1 : 0;
  }
  EXPECT_GE(differ, 1);
  same([](GenerateRequest& request) { request.session_options.mounts.clear(); });
  same([](GenerateRequest& request) { request.sampling.temperature = 1; });
  same([](GenerateRequest& request) { request.sampling.dry_multiplier = 1; });
  same([](GenerateRequest& request) { request.ignore_eos = true; });
  same([](GenerateRequest& request) { request.session_options.window = 40; });  // drops positions
  same([](GenerateRequest& request) { request.prompt = {.text = "Who saw the whale?"}; });
}

}  // namespace
}  // namespace recollect::engine
