// Checks for any device run of block top-k, made on the host run of the kernels' blocks and on a
// GPU alike: a runner is called as run(plan, call) and returns the entries that each row and head
// attends to.
#ifndef RECOLLECT_TESTS_KERNELS_BLOCK_TOPK_BLOCK_TOPK_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_BLOCK_TOPK_BLOCK_TOPK_DEVICE_CHECKS_H_

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/block_topk/block_topk.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

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

// Places a call in arrays of a memory, Array<T>(content, shift), and runs it there with
// launch(operation).
template <template <typename> typename Array, typename Launch>
Lists RunIn(const BlockTopKPlan& plan, const Call& call, size_t shift, const Launch& launch) {
  const BlockTopKSizes& sizes = plan.sizes;
  std::vector<std::unique_ptr<Array<float>>> memory;
  const auto place = [&](const std::vector<float>& numbers) {
    memory.push_back(std::make_unique<Array<float>>(numbers, shift));
    return memory.back()->data();
  };
  std::vector<BlockTopKRow> sequences;
  for (const Bounds& bounds : call.sequences) {
    sequences.push_back({place(bounds.low), place(bounds.high)});
  }
  std::vector<BlockTopKRow> rows;
  std::vector<float> q;
  for (size_t r = 0; r < call.rows.size(); ++r) {
    rows.push_back(sequences[call.rows[r].sequence]);
    rows.back().position = call.rows[r].position;
    q.insert(q.end(), call.q.begin() + r * call.width(), call.q.begin() + (r + 1) * call.width());
    q.resize(q.size() + kQueryGap, std::nanf(""));
  }
  EXPECT_EQ(CheckBlockTopK(plan, rows, call.patterns), absl::OkStatus());
  const int64_t pairs = sizes.rows * sizes.heads;
  Array<BlockTopKRow> row_array(rows);
  Array<BlockPattern> patterns(call.patterns);
  Array<uint64_t> workspace(
      std::vector<uint64_t>(plan.workspace_bytes / sizeof(uint64_t), ~uint64_t{0}));
  Array<int32_t> entries(std::vector<int32_t>(pairs * sizes.max_entries, kUnwritten));
  Array<int32_t> counts(std::vector<int32_t>(pairs, kUnwritten));
  launch(BlockTopKOp{.plan = plan,
                     .q = place(q),
                     .q_stride = call.width() + kQueryGap,
                     .rows = row_array.data(),
                     .patterns = patterns.data(),
                     .patterns_per_head = call.patterns.size() == 1 ? 0 : 1,
                     .workspace = workspace.data(),
                     .entries = entries.data(),
                     .counts = counts.data()});
  const std::vector<int32_t> all = entries.Download(), lengths = counts.Download();
  Lists lists;
  for (int64_t p = 0; p < pairs; ++p) {
    const auto begin = all.begin() + p * sizes.max_entries, end = begin + sizes.max_entries;
    EXPECT_TRUE(lengths[p] >= 0 && lengths[p] <= sizes.max_entries) << lengths[p];
    const auto last = begin + std::clamp<int64_t>(lengths[p], 0, sizes.max_entries);
    EXPECT_TRUE(std::all_of(last, end, [](int32_t e) { return e == kUnwritten; }));
    lists.emplace_back(begin, last);
  }
  return lists;
}

// Runs the plan's thread blocks on the host.
inline Lists RunOnHost(const BlockTopKPlan& plan, const Call& call, HostOrder order) {
  return RunIn<HostArray>(plan, call, 1, [&](const BlockTopKOp& op) {
    EXPECT_EQ(OnHost(order, op), absl::OkStatus());
  });
}

