// Decoder layers of the flagship on a device: norm, projections and output gate around the gated
// recurrence and attention over the local pattern (design 2.2), GCA over retrieved chunks (2.5),
// FFN.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "model/device_call.h"
#include "model/device_model.h"

namespace recollect::model {
namespace {

// A sequence's rows of a call: its segments in one.
std::vector<DeviceSegment> RunsOf(std::span<const DeviceSegment> segments) {
  std::vector<DeviceSegment> runs;
  for (const DeviceSegment& segment : segments) {
    if (runs.empty() || runs.back().state != segment.state) {
      runs.push_back({.state = segment.state});
    }
    runs.back().rows += segment.rows;
  }
  return runs;
}

// Whether the same heads of both share a pattern, so that their rows can be attended together.
bool HeadsAreSplitAlike(const DeviceLayerState& a, const DeviceLayerState& b) {
  return std::equal(
      a.caches.begin(), a.caches.end(), b.caches.begin(), b.caches.end(),
      [](const DeviceCache& x, const DeviceCache& y) { return x.heads() == y.heads(); });
}

}  // namespace

// The copies and scan segments of one layer, then what its rows attend to.
absl::Status DeviceModel::LayMixer(int layer, std::span<const DeviceSegment> runs,
                                   CallTables& call) {
  const int64_t inner = config_.inner(), stride = 5 * inner;
  MixerTables& mixer = call.mixers.emplace_back();
  std::vector<kernels::GatedScanSegment> scans;
  float* k = call.projected + 2 * inner;
  int64_t row = 0, most_rows = 0;
  for (const DeviceSegment& run : runs) {
    DeviceLayerState& state = run.state->layer(layer);
    float* const v = k + inner;
    scans.push_back({.z = v + inner,
                     .x = {k, v},
                     .y = {k, v},
                     .state = {state.key_recurrence(), state.key_recurrence() + inner},
                     .rows = run.rows});
    for (DeviceCache& cache : state.caches) {
      RETURN_IF_ERROR(cache.Reserve(device_, run.rows, call.copies));
      cache.Append(call.qkv.At(row, inner), call.qkv.At(row, 2 * inner), run.rows, call.qkv.stride,
                   call.copies.appends);
    }
    k += run.rows * stride;
    row += run.rows;
    most_rows = std::max(most_rows, run.rows);
  }
  mixer.moves = CopyTable::Add(call.tables, std::exchange(call.copies.moves, {}));
  mixer.appends = CopyTable::Add(call.tables, std::exchange(call.copies.appends, {}));
  if (config_.recurrence) {
    ASSIGN_OR_RETURN(mixer.scan,
                     kernels::PlanGatedScan({.segments = static_cast<int64_t>(scans.size()),
                                             .max_rows = most_rows,
                                             .channels = inner,
                                             .inputs = 2},
                                            device_.multiprocessors()));
    RETURN_IF_ERROR(kernels::CheckGatedScan(mixer.scan, scans));
    mixer.scans = call.tables.Add(scans);
  }
  // Neighbouring sequences whose heads are split alike are attended together.
  row = 0;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    const DeviceLayerState& like = runs[begin].state->layer(layer);
    int64_t rows = 0;
    for (; end < runs.size() && HeadsAreSplitAlike(runs[end].state->layer(layer), like); ++end) {
      rows += runs[end].rows;
    }
    for (size_t cache = 0; cache < like.caches.size(); ++cache) {
      mixer.attentions.push_back(
          LayAttention(layer, cache, runs.subspan(begin, end - begin), row, call));
    }
    row += rows;
  }
  return absl::OkStatus();
}

// The heads of cache number `cache` of each of the runs, whose rows are already appended and begin
// at `first_row` of the call.
RowsAttention DeviceModel::LayAttention(int layer, size_t cache,
                                        std::span<const DeviceSegment> runs, int64_t first_row,
                                        CallTables& call) {
  const DeviceCache& like = runs.front().state->layer(layer).caches[cache];
  const int64_t width = int64_t{like.heads()} * config_.head_dim;
  std::vector<kernels::RangeSet> sets;
  std::vector<CachedRows> cached;
  for (const DeviceSegment& run : runs) {
    const DeviceCache& of = run.state->layer(layer).caches[cache];
    cached.push_back({.rows = run.rows, .parts = of.parts()});
    for (int64_t position = of.length() - run.rows; position < of.length(); ++position) {
      sets.push_back(of.Ranges(position));
    }
  }
  const auto rows = static_cast<int64_t>(sets.size());
  RowsAttention attention = LayRows(cached, sets, like.heads(), width, call.tables);
  attention.first_row = first_row;
  attention.first_head = like.first_head();
  if (like.heads() == config_.heads) return attention;
  // Some heads come out dense, and go to their places.
  std::vector<kernels::DeviceCopy> places;
  float* to =
      call.attended + first_row * config_.inner() + int64_t{like.first_head()} * config_.head_dim;
  for (int64_t i = 0; i < rows; ++i, to += config_.inner()) {
    places.push_back({call.head_rows + i * width, to, width * int64_t{sizeof(float)}});
  }
  attention.places = CopyTable::Add(call.tables, places);
  return attention;
}

