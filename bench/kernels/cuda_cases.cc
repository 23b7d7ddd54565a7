#include "bench/kernels/cuda_cases.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_operations.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/gca/gca.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/range_attention/range_attention.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

// Queries, keys and values of all attentions.
template <typename Number>
struct AttentionNumbers {
  Pattern<Number> q{1}, keys{2}, values{3};
};

template <typename Number>
const AttentionNumbers<Number>& Numbers() {
  static const auto* const numbers = new AttentionNumbers<Number>;
  return *numbers;
}

// Row `row`, some heads, of attention over `entries` entries from entry `first` of the keys.
template <typename Number>
absl::Status CheckAttention(const float* out, int64_t row, int64_t first, int64_t entries,
                            double magnitude) {
  const AttentionNumbers<Number>& numbers = Numbers<Number>();
  const RangeShape shape{1, 1, kHeadDim};
  for (int head : {0, kHeads - 1}) {
    const auto take = [&](const Pattern<Number>& from, int64_t begin, int64_t rows) {
      return from.Rows(begin * kWidth + head * kHeadDim, rows, kWidth, kHeadDim);
    };
    const std::vector<float> q = take(numbers.q, row, 1), keys = take(numbers.keys, first, entries),
                             values = take(numbers.values, first, entries);
    const KvSpan part{keys.data(), values.data()};
    RangeSet set;
    set.ranges[1] = {0, entries};
    std::vector<float> expected(kHeadDim);
    OpContext reference(Isa::kScalar);
    RangeAttention(reference, shape, q.data(), kHeadDim, 1, {part, part, part}, &set,
                   expected.data());
    ASSIGN_OR_RETURN(const std::vector<float> actual,
                     Download(out + row * kWidth + head * kHeadDim, kHeadDim));
    RETURN_IF_ERROR(
        ExpectClose(actual, expected, magnitude, absl::StrCat("row ", row, ", head ", head)));
  }
  return absl::OkStatus();
}

// Rows that read the first entries_of(row) entries of one cache, or each of a cache of its own.
struct AttentionRows {
  int64_t rows = 0;
  int64_t caches = 0;
  int64_t entries = 0;  // of a cache
  std::function<int64_t(int64_t)> entries_of;

  std::vector<RangeSet> Sets() const {
    std::vector<RangeSet> sets(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) sets[r].ranges[1] = {0, entries_of(r)};
    return sets;
  }
  // That move, and the work.
  void CountInto(Case& c, int64_t number_bytes) const {
    for (int64_t r = 0; r < rows; ++r) {
      c.flops += 4.0 * kWidth * static_cast<double>(entries_of(r));
    }
    c.bytes = static_cast<double>(number_bytes) *
                  static_cast<double>((2 * caches * entries + rows) * kWidth) +
              sizeof(float) * static_cast<double>(rows * kWidth);
  }
  template <typename Number>
  absl::Status Check(const float* out, double magnitude) const {
    for (int64_t r : {int64_t{0}, rows / 3, rows - 1}) {
      RETURN_IF_ERROR(
          CheckAttention<Number>(out, r, caches == 1 ? 0 : r * entries, entries_of(r), magnitude));
    }
    return absl::OkStatus();
  }
};

AttentionRows DecodeRows(int64_t batch, int64_t entries) {
  return {batch, batch, entries, [=](int64_t) { return entries; }};
}

AttentionRows PrefillRows(int64_t tokens, int64_t dilation) {
  return {tokens, 1, (tokens + dilation - 1) / dilation,
          [=](int64_t t) { return t / dilation + 1; }};
}

absl::Status Attention(Report& report, Case c, const AttentionRows& rows, bool graph) {
  const AttentionNumbers<float>& numbers = Numbers<float>();
  const int64_t cache = rows.entries * kWidth;
  ASSIGN_OR_RETURN(const auto q, Upload(numbers.q, rows.rows * kWidth, "q"));
  ASSIGN_OR_RETURN(const auto keys, Upload(numbers.keys, rows.caches * cache, "keys"));
  ASSIGN_OR_RETURN(const auto values, Upload(numbers.values, rows.caches * cache, "values"));
  ASSIGN_OR_RETURN(const auto out, DeviceArray<float>::Create(rows.rows * kWidth, "out"));
  RangeAttentionSizes sizes;
  sizes.rows = rows.rows;
  sizes.heads = sizes.kv_heads = kHeads;
  sizes.head_dim = kHeadDim;
  sizes.max_entries = rows.entries;
  ASSIGN_OR_RETURN(const RangeAttentionPlan plan, PlanRangeAttention(sizes, Multiprocessors()));
  std::vector<KvSpan> parts(rows.caches * kMaxRanges);
  for (int64_t i = 0; i < rows.caches; ++i) {
    parts[i * kMaxRanges + 1] = {keys.get() + i * cache, values.get() + i * cache};
  }
  const std::vector<RangeSet> sets = rows.Sets();
  rows.CountInto(c, sizeof(float));
  RETURN_IF_ERROR(CheckRanges(plan, sets));
  ASSIGN_OR_RETURN(const auto device_parts, UploadAll(parts, "parts"));
  ASSIGN_OR_RETURN(const auto device_sets, UploadAll(sets, "ranges"));
  ASSIGN_OR_RETURN(const auto workspace,
                   DeviceArray<char>::Create(plan.workspace_bytes, "workspace"));
  RangeAttentionOp op;
  op.plan = plan;
  op.q = q.get();
  op.q_stride = kWidth;
  op.parts = device_parts.get();
  op.parts_per_row = rows.caches == 1 ? 0 : kMaxRanges;
  op.sets = device_sets.get();
  op.workspace = workspace.get();
  op.out = out.get();
  return report.Measure(
      c, [&] { return kernels::Launch(report.stream(), op); },
      [&] { return rows.Check<float>(out.get(), 10); }, graph);
}