// Runs a call, with room for `spare` positions and entries more than any row has.
template <typename Runner>
Lists Run(const Runner& run, const Call& call, int multiprocessors = 132, int64_t spare = 0) {
  BlockTopKSizes sizes{.rows = static_cast<int64_t>(call.rows.size()),
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
  return run(*plan, call);
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

template <typename Runner>
void CheckListsMatchReference(const Runner& run) {
  struct Case {
    int heads, head_dim;
    int64_t block, count, blocks;
  };
  for (const Case& c : {Case{1, 1, 1, 1, 0},
                        {1, 1, 1, 3, 1},
                        {2, 7, 4, 3, 2},
                        {3, 8, 16, 1, 9},
                        {3, 8, 16, 4, 9},
                        {7, 33, 6, 5, 64},
                        {2, 64, 16, 16, 65},
                        {1, 128, 64, 4, 20},
                        {2, 100, 5, 200, 150},
                        {1, 16, 3, 257, 700}}) {
    for (const bool whole : {true, false}) {
      Call call = RandomCall(c.heads, c.head_dim, c.block, c.count, c.blocks, whole);
      for (size_t p = 0; p <= kPatterns.size(); ++p) {
        SCOPED_TRACE(absl::StrCat(c.blocks, " blocks of ", c.block, ", ", c.heads, " x ",
                                  c.head_dim, ", count ", c.count, ", pattern ", p,
                                  whole ? ", whole numbers" : ""));
        call.patterns.clear();
        for (int h = 0; h < (p < kPatterns.size() ? 1 : c.heads); ++h) {
          call.patterns.push_back(kPatterns[(p + h) % kPatterns.size()]);
        }
        const Lists lists = Run(run, call);
        for (size_t i = 0; i < lists.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / c.heads;
          const int head = static_cast<int>(i) % c.heads;
          EXPECT_EQ(lists[i], Expected(call, row, head)) << "row " << row << ", head " << head;
        }
        if (c.blocks > 100) p += 2;  // each takes a while
      }
    }
  }
}

// Checks rows alone, in other batches, with room for more, and cut into more parts or fewer. Scores
// rise with the block, so that lists are sorted often.
template <typename Runner>
void CheckSameListsInAnyBatchAndCut(const Runner& run) {
  Call call = RandomCall(2, 24, 2, 40, 1600, false);
  call.patterns = {kPatterns[3], kPatterns[1]};
  Bounds& bounds = call.sequences[0];
  for (size_t i = 0; i < bounds.high.size(); ++i) {
    bounds.high[i] += static_cast<float>(i) / static_cast<float>(bounds.high.size());
  }
  const Lists whole = Run(run, call, 132);
  EXPECT_EQ(Run(run, call, 1), whole);
  EXPECT_EQ(Run(run, call, 10, 5000), whole);
  for (const size_t step : {1, 3}) {
    for (size_t begin = 0; begin < call.rows.size(); begin += step) {
      const size_t end = std::min(begin + step, call.rows.size());
      Call part = call;
      part.rows.assign(call.rows.begin() + begin, call.rows.begin() + end);
      part.q.assign(call.q.begin() + begin * call.width(), call.q.begin() + end * call.width());
      const Lists lists = Run(run, part, step == 1 ? 132 : 1);
      for (size_t i = 0; i < lists.size(); ++i) {
        EXPECT_EQ(lists[i], whole[begin * call.heads + i]) << "row " << begin + i / call.heads;
      }
    }
  }
}

// Checks scores of head_dim 1: ties, zeros of both signs, NaN and infinity.
template <typename Runner>
void CheckOrder(const Runner& run) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::vector<std::vector<float>> rows = {
      {2, 5, 5, 2, 5},
      {0, -0.0f, 0, -1},
      {-0.0f, 0, -0.0f, 0},
      {nan, kInf, -7, -kInf, 1, kInf},
      {-kInf, nan, -kInf, nan},
      {nan, -kInf, std::numeric_limits<float>::lowest()},
      {},
  };
  for (const std::vector<float>& scores : rows) {
    const auto own = static_cast<int64_t>(scores.size());
    for (int64_t count = 1; count <= own + 2; ++count) {
      Call call{.count = count, .sequences = {{scores, scores}}, .rows = {{0, own}}, .q = {1}};
      std::vector<int64_t> chosen;
      ChooseBlocks(scores, count - 1, chosen);
      std::vector<int32_t> expected(chosen.begin(), chosen.end());
      expected.push_back(static_cast<int32_t>(own));
      EXPECT_EQ(Run(run, call)[0], expected) << own << " scores, count " << count;
    }
  }
}

}  // namespace recollect::kernels::block_cases

#endif  // RECOLLECT_TESTS_KERNELS_BLOCK_TOPK_BLOCK_TOPK_DEVICE_CHECKS_H_
