// The reranker of a memory adapter says how likely each sentence of a passage answers a question,
// from the words of both: the base's lower layers with a low-rank change read them
// (docs/decisions/0081-the-reranker-reads-passages.md). RerankerRun runs it; trained by
// train/memory/train_reranker.py, whose oracle is reranker.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/reranker_config.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// Read in front of a passage, it says how likely the answer is left to the model's own words.
inline constexpr std::string_view kNoDocument = "No document is needed.";

// A text for the reranker: a question, and then a line for kNoDocument and for each sentence.
struct RerankerText {
  std::vector<int32_t> tokens;
  std::vector<size_t> ends;  // of the lines: the index of the last token of each, ascending
};

// Returns the text of a question and the sentences of a passage, each cut to what the config
// allows. All are UTF-8; of others there are no tokens.
RerankerText MakeRerankerText(const Tokenizer& tokenizer, const RerankerConfig& config,
                              std::string_view question, std::span<const std::string> sentences);

}  // namespace recollect::model