absl::Status AttentionOfTiles(Report& report, Case c, const AttentionRows& rows, bool graph) {
  // Rounding probabilities to Bf16, by 2^-8 of themselves at most, moves a number by up to 4e-3.
  constexpr double kMagnitude = 400;
  const AttentionNumbers<Bf16>& numbers = Numbers<Bf16>();
  const int64_t cache = rows.entries * kWidth;
  ASSIGN_OR_RETURN(const auto q, Upload(numbers.q, rows.rows * kWidth, "q"));
  ASSIGN_OR_RETURN(const auto keys, Upload(numbers.keys, rows.caches * cache, "keys"));
  ASSIGN_OR_RETURN(const auto values, Upload(numbers.values, rows.caches * cache, "values"));
  ASSIGN_OR_RETURN(const auto out, DeviceArray<float>::Create(rows.rows * kWidth, "out"));
  std::vector<CacheRows> runs(rows.caches);
  for (int64_t i = 0; i < rows.caches; ++i) {
    runs[i].rows = rows.rows / rows.caches;
    runs[i].parts[1] = {keys.get() + i * cache, values.get() + i * cache};
  }
  const std::vector<RangeSet> sets = rows.Sets();
  const std::vector<RowTile> tiles = RowTilesOf(runs, sets, MostTileRows(kHeads, kHeads));
  ASSIGN_OR_RETURN(
      const TileAttentionPlan plan,
      PlanTileAttention(
          SizesOf({.rows = rows.rows, .heads = kHeads, .kv_heads = kHeads, .head_dim = kHeadDim},
                  tiles),
          Multiprocessors()));
  RETURN_IF_ERROR(CheckTileAttention(plan, tiles, sets));
  rows.CountInto(c, sizeof(Bf16));
  ASSIGN_OR_RETURN(const auto device_tiles, UploadAll(tiles, "tiles"));
  ASSIGN_OR_RETURN(const auto device_sets, UploadAll(sets, "ranges"));
  ASSIGN_OR_RETURN(const auto workspace,
                   DeviceArray<char>::Create(plan.workspace_bytes, "workspace"));
  TileAttentionOp op;
  op.plan = plan;
  op.q = q.get();
  op.q_stride = op.kv_stride = kWidth;
  op.tiles = device_tiles.get();
  op.sets = device_sets.get();
  op.workspace = workspace.get();
  op.out = out.get();
  return report.Measure(
      c, [&] { return kernels::Launch(report.stream(), op); },
      [&] { return rows.Check<Bf16>(out.get(), kMagnitude); }, graph);
}

}  // namespace

absl::Status Decode(Report& report, Case c, DType dtype, int64_t batch, int64_t entries,
                    bool graph) {
  return (dtype == DType::kBf16 ? AttentionOfTiles : Attention)(report, std::move(c),
                                                                DecodeRows(batch, entries), graph);
}

absl::Status Prefill(Report& report, Case c, DType dtype, int64_t tokens, int64_t dilation) {
  return (dtype == DType::kBf16 ? AttentionOfTiles : Attention)(
      report, std::move(c), PrefillRows(tokens, dilation), false);
}

