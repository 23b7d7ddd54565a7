// Holds the sparse keys of up to 16 384 neighbouring blocks as an inverted index: a list for each
// word of the blocks that have it and its weights there. sparse_topk.h has the score that uses
// them.
//
// A row of a block (a token, as a rule) has a word and a weight, a whole number from 0 to 255. The
// block's scale is the value of a weight of 1. Keys that count words have weights and scales of 1;
// keys with weights of their own in [0, m] have the scale m / 255 and the nearest whole numbers.
// Rows of a block that have the same word make one entry with the sum of their weights, or several
// where that is above 255.
//
// Memory: 3 bytes for each entry, or 1 byte for each block where a word is in more than a third of
// them, and 8 bytes for each word that occurs. docs/decisions/0044-sparse-search.md has the bytes
// per token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace recollect::kernels {

// The rows of neighbouring blocks; borrowed.
struct SparseRows {
  std::span<const int32_t> words;       // [rows], each in [0, word_count)
  std::span<const uint8_t> weights;     // [rows]; empty: 1 each
  std::span<const int64_t> block_rows;  // [blocks]: the rows of each block, in order
  std::span<const float> scales;        // [blocks], positive; empty: 1 each
  int32_t word_count = 0;
};

// The entries of one word: a list of some, or for many entries the weights of all blocks.
struct SparseList {
  const uint16_t* blocks = nullptr;  // [count], in order; null: all
  const uint8_t* weights = nullptr;  // [count]
  int64_t count = 0;
};

// Where the parts of a range stand that Pack has made one array of. Borrows that array.
struct SparseLists {
  const int32_t* words = nullptr;        // [word_count] that have lists, in order
  const uint32_t* begins = nullptr;      // [word_count + 1]: where their entries begin, and the end
  const float* scales = nullptr;         // [blocks]; null: 1 each
  const int32_t* everywhere = nullptr;   // [everywhere_count] that have weights of all blocks
  const uint16_t* entries = nullptr;     // blocks, list after list
  const uint8_t* weights = nullptr;      // of the entries
  const uint8_t* all_weights = nullptr;  // [everywhere_count, blocks]
  int32_t word_count = 0;
  int32_t everywhere_count = 0;
  int32_t blocks = 0;
  friend bool operator==(const SparseLists&, const SparseLists&) = default;
};

// Immutable; thread-safe.
class SparseRange {
 public:
  static constexpr int64_t kMaxBlocks = 16384;
  // The most that the weights of a block may add up to: 64 rows of 255, and some.
  static constexpr int64_t kMaxBlockWeight = 16384;
  // Memory of a word that occurs, without its entries.
  static constexpr int64_t kWordBytes = sizeof(int32_t) + sizeof(uint32_t);

  // REQUIRES: at most kMaxBlocks blocks of at most kMaxBlockWeight each, which have all of the rows
  // between them.
  static SparseRange Make(const SparseRows& rows);

  // Makes a range in which each block also has the words of nearby blocks: a word weighs weights[d]
  // in a block that is d blocks away from the nearest block of this range with that word, and
  // nothing from weights.size() blocks away on. This range's first `before` and last `after` blocks
  // only lend their words and are left out. Scales are 1 each. REQUIRES: weights that are positive,
  // before + after <= blocks().
  SparseRange Spread(int64_t before, int64_t after, std::span<const uint8_t> weights) const;

  int64_t blocks() const { return blocks_; }
  // The scales [blocks]; empty: 1 each.
  std::span<const float> scales() const { return scales_; }
  // Returns an empty list for a word that no block has.
  SparseList list(int32_t word) const;

  int64_t bytes() const;  // in memory
  // Returns the most that bytes() can be for that many rows with `words` different words.
  static int64_t MaxBytes(int64_t rows, int64_t blocks, int64_t words);

  // Returns all of the range as one array of at most bytes() bytes, for the memory of a device.
  std::vector<std::byte> Pack() const;
  // Returns where its parts are once it has been copied to `memory`, a multiple of 4 bytes.
  SparseLists PackedAt(const void* memory) const;

 private:
  // The bytes of an entry of a list; a word with the weights of all blocks takes one byte a block.
  static constexpr int64_t kEntryBytes = sizeof(uint16_t) + sizeof(uint8_t);

  class Builder;
  class Spreader;

  void ShrinkWords();

  int64_t blocks_ = 0;
  std::vector<int32_t> words_;        // that have lists, in order
  std::vector<uint32_t> begins_;      // of their entries, and the end of the last
  std::vector<uint16_t> entries_;     // blocks, list after list
  std::vector<uint8_t> weights_;      // [entries]
  std::vector<int32_t> everywhere_;   // words that have weights of all blocks, in order
  std::vector<uint8_t> all_weights_;  // [those words, blocks]
  std::vector<float> scales_;
};

}  // namespace recollect::kernels
