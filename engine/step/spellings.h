// The words of a question as they stand in other places: "sweets" begins a sentence as "Sweets",
// which a tokenizer may cut into other tokens, with words of their own (docs/llama.md, "Memory
// adapter", step 5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sparse_topk/sparse_topk.h"
#include "model/text/tokenizer.h"
#include "model/text/words.h"

namespace recollect::engine {

// Returns terms for the other spelling of each word of `tokens` that has one: with a small first
// letter where the word has a capital one, and the other way round. `weights` are those of the
// tokens' own terms; the tokens of a spelling that the word itself has not share the sum of its.
std::vector<kernels::SparseTerm> OtherSpellings(const model::Tokenizer& tokenizer,
                                                const model::Words& words,
                                                std::span<const int32_t> tokens,
                                                std::span<const float> weights);

}  // namespace recollect::engine