absl::Status Scan(Report& report, Case c, int64_t rows) {
  const Pattern<float> z(1), x(2);
  ASSIGN_OR_RETURN(const auto device_z, Upload(z, rows * kWidth, "z"));
  ASSIGN_OR_RETURN(const auto device_x, Upload(x, rows * kWidth, "x"));
  ASSIGN_OR_RETURN(const auto y, DeviceArray<float>::Create(rows * kWidth, "y"));
  ASSIGN_OR_RETURN(const auto state, UploadAll(std::vector<float>(kWidth), "state"));
  ASSIGN_OR_RETURN(
      const GatedScanPlan plan,
      PlanGatedScan({.segments = 1, .max_rows = rows, .channels = kWidth}, Multiprocessors()));
  std::vector<GatedScanSegment> segments(1);
  segments[0].z = device_z.get();
  segments[0].x[0] = device_x.get();
  segments[0].y[0] = y.get();
  segments[0].state[0] = state.get();
  segments[0].rows = rows;
  RETURN_IF_ERROR(CheckGatedScan(plan, segments));
  ASSIGN_OR_RETURN(const auto device_segments, UploadAll(segments, "segments"));
  GatedScanOp op;
  op.plan = plan;
  op.segments = device_segments.get();
  op.segment_count = 1;
  op.stride = op.y_stride = kWidth;
  c.bytes = sizeof(float) * 3.0 * static_cast<double>(rows * kWidth);
  return report.Measure(
      c, [&] { return kernels::Launch(report.stream(), op); },
      [&]() -> absl::Status {
        for (int64_t channel : {int64_t{0}, kWidth / 3, kWidth - 1}) {
          std::vector<float> gates, inputs, expected(rows);
          for (int64_t t = 0; t < rows; ++t) {
            gates.push_back(z[t * kWidth + channel]);
            inputs.push_back(x[t * kWidth + channel]);
          }
          float zero = 0;
          OpContext reference(Isa::kScalar);
          GatedScan(reference, gates.data(), nullptr, inputs.data(), 1, rows, 1, &zero,
                    expected.data(), 1);
          ASSIGN_OR_RETURN(const std::vector<float> actual,
                           Download(y.get() + channel, rows, 1, kWidth));
          RETURN_IF_ERROR(ExpectClose(actual, expected, 10, absl::StrCat("channel ", channel)));
        }
        return absl::OkStatus();
      });
}

absl::Status GroupedCrossAttention(Report& report, Case c, int64_t count, int32_t group_rows,
                                   int64_t pool) {
  constexpr int32_t kChunks = 8;
  constexpr int64_t kMemoryRows = 64;
  const int64_t chunk = kMemoryRows * kWidth, rows = count * group_rows;
  const Pattern<Bf16> q(1), keys(2), values(3);
  ASSIGN_OR_RETURN(const auto device_q, Upload(q, rows * kWidth, "q"));
  ASSIGN_OR_RETURN(const auto device_keys, Upload(keys, pool * chunk, "keys"));
  ASSIGN_OR_RETURN(const auto device_values, Upload(values, pool * chunk, "values"));
  ASSIGN_OR_RETURN(const auto out, DeviceArray<float>::Create(rows * kWidth, "out"));
  std::vector<GcaGroup> groups;
  std::vector<MemoryView> views;
  std::vector<int64_t> places;
  for (int64_t g = 0; g < count; ++g) {
    groups.push_back({g * group_rows, g * kChunks, group_rows, kChunks});
    for (int64_t e = 0; e < kChunks; ++e) {
      places.push_back((g * kChunks + e) * 37 % pool * chunk);
      views.push_back({device_keys.get() + places.back(), device_values.get() + places.back(),
                       static_cast<int>(kMemoryRows)});
    }
  }
  const std::vector<float> weights(views.size(), 1.0f / kChunks);
  const GcaSizes sizes = {
      .groups = count, .rows = rows, .max_group_rows = group_rows, .max_group_chunks = kChunks};
  ASSIGN_OR_RETURN(const GcaPlan plan, PlanGca({kHeads, kHeads, kHeadDim}, sizes, DType::kBf16));
  RETURN_IF_ERROR(CheckGca(plan, groups, views));
  ASSIGN_OR_RETURN(const auto device_groups, UploadAll(groups, "groups"));
  ASSIGN_OR_RETURN(const auto device_views, UploadAll(views, "chunks"));
  ASSIGN_OR_RETURN(const auto device_weights, UploadAll(weights, "weights"));
  ASSIGN_OR_RETURN(const auto workspace,
                   DeviceArray<char>::Create(plan.workspace_bytes, "workspace"));
  GcaOp op;
  op.plan = plan;
  op.q = device_q.get();
  op.groups = device_groups.get();
  op.group_count = count;
  op.chunks = device_views.get();
  op.weights = device_weights.get();
  op.workspace = workspace.get();
  op.out = out.get();
  c.flops = 4.0 * static_cast<double>(rows * kWidth * kChunks * kMemoryRows);
  c.bytes = sizeof(Bf16) * static_cast<double>(2 * std::min(pool, count * kChunks) * chunk) +
            (sizeof(Bf16) + sizeof(float)) * static_cast<double>(rows * kWidth);
  return report.Measure(
      c, [&] { return kernels::Launch(report.stream(), op); },
      [&]() -> absl::Status {
        for (int64_t g : {int64_t{0}, count - 1}) {
          const int64_t row = g * group_rows + 17 % group_rows;
          std::vector<float> one_q, expected(kWidth);
          for (int64_t d = 0; d < kWidth; ++d) one_q.push_back(q[row * kWidth + d].ToFloat());
          std::vector<std::vector<Bf16>> memory;
          std::vector<MemoryView> host_views;
          for (int64_t e = 0; e < kChunks; ++e) {
            for (const Pattern<Bf16>* from : {&keys, &values}) {
              std::vector<Bf16>& to = memory.emplace_back();
              for (int64_t i = 0; i < chunk; ++i)
                to.push_back((*from)[places[g * kChunks + e] + i]);
            }
            host_views.push_back(
                {memory[2 * e].data(), memory[2 * e + 1].data(), static_cast<int>(kMemoryRows)});
          }
          OpContext reference(Isa::kScalar);
          Gca(reference, plan.shape, one_q.data(), 1, host_views.data(), weights.data(), kChunks,
              expected.data());
          ASSIGN_OR_RETURN(const std::vector<float> actual,
                           Download(out.get() + row * kWidth, kWidth));
          // Rounding probabilities to bf16 moves a number by up to 4e-4.
          RETURN_IF_ERROR(ExpectClose(actual, expected, 100, absl::StrCat("row ", row)));
        }
        return absl::OkStatus();
      });
}

