// Where the blocks of a document end (docs/model-format.md, "Blocks of documents"). Sessions, whose
// next token is not known, close a block when it is full.
#ifndef RECOLLECT_MODEL_BLOCK_ENDS_H_
#define RECOLLECT_MODEL_BLOCK_ENDS_H_

#include <cstdint>
#include <span>

#include "model/model.h"

namespace recollect::model {

// Number of tokens in the block that begins with `tokens`, the next ones of a document; `final`: no
// others follow. 0 when more must be known to say. A function of the tokens from the block's first
// to the one after the longest block, so that documents have the same blocks however they arrive.
// In a family without landmarks blocks are tiles of LayerState::kMaxAppend tokens.
int64_t NextBlock(const Model& model, std::span<const int32_t> tokens, bool final);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_BLOCK_ENDS_H_
