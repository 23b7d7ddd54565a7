// The calls that block top-k on a device is tested on, and how they run there.
#pragma once

#include <algorithm>

#include "kernels/block_topk/block_topk.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::block_cases {

// Bounds of one sequence's blocks, [blocks, heads, head_dim] each.
struct Bounds {
  std::vector<float> low, high;
};

// A row at a position of one of the sequences.
struct Row {
  size_t sequence = 0;
  int64_t position = 0;
};

struct Call {
  int heads = 1, head_dim = 1;
  int64_t block = 1, count = 1;
  std::vector<BlockPattern> patterns = {BlockPattern{}};  // one, or one for each head
  std::vector<Bounds> sequences = {};
  std::vector<Row> rows = {};
  std::vector<float> q = {};  // [rows, heads, head_dim]

  int64_t width() const { return int64_t{heads} * head_dim; }
  std::span<const float> QueryOf(int64_t row, int head) const {
    return std::span(q).subspan(row * width() + int64_t{head} * head_dim, head_dim);
  }
};

inline constexpr int64_t kQueryGap = 3;  // floats between a row of q and the next
inline constexpr int32_t kUnwritten = -7;

// The lists of entries; that of (row, head) is at row * heads + head.
using Lists = std::vector<std::vector<int32_t>>;