absl::Status LandmarkSearch(Report& report, Case c, int64_t keys, int64_t queries) {
  constexpr int kKeyWidth = 256, kBest = 8;
  constexpr int64_t kPart = 65536;
  const Pattern<Bf16> numbers(1);
  const Pattern<float> query_numbers(2);
  ASSIGN_OR_RETURN(const auto device_keys, Upload(numbers, keys * kKeyWidth, "keys"));
  ASSIGN_OR_RETURN(const auto device_queries,
                   Upload(query_numbers, queries * kKeyWidth, "queries"));
  ASSIGN_OR_RETURN(
      const LandmarkTopKPlan plan,
      PlanLandmarkTopK({queries, kKeyWidth, keys, kBest, /*aligned=*/true}, Multiprocessors()));
  const KeySegment segment{device_keys.get(), keys};
  ASSIGN_OR_RETURN(const auto segments, UploadAll(SegmentTable({&segment, 1}), "segments"));
  ASSIGN_OR_RETURN(const auto workspace,
                   DeviceArray<char>::Create(plan.workspace_bytes, "workspace"));
  ASSIGN_OR_RETURN(const auto candidates,
                   DeviceArray<int64_t>::Create(queries * kBest, "candidates"));
  ASSIGN_OR_RETURN(const auto scores, DeviceArray<float>::Create(queries * kBest, "scores"));
  c.bytes = sizeof(Bf16) * static_cast<double>(keys * kKeyWidth);
  c.flops = 2.0 * static_cast<double>(queries * keys * kKeyWidth);
  return report.Measure(
      c,
      [&] {
        return kernels::Launch(report.stream(),
                               LandmarkTopKOp{plan, device_queries.get(), segments.get(),
                                              workspace.get(), candidates.get(), scores.get()});
      },
      [&]() -> absl::Status {
        const int64_t last = queries - 1;
        std::vector<float> query, all;
        for (int64_t d = 0; d < kKeyWidth; ++d)
          query.push_back(query_numbers[last * kKeyWidth + d]);
        OpContext reference(Isa::kScalar);
        for (int64_t first = 0; first < keys; first += kPart) {
          const int64_t count = std::min(kPart, keys - first);
          std::vector<Bf16> part;
          for (int64_t i = 0; i < count * kKeyWidth; ++i) {
            part.push_back(numbers[first * kKeyWidth + i]);
          }
          all.resize(first + count);
          LandmarkScores(reference, query.data(), kKeyWidth, part.data(), count, &all[first]);
        }
        ASSIGN_OR_RETURN(const std::vector<int64_t> found,
                         Download(candidates.get() + last * kBest, kBest));
        ASSIGN_OR_RETURN(const std::vector<float> actual,
                         Download(scores.get() + last * kBest, kBest));
        std::vector<float> of_found;
        for (int64_t candidate : found) of_found.push_back(all.at(candidate));
        RETURN_IF_ERROR(ExpectClose(actual, of_found, 10, "score"));
        std::partial_sort(all.begin(), all.begin() + kBest, all.end(), std::greater<>());
        all.resize(kBest);
        return ExpectClose(actual, all, 10, "best score");
      });
}

}  // namespace recollect::bench
