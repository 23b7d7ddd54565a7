#include "kernels/sparse_topk/sparse_range.h"

#include <algorithm>

namespace recollect::kernels {
namespace {

constexpr uint32_t kMaxInEntry = 255;

template <typename T>
int64_t BytesOf(const std::vector<T>& numbers) {
  return static_cast<int64_t>(numbers.capacity() * sizeof(T));
}

// Where `word` stands in sorted `words`; -1: nowhere.
int64_t Find(const std::vector<int32_t>& words, int32_t word) {
  const auto found = std::lower_bound(words.begin(), words.end(), word);
  return found != words.end() && *found == word ? found - words.begin() : -1;
}

}  // namespace

// Goes over the rows twice: to count each word's entries, and to write them. Rows of a word in one
// block are put together as they come, by what is kept of its last entry.
class SparseRange::Builder {
 public:
  Builder(const SparseRows& rows, SparseRange& range)
      : rows_(rows), range_(range), states_(static_cast<size_t>(rows.word_count)) {}

  void Run() {
    ForEachRow([](State&, uint32_t, uint32_t, bool) {});
    Place();
    ForEachRow([&](State& state, uint32_t block, uint32_t weight, bool begins) {
      if (state.everywhere) {
        uint8_t& sum = range_.all_weights_[state.at + block];
        sum = static_cast<uint8_t>(sum + weight);
        return;
      }
      const size_t entry = state.at + state.count - 1;
      if (begins) range_.entries_[entry] = static_cast<uint16_t>(block);
      range_.weights_[entry] = static_cast<uint8_t>(range_.weights_[entry] + weight);
    });
  }

 private:
  struct State {
    uint32_t count = 0;  // of entries so far
    uint32_t at = 0;     // where the first is written
    uint16_t block = 0;  // of the last entry, and its sum
    uint16_t sum = 0;
    bool divided = false;     // a block has several entries
    bool everywhere = false;  // weights of all blocks
  };

  // write(state, block, weight, begins): `begins` says that the weight makes a new entry.
  template <typename Write>
  void ForEachRow(const Write& write) {
    size_t row = 0;
    for (size_t block = 0; block < rows_.block_rows.size(); ++block) {
      const size_t end = row + static_cast<size_t>(rows_.block_rows[block]);
      for (; row < end; ++row) {
        const uint32_t weight = rows_.weights.empty() ? 1 : rows_.weights[row];
        if (weight == 0) continue;
        State& state = states_[static_cast<size_t>(rows_.words[row])];
        const bool same = state.count > 0 && state.block == block;
        const bool begins = !same || state.sum + weight > kMaxInEntry;
        if (begins) {
          state.divided |= same;
          ++state.count;
          state.block = static_cast<uint16_t>(block);
          state.sum = 0;
        }
        state.sum = static_cast<uint16_t>(state.sum + weight);
        write(state, static_cast<uint32_t>(block), weight, begins);
      }
    }
  }

  void Place() {
    const auto blocks = static_cast<uint32_t>(range_.blocks_);
    uint32_t entries = 0, all = 0;
    for (int32_t word = 0; word < rows_.word_count; ++word) {
      State& state = states_[static_cast<size_t>(word)];
      if (state.count == 0) continue;
      state.everywhere = !state.divided && state.count * kEntryBytes > blocks;
      state.at = state.everywhere ? all : entries;
      (state.everywhere ? range_.everywhere_ : range_.words_).push_back(word);
      if (!state.everywhere) range_.begins_.push_back(entries);
      (state.everywhere ? all : entries) += state.everywhere ? blocks : state.count;
      state.count = 0;
    }
    range_.begins_.push_back(entries);
    range_.entries_.resize(entries);
    range_.weights_.resize(entries);
    range_.all_weights_.resize(all);
    range_.ShrinkWords();
  }

  const SparseRows& rows_;
  SparseRange& range_;
  std::vector<State> states_;  // by word
};

SparseRange SparseRange::Make(const SparseRows& rows) {
  SparseRange range;
  range.blocks_ = std::ssize(rows.block_rows);
  range.scales_.assign(rows.scales.begin(), rows.scales.end());
  Builder(rows, range).Run();
  return range;
}

void SparseRange::ShrinkWords() {
  words_.shrink_to_fit();
  begins_.shrink_to_fit();
  everywhere_.shrink_to_fit();
}

SparseList SparseRange::list(int32_t word) const {
  if (const int64_t at = Find(everywhere_, word); at >= 0) {
    return {nullptr, all_weights_.data() + at * blocks_, blocks_};
  }
  const int64_t at = Find(words_, word);
  if (at < 0) return {};
  const int64_t begin = begins_[static_cast<size_t>(at)],
                end = begins_[static_cast<size_t>(at) + 1];
  return {entries_.data() + begin, weights_.data() + begin, end - begin};
}

int64_t SparseRange::bytes() const {
  return BytesOf(words_) + BytesOf(begins_) + BytesOf(entries_) + BytesOf(weights_) +
         BytesOf(everywhere_) + BytesOf(all_weights_) + BytesOf(scales_);
}

// Weights of all blocks are kept only where they take less than the entries.
int64_t SparseRange::MaxBytes(int64_t rows, int64_t blocks, int64_t words) {
  return rows * kEntryBytes + words * kWordBytes + static_cast<int64_t>(sizeof(uint32_t)) +
         blocks * static_cast<int64_t>(sizeof(float));
}

}  // namespace recollect::kernels
