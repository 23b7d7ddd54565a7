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
#include "engine/backend/cpu/adapter_readers.h"
#include "engine/backend/cpu/compute_threads.h"
#include "gmock/gmock.h"
#include "model/judge.h"
#include "model/reranker.h"
#include "model/text/sentence.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {
namespace {

using Candidate = JudgedCandidates::Candidate;

constexpr int kTokens = 16;  // of an answer: more than a sentence has here

std::string Question(int i) { return SampleText(60, 100 + static_cast<uint64_t>(i)); }

GenerateRequest AskBy(const std::string& question, bool quotes) {
  GenerateRequest request;
  request.session_options.mounts = {"d"};
  request.prompt.messages = {{.role = ChatRole::kUser, .content = question}};
  request.max_tokens = kTokens;
  request.stop_repetition = false;
  request.quotes = quotes;
  request.with_candidates = quotes;
  request.with_retrievals = true;
  return request;
}

// The same, and the log probabilities of its tokens and of the likeliest in their places.
GenerateRequest Telling(GenerateRequest request, int64_t likeliest) {
  request.logprobs = likeliest;
  return request;
}

std::vector<int32_t> From(const std::vector<int32_t>& tokens, int64_t begin) {
  return {tokens.begin() + begin, tokens.end()};
}

const Candidate& BestIn(const Generated& answer) {
  return *std::ranges::max_element(answer.candidates.front().candidates, {}, &Candidate::score);
}

// The text of document "d" in one line.
std::string TextOfDocument(Engine& engine) {
  return model::InOneLine(*engine.ReadText("d", 0, engine.GetDocument("d")->bytes));
}

// Changes memory.json.
template <typename Change>
void ChangeMemory(const std::string& directory, const Change& change) {
  nlohmann::ordered_json root = nlohmann::ordered_json::parse(ReadFile(directory + "/memory.json"));
  change(root);
  WriteFile(directory + "/memory.json", root.dump());
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

TEST_P(AdapterTest, TheBestCandidateIsSaid) {
  const auto engine = MakeWithDocument();
  const std::string text = TextOfDocument(*engine);
  int quoted = 0;
  for (int i = 0; i < 8; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    ASSERT_THAT(answer.status, IsOk());
    if (answer.candidates.empty()) continue;
    ASSERT_EQ(answer.candidates.size(), 1u);
    const JudgedCandidates& told = answer.candidates.front();
    EXPECT_LT(told.nothing, 0);
    ASSERT_GE(told.candidates.size(), 3u);
    const size_t sentences = told.candidates.size() - 2;
    EXPECT_TRUE(told.candidates[sentences].tokens.empty());
    EXPECT_EQ(told.candidates[sentences].block, -2);
    EXPECT_EQ(told.candidates.back().text, "No.");
    EXPECT_EQ(told.candidates.back().block, -1);
    EXPECT_EQ(answer.tokens, BestIn(answer).tokens);
    EXPECT_EQ(answer.text, BestIn(answer).text);
    EXPECT_EQ(answer.reason, FinishReason::kEos);
    for (size_t k = 0; k < sentences; ++k) {
      const Candidate& one = told.candidates[k];
      EXPECT_LE(one.tokens.size(), 12u);
      EXPECT_LT(one.block, std::ssize(told.blocks));
      EXPECT_THAT(text, ::testing::HasSubstr(one.text));
    }
    ++quoted;
  }
  EXPECT_GE(quoted, 4);
}

// Makes sentences best that have the question's words.
void JudgeByWords(const std::string& directory) {
  ChangeMemory(directory, [](nlohmann::ordered_json& root) {
    auto& linear = root["judge"]["linear"];
    for (size_t i = 0; i < linear.size(); ++i)
      linear[i] = i == model::CandidateFeature::kAsked ? 1 : 0;
    root["judge"]["hidden"] = nlohmann::ordered_json::array();
    root["judge"]["sentence_tokens"] = 40;
  });
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

// Of memories of earlier releases neither the judge nor the reranker is used.
TEST_P(AdapterTest, AnEarlierJudgeIsNotUsed) {
  const auto of_drafts = [](nlohmann::ordered_json& root) {
    root["judge"] = {{"drafts", 6},
                     {"draft_tokens", 16},
                     {"refusal", "No."},
                     {"linear", std::vector<double>(16)},
                     {"hidden", nlohmann::ordered_json::array()}};
    root.erase("reader");
    root.erase("reranker");
  };
  const auto of_sentences = [](nlohmann::ordered_json& root) {
    root["judge"].erase("passage_blocks");
    root["reranker"]["context_tokens"] = 16;
  };
  const auto answer = [&](const auto& change) {
    const auto engine = MakeChanged(
        "earlier_judge", [&](const std::string& directory) { ChangeMemory(directory, change); });
    const Generated quoting = Generate(*engine, AskBy(Question(0), true));
    EXPECT_THAT(quoting.status, IsOk());
    EXPECT_TRUE(quoting.candidates.empty());
    EXPECT_EQ(quoting.tokens, Generate(*engine, AskBy(Question(0), false)).tokens);
  };
  answer(of_drafts);
  answer(of_sentences);
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

// The numbers by which candidates are judged come from the blocks that were read, first those of
// the answer, then the reader's own.
TEST_P(AdapterTest, ScoresAreTheJudges) {
  const auto model = AdapterModelForTest();
  const auto engine = MakeWithDocument();
  const Generated answer = Generate(*engine, AskBy(Question(0), true));
  ASSERT_EQ(answer.candidates.size(), 1u);
  const JudgedCandidates& told = answer.candidates.front();
  std::vector<int64_t> read;
  for (const Hit& hit : answer.retrievals.front().hits) read.push_back(hit.chunk);
  const bool added = !answer.retrievals.front().hits.back().quote.empty();
  const auto chunk = [&](size_t i) { return told.blocks.at(i).chunk; };
  for (size_t i = 0; i + (added ? 1 : 0) < read.size(); ++i) EXPECT_EQ(chunk(i), read[i]);
  EXPECT_GT(told.blocks.size(), read.size());
  std::vector<std::vector<int32_t>> texts;
  std::vector<model::ReadBlock> blocks;
  for (const Hit& hit : told.blocks) {
    const std::string text = *engine->ReadText("d", hit.text_begin, hit.text_end);
    texts.push_back(*model->tokenizer()->Encode(text));
    blocks.push_back({{}, hit.weight, 0});
  }
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b].tokens = texts[b];
  std::vector<model::Candidate> candidates;
  for (const Candidate& one : told.candidates)
    candidates.push_back({one.tokens, one.block, one.logprob, one.reranked});
  const std::vector<int32_t> question = *model->tokenizer()->Encode(Question(0));
  const std::vector<double> scores =
      model->judge()->Scores({question, blocks, told.unneeded, told.nothing}, candidates);
  for (size_t k = 0; k < scores.size(); ++k)
    EXPECT_DOUBLE_EQ(told.candidates[k].score, scores[k]) << k;
}

// A document of one block is one passage, whose sentences are read together.
TEST_P(AdapterTest, SentencesAreReranked) {
  const auto model = AdapterModelForTest();
  const auto engine = Make();
  ASSERT_THAT(Ingest(*engine, "d", "The mill burnt. Nobody saw it.\n\nA boat left."), IsOk());
  const std::vector<std::string> sentences = {"The mill burnt.", "Nobody saw it.", "A boat left."};
  for (int i = 0; i < 2; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    ASSERT_EQ(answer.candidates.size(), 1u);
    const std::vector<Candidate>& told = answer.candidates.front().candidates;
    ASSERT_EQ(told.size(), sentences.size() + 2);
    const model::RerankerText text =
        model::MakeRerankerText(*model->tokenizer(), model->config().adapter.reranker,
                                model::InOneLine(Question(i)), sentences);
    ComputeThreads threads(2);
    const std::vector<float> scores = RerankOn(threads, *model, {&text, 1}).front();
    EXPECT_NEAR(told[sentences.size()].reranked, scores[0], 0.02F);
    EXPECT_NE(scores[0], 0);
    for (size_t k = 0; k < sentences.size(); ++k) {
      EXPECT_THAT(sentences[k], ::testing::StartsWith(told[k].text)) << "at most 12 tokens";
      EXPECT_NEAR(told[k].reranked, scores[k + 1], 0.02F) << sentences[k];
    }
  }
}

// Whatever is asked, since only there it may say what the document is about.
TEST_P(AdapterTest, TheOpeningOfADocumentIsRead) {
  const auto engine = Make();
  ASSERT_THAT(Ingest(*engine, "d", SampleText(4000, 5)), IsOk());
  int openings = 0;
  for (int i = 0; i < 8; ++i) {
    const Generated answer = Generate(*engine, AskBy(Question(i), true));
    ASSERT_EQ(answer.candidates.size(), 1u);
    const JudgedCandidates& told = answer.candidates.front();
    const auto opening = std::ranges::find(told.blocks, 0, &Hit::chunk);
    ASSERT_NE(opening, told.blocks.end());
    EXPECT_EQ(std::ranges::count(told.blocks, 0, &Hit::chunk), 1);
    openings += opening->weight == 0 ? 1 : 0;
    EXPECT_THAT(told.candidates, ::testing::Contains(::testing::Field(
                                     &Candidate::block, opening - told.blocks.begin())));
  }
  EXPECT_GE(openings, 1) << "the opening was always among the best blocks";
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
