// Questions to an engine that answers by quotes, and changes of its judge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "model/config/judge_config.h"
#include "model/text/sentence.h"
#include "nlohmann/json.hpp"
#include "tests/engine/adapter_testing.h"

namespace recollect::engine {

using Candidate = JudgedCandidates::Candidate;

inline constexpr int kQuoteTokens = 16;  // of an answer: more than a sentence has here

inline std::string Question(int i) { return SampleText(60, 100 + static_cast<uint64_t>(i)); }

inline GenerateRequest AskBy(const std::string& question, bool quotes) {
  GenerateRequest request;
  request.session_options.mounts = {"d"};
  request.prompt.messages = {{.role = ChatRole::kUser, .content = question}};
  request.max_tokens = kQuoteTokens;
  request.stop_repetition = false;
  request.quotes = quotes;
  request.with_candidates = quotes;
  request.with_retrievals = true;
  return request;
}

inline const Candidate& BestIn(const Generated& answer) {
  return *std::ranges::max_element(answer.candidates.front().candidates, {}, &Candidate::score);
}

// The text of document "d" in one line.
inline std::string TextOfDocument(Engine& engine) {
  return model::InOneLine(*engine.ReadText("d", 0, engine.GetDocument("d")->bytes));
}

// Changes memory.json.
template <typename Change>
void ChangeMemory(const std::string& directory, const Change& change) {
  nlohmann::ordered_json root = nlohmann::ordered_json::parse(ReadFile(directory + "/memory.json"));
  change(root);
  WriteFile(directory + "/memory.json", root.dump());
}

// Makes sentences best that have the question's words.
inline void JudgeByWords(const std::string& directory) {
  ChangeMemory(directory, [](nlohmann::ordered_json& root) {
    auto& linear = root["judge"]["linear"];
    for (size_t i = 0; i < linear.size(); ++i)
      linear[i] = i == model::CandidateFeature::kAsked ? 1 : 0;
    root["judge"]["hidden"] = nlohmann::ordered_json::array();
    root["judge"]["sentence_tokens"] = 40;
  });
}

}  // namespace recollect::engine
