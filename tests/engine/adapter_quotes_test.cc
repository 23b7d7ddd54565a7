// Answers that quote: the sentence that the judge chooses is said, and nothing else of an answer
// changes. The golden judge prefers long sentences of unlikely spans.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "model/text/sentence.h"
#include "nlohmann/json.hpp"
#include "tests/engine/adapter_quotes_testing.h"

namespace recollect::engine {
namespace {

// The same, and the log probabilities of its tokens and of the likeliest in their places.
GenerateRequest Telling(GenerateRequest request, int64_t likeliest) {
  request.logprobs = likeliest;
  return request;
}

std::vector<int32_t> From(const std::vector<int32_t>& tokens, int64_t begin) {
  return {tokens.begin() + begin, tokens.end()};
}

// Adds to the judge's scores of the model's own words.
void PreferOwnWords(const std::string& directory, double more) {
  ChangeMemory(directory, [&](nlohmann::ordered_json& root) {
    nlohmann::ordered_json& weight = root["judge"]["linear"][1];
    weight = weight.get<double>() + more;
  });
}

// Adds to the score of nothing, so that some messages need a document and some do not.
void RaiseNothing(const std::string& directory, float more) {
  std::string file = ReadFile(directory + "/memory.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  const auto tensors = nlohmann::json::parse(file.substr(sizeof(header), header));
  const size_t at =
      sizeof(header) + header + tensors["score.nothing.bias"]["data_offsets"][0].get<size_t>();
  Bf16 bias;
  std::memcpy(&bias, file.data() + at, sizeof(bias));
  bias = Bf16::FromFloat(bias.ToFloat() + more);
  std::memcpy(file.data() + at, &bias, sizeof(bias));
  WriteFile(directory + "/memory.safetensors", file);
}

// Each question of a message is answered by a line of its own, with its block.
TEST_P(AdapterTest, EachQuestionOfAMessageIsAnswered) {
  const auto engine = MakeChanged("by_words", JudgeByWords);
  const std::string text = TextOfDocument(*engine);
  int several = 0;
  for (size_t i = 0; i < 8; ++i) {
    const auto part = [&](size_t at) { return model::WholeCharacters(text.substr(at, 40)) + "?"; };
    const std::string message = part(50 * i) + " " + part(50 * i + 400);
    const GenerateRequest request = AskBy(message, true);
    const Generated answer = Generate(*engine, request);
    ASSERT_THAT(answer.status, IsOk());
    if (answer.candidates.size() < 2) continue;
    std::vector<std::string> lines, quotes;
    for (const JudgedCandidates& told : answer.candidates) {
      const Candidate& best = *std::ranges::max_element(told.candidates, {}, &Candidate::score);
      if (best.block == -2 || std::ranges::find(lines, best.text) != lines.end()) continue;
      lines.push_back(best.text);
      if (best.block >= 0) quotes.push_back(best.text);
    }
    std::vector<std::string> told;
    for (const Hit& hit : answer.retrievals.front().hits)
      for (const auto line : absl::StrSplit(hit.quote, '\n', absl::SkipEmpty()))
        told.emplace_back(line);
    EXPECT_THAT(told, ::testing::UnorderedElementsAreArray(quotes));
    GenerateRequest whole = request, on = request;
    whole.max_tokens = on.max_tokens = 100;
    on.generated = answer.tokens;
    const Generated all = Generate(*engine, whole);
    EXPECT_EQ(all.text, absl::StrJoin(lines, "\n"));
    EXPECT_EQ(Generate(*engine, on).tokens, From(all.tokens, std::ssize(answer.tokens)));
    several += lines.size() > 1 ? 1 : 0;
  }
  EXPECT_GE(several, 2);
}

// Lines that are alike are no repetition of the model's.
TEST_P(AdapterTest, AnswersOfAMessageMayBeAlike) {
  const auto engine = MakeChanged("by_words", JudgeByWords);
  ASSERT_THAT(engine->DeleteDocument("d"), IsOk());
  const std::string boat = "The boat that left the harbour of the island in the morning was green.";
  const std::string mill = "The mill that left the harbour of the island in the morning was green.";
  ASSERT_THAT(Ingest(*engine, "d", boat + " " + mill), IsOk());
  GenerateRequest request = AskBy("Is it a green boat? Is it a green mill?", true);
  request.stop_repetition.reset();
  request.max_tokens = 100;
  const Generated answer = Generate(*engine, request);
  EXPECT_EQ(answer.text, boat + "\n" + mill);
  EXPECT_EQ(answer.reason, FinishReason::kEos);
  EXPECT_EQ(Generate(*engine, Telling(request, 1)).text, answer.text);
  request.generated.assign(answer.tokens.begin(), answer.tokens.end() - 2);
  const Generated rest = Generate(*engine, request);
  EXPECT_EQ(rest.tokens, From(answer.tokens, std::ssize(request.generated)));
  EXPECT_EQ(rest.reason, FinishReason::kEos);
}

// An answer that quotes tells of which block, even if only the reader has read it.
TEST_P(AdapterTest, AQuoteIsToldWithItsBlock) {
  const auto engine = MakeWithDocument();
  int quoted = 0;
  for (int i = 0; i < 16; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    if (answer.candidates.empty()) continue;
    const Candidate& best = BestIn(answer);
    std::vector<std::string> quotes;
    for (const Hit& hit : answer.retrievals.front().hits) {
      if (hit.quote.empty()) continue;
      quotes.push_back(hit.quote);
      EXPECT_EQ(hit.quote, best.text);
      EXPECT_EQ(hit.chunk,
                answer.candidates.front().blocks.at(static_cast<size_t>(best.block)).chunk);
    }
    EXPECT_EQ(quotes.size(), best.block >= 0 ? 1u : 0u);
    quoted += best.block >= 0 ? 1 : 0;
  }
  EXPECT_GE(quoted, 2);
}

TEST_P(AdapterTest, AQuoteIsAnAnswerLikeAnyOther) {
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
    for (const int64_t said : {1, 3, 7}) {
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

TEST_P(AdapterTest, QuotesAreTheSameBesideOthersAndInTheNextTurn) {
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

// A later message that by itself needs no document is answered by the base, whatever was asked
// before.
TEST_P(AdapterTest, ALaterMessageMayNeedNoDocument) {
  const auto engine = MakeChanged("raised_nothing",
                                  [](const std::string& directory) { RaiseNothing(directory, 4); });
  int read = 0, base = 0;
  for (int i = 0; i < 24; ++i) {
    GenerateRequest turn = AskBy(Question(0), true);
    turn.prompt.messages.push_back({.role = ChatRole::kAssistant, .content = "No."});
    turn.prompt.messages.push_back(
        {.role = ChatRole::kUser, .content = SampleText(8, 300 + static_cast<uint64_t>(i))});
    const Generated answer = Generate(*engine, turn);
    ASSERT_THAT(answer.status, IsOk());
    const Retrieval& told = answer.retrievals.front();
    const bool reads = told.nothing.value_or(1) < 0.5f;
    (reads ? read : base) += 1;
    if (reads) continue;
    for (const Hit& hit : told.hits) EXPECT_EQ(hit.weight, 0);
    turn.session_options.mounts.clear();
    EXPECT_EQ(Generate(*engine, turn).tokens, answer.tokens);
  }
  EXPECT_GE(read, 1);
  EXPECT_GE(base, 1);
}

// No layer runs for a quote of which no log probabilities are told: it comes with the last step of
// the prompt.
TEST_P(AdapterTest, AQuoteIsSaidAtOnce) {
  const auto engine = MakeWithDocument();
  int steps = 0;
  engine->scheduler_for_test().ObserveForTest([&](TurnKind, int64_t) { ++steps; });
  const auto steps_of = [&](const GenerateRequest& request) {
    steps = 0;
    EXPECT_THAT(Generate(*engine, request).status, IsOk());
    return steps;
  };
  int quoted = 0;
  for (int i = 0; i < 8; ++i) {
    GenerateRequest request = AskBy(Question(i), true);
    const Generated answer = Generate(*engine, request);
    if (answer.candidates.empty() || BestIn(answer).block == -2) continue;
    EXPECT_LE(steps_of(request), 3);
    EXPECT_GT(steps_of(Telling(request, 0)), static_cast<int>(answer.tokens.size()));
    EXPECT_EQ(answer.usage.generated_tokens, std::ssize(answer.tokens));
    ++quoted;
  }
  EXPECT_GE(quoted, 4);
  engine->scheduler_for_test().ObserveForTest(nullptr);
}

// A session whose quote was broken off serves the next request as any other does.
TEST_P(AdapterTest, QuotesCanBeCancelledAtAnyStep) {
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
    handle.set_value(engine->Generate(Telling(AskBy(Question(0), true), 0), collector));
    cancelled += absl::IsCancelled(collector->Wait().status) ? 1 : 0;
    engine->scheduler_for_test().ObserveForTest(nullptr);
    EXPECT_EQ(Generate(*engine, AskBy(Question(0), true)).tokens, answer) << cancelled_step;
  }
  EXPECT_GE(cancelled, 3);
}

// The layers read no document for the model's own words, whatever is likelier than nothing.
TEST_P(AdapterTest, TheJudgeMayLeaveTheAnswerToTheModel) {
  const auto engine = MakeChanged(
      "own_words", [](const std::string& directory) { PreferOwnWords(directory, 4000); });
  for (int i = 0; i < 3; ++i) {
    GenerateRequest request = AskBy(Question(i), true);
    const Generated answer = Generate(*engine, request);
    ASSERT_THAT(answer.status, IsOk());
    ASSERT_EQ(answer.candidates.size(), 1u);
    EXPECT_LT(answer.candidates.front().unneeded, 0.5F);
    EXPECT_EQ(answer.retrievals.front().nothing, 1.0F);
    for (const Hit& hit : answer.retrievals.front().hits) EXPECT_EQ(hit.weight, 0);
    request.session_options.mounts.clear();
    EXPECT_EQ(Generate(*engine, request).tokens, answer.tokens);
  }
}

// The reader looks for an answer where the layers read nothing.
TEST_P(AdapterTest, ASentenceMayBeQuotedThatTheLayersDoNotRead) {
  const auto engine = MakeChanged("never_own_words", [](const std::string& directory) {
    RaiseNothing(directory, 4);
    PreferOwnWords(directory, -8000);
  });
  int quoted = 0;
  for (int i = 0; i < 24; ++i) {
    const Generated answer =
        Generate(*engine, AskBy(SampleText(8, 300 + static_cast<uint64_t>(i)), true));
    ASSERT_THAT(answer.status, IsOk());
    if (answer.candidates.empty() || answer.candidates.front().unneeded < 0.5F) continue;
    EXPECT_EQ(answer.tokens, BestIn(answer).tokens);
    EXPECT_EQ(answer.retrievals.front().nothing, answer.candidates.front().unneeded);
    for (const Hit& hit : answer.retrievals.front().hits)
      EXPECT_EQ(hit.weight > 0, !hit.quote.empty());
    ++quoted;
  }
  EXPECT_GE(quoted, 1);
}

TEST_P(AdapterTest, QuotesAreForConversationsThatReadDocuments) {
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
  same([](GenerateRequest& request) { request.ignore_eos = true; });
  same([](GenerateRequest& request) { request.prompt = {.text = "Who saw the whale?"}; });
}

}  // namespace
}  // namespace recollect::engine
