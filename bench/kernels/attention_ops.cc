// Softmax attention over the cache of a layer.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/op_report.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/range_attention/range_attention_bf16.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

// What rows read: parts of a cache and ranges of each. `entries_per_row` is an average, `entries`
// how many of them some row reads.
struct Reads {
  std::array<KvSpan, kMaxRanges> parts;
  std::vector<RangeSet> sets;
  double entries_per_row = 0;
  int64_t entries = 0;
};

void AddRangeAttention(OpReport& report, const std::string& op, const RangeShape& shape,
                       const Reads& reads) {
  const int64_t rows = std::ssize(reads.sets);
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_dim;
  const std::vector<float> q = Numbers(rows * width, 3);
  std::vector<float> out(rows * width), expected(rows * width);
  OpContext scalar(Isa::kScalar);
  RangeAttention(scalar, shape, q.data(), width, rows, reads.parts, reads.sets.data(),
                 expected.data());
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    const auto run = [&] {
      RangeAttention(ctx, shape, q.data(), width, rows, reads.parts, reads.sets.data(), out.data());
    };
    run();
    CheckClose(out, expected);
    report.Add(
        op + " " + std::to_string(rows), IsaName(isa), rows,
        {4.0 * static_cast<double>(rows * width) * reads.entries_per_row,
         Floats(2 * (rows * width + reads.entries * kv_width)), report.ceilings().fp32_flops},
        run);
  });
}

// The same over a cache in bf16, by the code of every unit that multiplies pairs, too.
void AddRangeAttentionOfBf16(OpReport& report, const std::string& op, const RangeShape& shape,
                             const Reads& reads) {
  const int64_t rows = std::ssize(reads.sets);
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_dim;
  std::vector<float> q = Numbers(rows * width, 3);
  for (float& number : q) number = RoundToBf16(number);
  std::vector<Bf16> keys, values;
  for (const auto& [from, to] :
       {std::pair{reads.parts[2].keys, &keys}, {reads.parts[2].values, &values}}) {
    for (int64_t i = 0; i < reads.entries * kv_width; ++i) to->push_back(Bf16::FromFloat(from[i]));
  }
  const Bf16KvSpan part{keys.data(), values.data(), 0};
  std::vector<float> out(rows * width);
  const Work work{4.0 * static_cast<double>(rows * width) * reads.entries_per_row,
                  Floats(2 * rows * width + reads.entries * kv_width),
                  report.ceilings().bf16_flops};
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    if (PairCodeOf(ctx, shape) != nullptr) return;  // below, by its own name
    report.Add(op + " " + std::to_string(rows), IsaName(isa), rows, work, [&] {
      RangeAttentionOfBf16(ctx, shape, q.data(), width, rows, {part, part, part}, reads.sets.data(),
                           out.data());
    });
  });
  OpContext ctx;
  std::vector<PairCode> codes = PairCodes(DetectIsa());
  std::reverse(codes.begin(), codes.end());
  for (const PairCode& code : codes) {
    report.Add(op + " " + std::to_string(rows), code.name, rows, work, [&] {
      RangeAttentionByPairs(ctx, code, shape, q.data(), width, rows, {part, part, part},
                            reads.sets.data(), out.data());
    });
  }
}

}  // namespace

// A layer's window and dilated positions, and all rows of a chunk in the chunk encoder.
void BenchRangeAttention(OpReport& report) {
  constexpr int64_t kEntries = 256, kWindow = 129, kDilated = 56, kStride = 16;
  constexpr RangeShape kShape{kHeads, kHeads, kHeadDim};
  const std::vector<float> keys = Numbers(kEntries * kWidth, 1),
                           values = Numbers(kEntries * kWidth, 2);
  const KvSpan part{keys.data(), values.data()};
  for (int64_t rows : {int64_t{1}, kRows}) {
    std::vector<RangeSet> sets(rows);
    for (int64_t r = 0; r < rows; ++r) {
      sets[r].ranges[1] = {r / kStride, r / kStride + kDilated};
      sets[r].ranges[2] = {r, r + kWindow};
    }
    const Reads reads{{part, part, part},
                      sets,
                      kWindow + kDilated,
                      sets.back().ranges[1].end + sets.back().ranges[2].end};
    AddRangeAttention(report, "range_attention", kShape, reads);
    AddRangeAttentionOfBf16(report, "range_attention, bf16 cache,", kShape, reads);
  }
  std::vector<RangeSet> all(kRows);
  for (RangeSet& set : all) set.ranges[0] = {0, kRows};
  const Reads reads{{part, part, part}, all, kRows, kRows};
  AddRangeAttention(report, "encoder attention", kShape, reads);
  AddRangeAttentionOfBf16(report, "encoder attention, bf16,", kShape, reads);
}

// SmolLM2-135M: 9 heads read 3 of keys and values. The last rows of so many positions.
void BenchGroupedAttention(OpReport& report) {
  constexpr RangeShape kShape{9, 3, 64};
  constexpr int64_t kMax = 8192, kKvWidth = 3 * 64;
  const std::vector<float> keys = Numbers(kMax * kKvWidth, 1), values = Numbers(kMax * kKvWidth, 2);
  const KvSpan part{keys.data(), values.data()};
  for (int64_t positions : {int64_t{256}, int64_t{512}, int64_t{2048}, kMax}) {
    for (int64_t rows : {int64_t{1}, kRows, 4 * kRows}) {
      std::vector<RangeSet> sets(rows);
      for (int64_t r = 0; r < rows; ++r) sets[r].ranges[2] = {0, positions - rows + 1 + r};
      const Reads reads{{part, part, part},
                        sets,
                        static_cast<double>(positions) - 0.5 * static_cast<double>(rows - 1),
                        positions};
      const std::string op = "9/3 heads, " + std::to_string(positions);
      if (rows <= kRows) AddRangeAttention(report, op, kShape, reads);
      AddRangeAttentionOfBf16(report, op + ", bf16 cache,", kShape, reads);
    }
  }
}

}  // namespace recollect::bench
