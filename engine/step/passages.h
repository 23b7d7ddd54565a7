// Passages are where the answer to a question may stand: a few of the blocks that an adapter's
// reader has read, with the text around them (docs/llama.md, "Passages").
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/step/piece.h"
#include "model/reading.h"
#include "model/text/sentence.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {

// Returns the bytes of tokens, which need not be UTF-8.
std::string BytesOf(const model::Tokenizer& tokenizer, std::span<const int32_t> tokens);

// A span of the reader as bytes of a passage. Borrowed.
struct PlacedSpan {
  model::TextRange range;
  const model::Span* span = nullptr;
};

// Blocks that follow each other in a document, with the text of the blocks beside them.
struct Passage {
  std::string text;
  std::vector<size_t> blocks;            // of those that were read, by number
  std::vector<model::TextRange> ranges;  // of the blocks in `text`
  std::vector<PlacedSpan> spans;         // in these blocks, the likeliest first

  // The bytes of the blocks.
  model::TextRange inside() const { return {ranges.front().begin, ranges.back().end}; }
  // Returns the block in which the byte `place` stands; the first one for a place before that.
  size_t BlockAt(size_t place) const;
};

// Returns the passages of a question, whose blocks are in turn those with the likeliest spans of
// `reading` and those with the largest weights, at most `most`, and the opening of the best block's
// document. `reading` is of all that `memory` has for the reader, and is borrowed by the spans; the
// text beside the blocks is that of chunks which the piece wants. REQUIRES: there is a block.
std::vector<Passage> FindPassages(const model::Tokenizer& tokenizer, const Piece& piece,
                                  const LandmarkMemory& memory, const model::Reading& reading,
                                  size_t most);

}  // namespace recollect::engine
