#include "engine/step/passages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"

namespace recollect::engine {
namespace {

// A block that the reader has read.
struct ReadChunk {
  ChunkRef ref;
  std::span<const int32_t> tokens;
};

// Returns the tokens of a chunk that the piece wants; none of others.
std::span<const int32_t> TokensOf(const Piece& piece, ChunkRef ref) {
  const auto wanted = std::ranges::find(piece.wanted, ref, &WantedChunk::ref);
  return wanted != piece.wanted.end() ? wanted->tokens() : std::span<const int32_t>();
}

// Returns which blocks make the passages: those with the likeliest spans and those with the largest
// weights in turn, and the opening of the best one's document.
std::vector<size_t> BlocksOfPassages(std::span<const ReadChunk> blocks,
                                     std::span<const model::Span> spans, size_t most) {
  std::vector<size_t> chosen;
  const auto add = [&](size_t block) {
    if (std::ranges::find(chosen, block) == chosen.end()) chosen.push_back(block);
  };
  for (size_t i = 0; i < blocks.size() && chosen.size() < most; ++i) {
    if (i < spans.size()) add(spans[i].block);
    if (chosen.size() < most) add(i);
  }
  const ChunkRef opening = {blocks.front().ref.owner, 0};
  const auto there = std::ranges::find(blocks, opening, &ReadChunk::ref);
  if (there != blocks.end()) add(static_cast<size_t>(there - blocks.begin()));
  return chosen;
}

// Returns the passages of the chosen blocks, in their order; those that follow each other are one.
std::vector<Passage> PassagesOf(const model::Tokenizer& tokenizer, const Piece& piece,
                                std::span<const ReadChunk> blocks, std::vector<size_t> chosen) {
  const auto find = [&](ChunkRef ref) {
    return std::ranges::find_if(chosen, [&](size_t block) { return blocks[block].ref == ref; });
  };
  const auto text_of = [&](ChunkRef ref) { return BytesOf(tokenizer, TokensOf(piece, ref)); };
  std::vector<Passage> passages;
  while (!chosen.empty()) {
    ChunkRef ref = blocks[chosen.front()].ref;
    while (find({ref.owner, ref.index - 1}) != chosen.end()) --ref.index;
    Passage& passage = passages.emplace_back();
    passage.text = text_of({ref.owner, ref.index - 1});
    for (auto at = find(ref); at != chosen.end(); at = find(ref)) {
      const size_t begin = passage.text.size();
      passage.text += BytesOf(tokenizer, blocks[*at].tokens);
      passage.blocks.push_back(*at);
      passage.ranges.push_back({begin, passage.text.size()});
      chosen.erase(at);
      ++ref.index;
    }
    passage.text += text_of(ref);
  }
  return passages;
}

void PlaceSpans(const model::Tokenizer& tokenizer, std::span<const ReadChunk> blocks,
                std::span<const model::Span> spans, Passage& passage) {
  for (const model::Span& span : spans) {
    const auto block = std::ranges::find(passage.blocks, span.block);
    if (block == passage.blocks.end()) continue;
    const std::span<const int32_t> tokens = blocks[span.block].tokens;
    size_t begin = passage.ranges[static_cast<size_t>(block - passage.blocks.begin())].begin +
                   BytesOf(tokenizer, tokens.first(static_cast<size_t>(span.first))).size();
    const size_t end = begin + BytesOf(tokenizer, model::TokensOf(span, tokens)).size();
    // A token has the blank before its word, which belongs to the sentence before.
    while (begin + 1 < end && absl::ascii_isspace(static_cast<unsigned char>(passage.text[begin])))
      ++begin;
    passage.spans.push_back({{begin, end}, &span});
  }
}

}  // namespace

std::string BytesOf(const model::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string bytes;
  for (const int32_t token : tokens) bytes += tokenizer.TokenBytes(token);
  return bytes;
}

size_t Passage::BlockAt(size_t place) const {
  const auto after = std::ranges::upper_bound(ranges, place, {}, &model::TextRange::begin);
  const auto at = after == ranges.begin() ? after : std::prev(after);
  return blocks[static_cast<size_t>(at - ranges.begin())];
}

std::vector<Passage> FindPassages(const model::Tokenizer& tokenizer, const Piece& piece,
                                  const LandmarkMemory& memory, const model::Reading& reading,
                                  size_t most) {
  std::vector<ReadChunk> blocks;
  memory.ForEachRead([&](const ChunkRef& ref, const ChunkMemory& chunk, float) {
    blocks.push_back({ref, chunk.tokens});
  });
  std::vector<Passage> passages =
      PassagesOf(tokenizer, piece, blocks, BlocksOfPassages(blocks, reading.spans, most));
  for (Passage& passage : passages) PlaceSpans(tokenizer, blocks, reading.spans, passage);
  return passages;
}

}  // namespace recollect::engine