absl::Status DeviceModel::LayGca(std::span<const DeviceSegment> segments, CallTables& call) {
  std::vector<kernels::GcaGroup> groups;
  std::vector<kernels::MemoryView> chunks;
  std::vector<float> weights;
  kernels::GcaSizes sizes = {.rows = call.rows};
  int64_t row = 0;
  for (const DeviceSegment& segment : segments) {
    if (segment.reads_memory()) {
      const Retrieved& retrieved = *segment.retrieved;
      groups.push_back({.first_row = row,
                        .first_chunk = static_cast<int64_t>(chunks.size()),
                        .rows = static_cast<int32_t>(segment.rows),
                        .chunks = static_cast<int32_t>(retrieved.chunks.size())});
      chunks.insert(chunks.end(), retrieved.chunks.begin(), retrieved.chunks.end());
      weights.insert(weights.end(), retrieved.weights.begin(), retrieved.weights.end());
      sizes.max_group_rows = std::max(sizes.max_group_rows, groups.back().rows);
      sizes.max_group_chunks = std::max(sizes.max_group_chunks, groups.back().chunks);
    }
    row += segment.rows;
  }
  GcaTables& gca = call.gca;
  gca.count = sizes.groups = static_cast<int64_t>(groups.size());
  if (groups.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(gca.plan,
                   kernels::PlanGca({.heads = config_.heads,
                                     .kv_heads = config_.memory_kv_heads,
                                     .head_dim = config_.head_dim,
                                     .off_by_one = config_.gca_softmax == GcaSoftmax::kOffByOne},
                                    sizes, dtype_));
  RETURN_IF_ERROR(kernels::CheckGca(gca.plan, groups, chunks));
  gca.groups = call.tables.Add(groups);
  gca.chunks = call.tables.Add(chunks);
  gca.weights = call.tables.Add(weights);
  return absl::OkStatus();
}

absl::Status DeviceModel::RunLayers(int first, int count, std::span<const DeviceSegment> segments,
                                    float* h) {
  const int64_t inner = config_.inner(), d = config_.d;
  const std::vector<DeviceSegment> runs = RunsOf(segments);
  CallTables call;
  std::vector<float> cosines, sines;
  for (const DeviceSegment& run : runs) {
    RETURN_IF_ERROR(run.state->Begin(device_));
    call.rows += run.rows;
    std::vector<int64_t> positions(static_cast<size_t>(run.rows));
    for (size_t i = 0; i < positions.size(); ++i) {
      positions[i] = run.state->layer(first).length() + static_cast<int64_t>(i);
    }
    AppendRopeFactors(ctx_, config_, run.state->rope_base(), positions, cosines, sines);
  }
  if (call.rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(call.projected,
                   Floats(kProjected, call.rows * std::max(5 * inner, 2 * config_.ffn)));
  ASSIGN_OR_RETURN(call.qkv, LayQkv(call.projected, 5 * inner, inner, call.rows));
  ASSIGN_OR_RETURN(call.attended, Floats(kAttended, call.rows * inner));
  ASSIGN_OR_RETURN(call.head_rows, Floats(kHeadRows, call.rows * inner));
  call.cosines = call.tables.Add(cosines);
  call.sines = call.tables.Add(sines);
  for (int layer = first; layer < first + count; ++layer) {
    RETURN_IF_ERROR(LayMixer(layer, runs, call));
  }
  RETURN_IF_ERROR(LayGca(segments, call));
  RETURN_IF_ERROR(UploadTables(call.tables));

  for (int layer = first; layer < first + count; ++layer) {
    const DeviceLayer& weights = weights_.layers[static_cast<size_t>(layer)];
    RETURN_IF_ERROR(RunMixer(weights, call, call.mixers[static_cast<size_t>(layer - first)], h));
    const float* ffn_input = h;
    if (weights.gca_norm != nullptr && call.gca.count > 0) {
      float* sum = h;
      if (config_.gca_residual == GcaResidual::kBypass) {
        // The memory reaches the residual stream through the FFN only.
        ASSIGN_OR_RETURN(sum, Floats(kSum, call.rows * d));
        RETURN_IF_ERROR(device_.Zero(sum, call.rows * d * int64_t{sizeof(float)}));
        RETURN_IF_ERROR(device_.Add(h, call.rows * d, sum));
        ffn_input = sum;
      }
      RETURN_IF_ERROR(RunGca(weights, call, h, sum));
    }
    RETURN_IF_ERROR(
        RunFfn(weights.ffn, config_.parts(layer).ffn, config_.norm_eps, ffn_input, call.rows, h));
  }
  return absl::OkStatus();
}

absl::Status DeviceModel::RunMixer(const DeviceLayer& weights, const CallTables& call,
                                   const MixerTables& tables, float* h) {
  const int64_t inner = config_.inner(), stride = 5 * inner, rows = call.rows;
  float* const q = call.projected + inner;
  ASSIGN_OR_RETURN(const kernels::DeviceRows normed, Operand(kNormed, rows * config_.d));
  ASSIGN_OR_RETURN(const kernels::DeviceRows gated, Operand(kInner, rows * inner));
  RETURN_IF_ERROR(device_.RmsNorm({.rows = rows, .width = config_.d}, h, weights.mixer_norm,
                                  config_.norm_eps, normed));
  RETURN_IF_ERROR(Product(weights.in_proj, normed, rows, call.projected));
  if (config_.recurrence) {
    RETURN_IF_ERROR(device_.GatedScan(
        tables.scan, {.segments = call.tables.At<kernels::GatedScanSegment>(tables.scans),
                      .segment_count = tables.scan.sizes.segments,
                      .bias = weights.gate_bias,
                      .stride = stride,
                      .y_stride = stride}));
  }
  // q and k lie side by side, and so do q, k and v.
  RETURN_IF_ERROR(device_.Rope(
      {.rows = rows, .width = config_.head_dim, .heads = 2 * config_.heads, .stride = stride},
      config_.rope_pairs, call.tables.At<float>(call.cosines), call.tables.At<float>(call.sines),
      q));
  RETURN_IF_ERROR(ConvertQkv(q, stride, rows, call.qkv));
  RETURN_IF_ERROR(tables.moves.Run(device_, call.tables));
  RETURN_IF_ERROR(tables.appends.Run(device_, call.tables));
  for (const RowsAttention& attention : tables.attentions) {
    const bool all = attention.heads == config_.heads;
    RETURN_IF_ERROR(Attend(attention, call.tables, call.qkv,
                           all ? call.attended + attention.first_row * inner : call.head_rows));
    RETURN_IF_ERROR(attention.places.Run(device_, call.tables));
  }
  RETURN_IF_ERROR(device_.SigmoidGate(call.projected, stride, call.attended, rows, inner, gated));
  return Product(weights.out_proj, gated, rows, h, /*add=*/true);
}

// Rows that read nothing have zeros there, which add nothing.
absl::Status DeviceModel::RunGca(const DeviceLayer& weights, const CallTables& call, const float* a,
                                 float* sum) {
  const int64_t inner = config_.inner(), rows = call.rows;
  const GcaTables& gca = call.gca;
  ASSIGN_OR_RETURN(const kernels::DeviceRows normed, Operand(kNormed, rows * config_.d));
  ASSIGN_OR_RETURN(float* const queries, Floats(kKeys, rows * inner));
  ASSIGN_OR_RETURN(float* const read, Floats(kValues, rows * inner));
  ASSIGN_OR_RETURN(void* const workspace,
                   Bytes(kWorkspace, std::max<int64_t>(gca.plan.workspace_bytes, 1)));
  RETURN_IF_ERROR(device_.RmsNorm({.rows = rows, .width = config_.d}, a, weights.gca_norm,
                                  config_.norm_eps, normed));
  RETURN_IF_ERROR(Product(weights.gca_q_proj, normed, rows, queries));
  ASSIGN_OR_RETURN(const kernels::DeviceRows q, AsOperand(kRounded, queries, rows * inner));
  RETURN_IF_ERROR(device_.Zero(read, rows * inner * int64_t{sizeof(float)}));
  RETURN_IF_ERROR(device_.Gca(gca.plan, {.q = q.data,
                                         .groups = call.tables.At<kernels::GcaGroup>(gca.groups),
                                         .group_count = gca.count,
                                         .chunks = call.tables.At<kernels::MemoryView>(gca.chunks),
                                         .weights = call.tables.At<float>(gca.weights),
                                         .workspace = workspace,
                                         .out = read}));
  ASSIGN_OR_RETURN(const kernels::DeviceRows operand, AsOperand(kRounded, read, rows * inner));
  return Product(weights.gca_out_proj, operand, rows, sum, /*add=*/true);
}

}  // namespace recollect::model
