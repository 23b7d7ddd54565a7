// The calls that attention on tensor cores is tested on, and how they run on a device.
#pragma once

#include <cmath>

#include "tests/kernels/range_attention/range_attention_cases.h"

namespace recollect::kernels::tile_cases {

using range_cases::Case;
using range_cases::Inputs;
using range_cases::Set;

inline constexpr TileAttentionPlan::Strategy kStrategies[] = {TileAttentionPlan::Strategy::kBySplit,
                                                              TileAttentionPlan::Strategy::kByTile};

inline const char* NameOf(TileAttentionPlan::Strategy strategy) {
  return strategy == TileAttentionPlan::Strategy::kBySplit ? "by split" : "by tile";
}

// The cases of range attention without ALiBi, and heads, tiles and splits at their edges.
inline std::vector<Case> Cases() {
  std::vector<Case> cases = range_cases::PlainCases();
  for (const Case& c : range_cases::GroupedCases()) cases.push_back(c);
  std::vector<RangeSet> prefill, causal;
  for (int64_t r = 0; r < 130; ++r) prefill.push_back(Set(0, 2, 250, 250 + r / 4, r, r + 17));
  for (int64_t r = 0; r < 70; ++r) causal.push_back(Set(0, 0, 0, 0, 0, r + 1));
  cases.push_back({"prefill, odd heads", 1, 37, 300, prefill});
  cases.push_back({"causal, heads of 128", 2, 128, 70, causal});
  cases.push_back({"causal, heads of 65", 1, 65, 70, causal});
  cases.push_back({"grouped, tiles of five rows", 12, 8, 70, causal, 12});
  cases.push_back({"grouped, a row a tile", 64, 8, 70, {causal[3], causal[69]}, 64});
  cases.push_back({"edges",
                   1,
                   16,
                   800,
                   {Set(63, 65, 255, 257, 0, 800), Set(64, 128, 0, 0, 512, 513),
                    Set(0, 0, 256, 512, 0, 256), Set(0, 0, 0, 0, 767, 768)}});
  return cases;
}

// Returns the inputs of a case, rounded to Bf16.
inline Inputs InputsOf(const Case& c) {
  Inputs in(c);
  const auto round = [](std::vector<float>& numbers) {
    for (float& number : numbers) number = recollect::RoundToBf16(number);
  };
  round(in.q);
  for (int p = 0; p < kMaxRanges; ++p) {
    round(in.keys[p]);
    round(in.values[p]);
    in.parts[p] = {in.keys[p].data(), in.values[p].data()};
  }
  return in;
}

inline std::vector<Bf16> Narrow(std::span<const float> numbers) {
  std::vector<Bf16> narrow;
  for (const float number : numbers) narrow.push_back(Bf16::FromFloat(number));
  return narrow;
}

// A call of the operation.
struct Call {
  // The rows that share a cache; the indices of its keys and values in `memory`.
  struct Run {
    int64_t rows = 0;
    std::array<size_t, kMaxRanges> keys = {}, values = {};
  };
  std::vector<Bf16> q;
  int64_t q_stride = 0;
  int64_t kv_stride = 0;
  std::vector<std::vector<Bf16>> memory = {};
  std::vector<Run> runs = {};
  std::vector<RangeSet> sets;
};

// The layout of a call's caches.
struct Layout {
  std::array<int64_t, kMaxRanges> before = {};  // entries in front of a part's, NaN
  int64_t between = 0;                          // numbers between entries, NaN
  bool only_reached = false;                    // NaN where no row of the call has entries
};

inline int64_t ToReach(const std::vector<RangeSet>& sets, int part, int64_t entry) {
  return std::count_if(sets.begin(), sets.end(), [&](const RangeSet& set) {
    return set.ranges[part].begin <= entry && entry < set.ranges[part].end;
  });
}

// Makes a call of the rows [begin, end) of a case, over one cache.
inline Call CallOf(const Case& c, const Inputs& in, int64_t begin, int64_t end,
                   const Layout& layout = {}) {
  Call call;
  call.q = Narrow(std::span(in.q).subspan(begin * in.q_stride, (end - begin) * in.q_stride));
  call.q_stride = in.q_stride;
  call.kv_stride = in.kv_width + layout.between;
  call.sets.assign(c.sets.begin() + begin, c.sets.begin() + end);
  Call::Run run{.rows = end - begin};
  for (int p = 0; p < kMaxRanges; ++p) {
    for (const std::vector<float>* from : {&in.keys[p], &in.values[p]}) {
      std::vector<Bf16> to((layout.before[p] + c.entries + 1) * call.kv_stride,
                           Bf16::FromFloat(std::nanf("")));
      for (int64_t e = 0; e < c.entries; ++e) {
        if (layout.only_reached && ToReach(call.sets, p, e) == 0) continue;
        const std::vector<Bf16> entry =
            Narrow(std::span(*from).subspan(e * in.kv_width, in.kv_width));
        std::copy(entry.begin(), entry.end(), to.begin() + (layout.before[p] + e) * call.kv_stride);
      }
      (from == &in.keys[p] ? run.keys : run.values)[p] = call.memory.size();
      call.memory.push_back(std::move(to));
    }
    for (RangeSet& set : call.sets) {
      set.ranges[p].begin += layout.before[p];
      set.ranges[p].end += layout.before[p];
    }
  }
  call.runs = {run};
  return call;
}

// Returns tiles of at most `most_rows` rows, with memory i at place(i).
template <typename Place>
std::vector<RowTile> TilesOf(const Call& call, int64_t most_rows, const Place& place) {
  std::vector<CacheRows> runs;
  for (const Call::Run& run : call.runs) {
    CacheRows& rows = runs.emplace_back(CacheRows{.rows = run.rows});
    for (int p = 0; p < kMaxRanges; ++p) {
      rows.parts[p] = {place(run.keys[p]), place(run.values[p])};
    }
  }
  return RowTilesOf(runs, call.sets, most_rows);
}

// Runs a call with room for `spare` splits more than any tile has, in tiles of at most `most_rows`
// rows; 0: of as many as there can be. Caches, q and out begin `shift` elements past aligned
// addresses. Returns out [rows, heads, head_dim], NaN where nothing was written.
inline std::vector<float> Run(Device& device, const Case& c, const Call& call,
                              TileAttentionPlan::Strategy strategy, int64_t spare = 0,
                              int64_t most_rows = 0, size_t shift = 0) {
  if (most_rows == 0) most_rows = MostTileRows(c.heads, c.kv_heads());
  device_cases::Arrays arrays(device);
  std::vector<const Bf16*> memory;
  for (const std::vector<Bf16>& content : call.memory) {
    memory.push_back(arrays.Place(content, shift));
  }
  const std::vector<RowTile> tiles = TilesOf(call, most_rows, [&](size_t i) { return memory[i]; });
  TileAttentionSizes sizes = SizesOf({.rows = std::ssize(call.sets),
                                      .heads = c.heads,
                                      .kv_heads = c.kv_heads(),
                                      .head_dim = c.head_dim},
                                     tiles);
  sizes.max_splits += spare;
  const absl::StatusOr<TileAttentionPlan> plan = PlanTileAttention(sizes, strategy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CheckTileAttention(*plan, tiles, call.sets), absl::OkStatus());
  const std::vector<float> nothing(sizes.rows * sizes.heads * sizes.head_dim, std::nanf(""));
  const TileAttentionOp op{.plan = *plan,
                           .q = arrays.Place(call.q, shift),
                           .q_stride = call.q_stride,
                           .kv_stride = call.kv_stride,
                           .tiles = arrays.Place(tiles),
                           .sets = arrays.Place(call.sets),
                           .workspace = arrays.Allocate(plan->workspace_bytes),
                           .out = arrays.Place(nothing, shift)};
  EXPECT_EQ(device.Run(op), absl::OkStatus());
  return arrays.Read(op.out, std::ssize(nothing));
}

// Compares with the scalar double reference. exp(s_j) is rounded to Bf16 before it multiplies; the
// error is a share of what the reference gives for |v|.
inline void ExpectMatchesReference(const Case& c, const Inputs& in, std::span<const float> out) {
  std::vector<float> expected(in.rows * in.width), weighed(expected.size());
  ASSERT_EQ(out.size(), expected.size());
  RangeAttention(Scalar(), c.shape(), in.q.data(), in.q_stride, in.rows, in.parts, c.sets.data(),
                 expected.data());
  std::vector<float> sizes[kMaxRanges];
  std::array<KvSpan, kMaxRanges> parts = in.parts;
  for (int p = 0; p < kMaxRanges; ++p) {
    for (const float value : in.values[p]) sizes[p].push_back(std::abs(value));
    parts[p].values = sizes[p].data();
  }
  RangeAttention(Scalar(), c.shape(), in.q.data(), in.q_stride, in.rows, parts, c.sets.data(),
                 weighed.data());
  for (int64_t r = 0; r < in.rows; ++r) {
    for (int h = 0; h < c.heads; ++h) {
      const double magnitude = Magnitude(c, in, r, h);
      for (int d = 0; d < c.head_dim; ++d) {
        const int64_t at = r * in.width + h * c.head_dim + d;
        EXPECT_CLOSE(out[at], expected[at], magnitude + testing::kBf16Probabilities * weighed[at],
                     testing::kAttentionFactor)
            << "row " << r << ", head " << h;
      }
    }
  }
}

}  // namespace recollect::kernels::tile_cases