// Returns the plan of a call, with room for `spare` positions and entries more than any row has.
inline BlockTopKPlan PlanOf(const Call& call, int multiprocessors, int64_t spare) {
  BlockTopKSizes sizes{.rows = std::ssize(call.rows),
                       .heads = call.heads,
                       .head_dim = call.head_dim,
                       .block = call.block,
                       .count = call.count};
  for (const Row& row : call.rows) {
    sizes.max_position = std::max(sizes.max_position, row.position + spare);
    for (const BlockPattern& pattern : call.patterns) {
      sizes.max_entries =
          std::max(sizes.max_entries, MostBlockEntries(sizes, pattern, row.position) + spare);
    }
  }
  const absl::StatusOr<BlockTopKPlan> plan = PlanBlockTopK(sizes, multiprocessors);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

// Runs a call with arrays of floats that begin `shift` past aligned addresses.
inline Lists Run(Device& device, const Call& call, size_t shift = 1, int multiprocessors = 132,
                 int64_t spare = 0) {
  const BlockTopKPlan plan = PlanOf(call, multiprocessors, spare);
  const int64_t most = plan.sizes.max_entries, pairs = plan.sizes.rows * plan.sizes.heads;
  device_cases::Arrays arrays(device);
  std::vector<BlockTopKRow> sequences, rows;
  for (const Bounds& bounds : call.sequences) {
    sequences.push_back({arrays.Place(bounds.low, shift), arrays.Place(bounds.high, shift)});
  }
  std::vector<float> q;
  for (size_t r = 0; r < call.rows.size(); ++r) {
    rows.push_back(sequences[call.rows[r].sequence]);
    rows.back().position = call.rows[r].position;
    q.insert(q.end(), call.q.begin() + r * call.width(), call.q.begin() + (r + 1) * call.width());
    q.resize(q.size() + kQueryGap, std::nanf(""));
  }
  const std::vector<uint64_t> workspace(plan.workspace_bytes / sizeof(uint64_t), ~uint64_t{0});
  const BlockTopKOp op{.plan = plan,
                       .q = arrays.Place(q, shift),
                       .q_stride = call.width() + kQueryGap,
                       .rows = arrays.Place(rows),
                       .patterns = arrays.Place(call.patterns),
                       .patterns_per_head = call.patterns.size() == 1 ? 0 : 1,
                       .workspace = arrays.Place(workspace, 1),
                       .entries = arrays.Place(std::vector<int32_t>(pairs * most, kUnwritten), 1),
                       .counts = arrays.Place(std::vector<int32_t>(pairs, kUnwritten), 1)};
  EXPECT_EQ(CheckBlockTopK(plan, rows, call.patterns), absl::OkStatus());
  EXPECT_EQ(device.Run(op), absl::OkStatus());
  const std::vector<int32_t> all = arrays.Read(op.entries, pairs * most),
                             lengths = arrays.Read(op.counts, pairs);
  Lists lists;
  for (int64_t p = 0; p < pairs; ++p) {
    const auto begin = all.begin() + p * most, end = begin + most;
    EXPECT_TRUE(lengths[p] >= 0 && lengths[p] <= most) << lengths[p];
    const auto last = begin + std::clamp<int64_t>(lengths[p], 0, most);
    EXPECT_TRUE(std::all_of(last, end, [](int32_t e) { return e == kUnwritten; }));
    lists.emplace_back(begin, last);
  }
  return lists;
}

// Computes the entries by the definition, position by position, with scores from the scalar
// reference.
inline std::vector<int32_t> Expected(const Call& call, int64_t index, int head) {
  const Row& row = call.rows[index];
  const BlockPattern& pattern = call.patterns[call.patterns.size() == 1 ? 0 : head];
  const int64_t own = row.position / call.block;
  const Bounds& bounds = call.sequences[row.sequence];
  std::vector<float> scores(own);
  std::vector<int64_t> chosen;
  const int64_t at = int64_t{head} * call.head_dim;
  if (own > 0) {  // there are bounds at all
    BlockScores(Scalar(), call.QueryOf(index, head).data(), call.head_dim, bounds.low.data() + at,
                bounds.high.data() + at, call.width(), own, scores.data());
  }
  ChooseBlocks(scores, call.count - 1, chosen);
  chosen.push_back(own);
  std::vector<int32_t> entries;
  for (int64_t p = 0; p <= row.position; ++p) {
    const int64_t back = row.position - p;
    const bool dilated = pattern.dilation > 0 && (p + 1) % pattern.dilation == 0 &&
                         back <= pattern.span && back > pattern.window;
    if (p < pattern.initial || back <= pattern.window || dilated ||
        std::find(chosen.begin(), chosen.end(), p / call.block) != chosen.end()) {
      entries.push_back(static_cast<int32_t>(p));
    }
  }
  return entries;
}

// Returns random numbers. Whole ones give scores without rounding, many of which are equal.
inline std::vector<float> Numbers(int64_t count, uint32_t seed, bool whole) {
  std::vector<float> numbers = Normals(count, seed);
  for (float& number : numbers) number = whole ? std::round(number) : number;
  return numbers;
}

inline Bounds RandomBounds(int64_t blocks, int64_t width, uint32_t seed, bool whole) {
  Bounds bounds{Numbers(blocks * width, seed, whole), Numbers(blocks * width, seed + 1, whole)};
  for (size_t i = 0; i < bounds.low.size(); ++i) {
    if (bounds.low[i] > bounds.high[i]) std::swap(bounds.low[i], bounds.high[i]);
  }
  return bounds;
}

// A call with a prefill slice, decode steps of other sequences, and a first row.
inline Call RandomCall(int heads, int head_dim, int64_t block, int64_t count, int64_t blocks,
                       bool whole) {
  Call call{.heads = heads, .head_dim = head_dim, .block = block, .count = count};
  for (const int64_t of : {blocks, blocks / 2, int64_t{0}}) {
    call.sequences.push_back(RandomBounds(of, call.width(), 10 + static_cast<uint32_t>(of), whole));
    call.rows.push_back({call.sequences.size() - 1, of * block + block - 1});
  }
  for (int64_t r = 0; r < 6; ++r) {
    call.rows.push_back({0, std::max<int64_t>(blocks * block - 3 + r, 0)});
  }
  call.rows.push_back({2, 0});
  call.rows.push_back({1, 0});
  call.q = Numbers(static_cast<int64_t>(call.rows.size()) * call.width(), 3, whole);
  for (Row& row : call.rows) {
    const int64_t of = static_cast<int64_t>(call.sequences[row.sequence].low.size()) / call.width();
    row.position = std::min(row.position, of * block + block - 1);
  }
  return call;
}

// The patterns of the models: none, a window, dilated ones of all kinds, and all positions.
inline const std::vector<BlockPattern> kPatterns = {
    {},
    {.window = 5},
    {.dilation = 4, .span = int64_t{1} << 40},
    {.window = 9, .dilation = 16, .initial = 4, .span = 100},
    {.window = 200, .dilation = 3, .initial = 50, .span = 150},
    {.window = 2, .dilation = 1, .span = 30},
    {.initial = 1000},
};

}  // namespace recollect::kernels::block_cases
