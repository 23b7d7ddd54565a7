// Where the blocks of a document end (docs/model-format.md, "Blocks of documents"). A session,
// whose next token is not known, closes a block when it is full.
#pragma once

#include <cstdint>
#include <span>

#include "model/model.h"

namespace recollect::model {

// The number of tokens in the block that begins a document's next `tokens`; 0 if more tokens are
// needed to tell. `final`: no tokens follow. The result depends only on the tokens from the block's
// first to the one after the longest possible block, so that a document has the same blocks however
// it arrives. Where documents are prefixes, blocks are tiles of LayerState::kMaxAppend tokens.
// `position`: of the first token in its document, which matters where an adapter divides documents
// into segments, whose ends end blocks.
int64_t NextBlock(const Model& model, std::span<const int32_t> tokens, bool final,
                  int64_t position = 0);

}  // namespace recollect::model
