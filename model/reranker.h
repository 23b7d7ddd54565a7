// The reranker of a memory adapter says how likely a sentence answers a question, from the words of
// both: the base's lower layers with a low-rank change read them
// (docs/decisions/0079-a-reranker-of-sentences.md). CpuModel::Rerank runs it; trained by
// train/memory/train_reranker.py, whose oracle is reranker.py.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/config/reranker_config.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// Read in place of a sentence, it says how likely the answer is left to the model's own words.
inline constexpr std::string_view kNoDocument = "No document is needed.";

// A sentence of a document with the text before it. Borrowed.
struct SentenceInContext {
  std::string_view before, sentence;
};

// Returns the tokens that the reranker reads of one sentence and a question, each cut to what the
// config allows. Texts are UTF-8; of others there are no tokens.
std::vector<int32_t> RerankerTokens(const Tokenizer& tokenizer, const RerankerConfig& config,
                                    const SentenceInContext& sentence, std::string_view question);

}  // namespace recollect::model
