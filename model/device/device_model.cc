#include "model/device/device_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "model/weights/safetensors.h"

namespace recollect::model {

using kernels::DeviceCopy;
using kernels::DeviceRows;

namespace {

// function(numbers, bytes) of stored states in the number format of the products, in RAM.
template <typename Function>
absl::Status WithOperand(DType dtype, std::span<const Bf16> states, Function function) {
  if (dtype == DType::kBf16) {
    return function(static_cast<const void*>(states.data()),
                    static_cast<int64_t>(states.size_bytes()));
  }
  std::vector<float> wide(states.size());
  std::transform(states.begin(), states.end(), wide.begin(),
                 [](Bf16 value) { return value.ToFloat(); });
  return function(static_cast<const void*>(wide.data()),
                  static_cast<int64_t>(wide.size() * sizeof(float)));
}

}  // namespace

absl::Status CheckDeviceConfig(const ModelConfig& config, DType dtype) {
  const std::string who = absl::StrCat("family ", config.architecture, " on a device");
  static_assert(kernels::kMaxTileHeadDim == kernels::kMaxRangeHeadDim &&
                kernels::kMaxLinearHeadDim == kernels::kMaxRangeHeadDim);
  if (config.head_dim > kernels::kMaxRangeHeadDim) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": heads of ", config.head_dim, " channels, at most ", kernels::kMaxRangeHeadDim));
  }
  // Gated mixers have a key-value head for each head.
  const int shared_by = config.heads / std::max(config.kv_heads, 1);
  if (config.kv_heads > 0 && dtype == DType::kBf16 && shared_by > kernels::kMaxTileQueries) {
    return absl::InvalidArgumentError(absl::StrCat(who, ": ", shared_by,
                                                   " heads over each key-value head, at most ",
                                                   kernels::kMaxTileQueries));
  }
  for (const kernels::GemmShape& shape : DeviceProducts(config, dtype)) {
    const absl::Status status = kernels::CheckGemmShape(shape);
    if (!status.ok()) return Annotate(status, who);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceModel>> DeviceModel::Load(kernels::Device& device,
                                                               const Model& model,
                                                               const std::string& directory) {
  RETURN_IF_ERROR(CheckDeviceConfig(model.config(), model.dtype()));
  const std::string path = directory + "/model.safetensors";
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  std::unique_ptr<DeviceModel> loaded(new DeviceModel(device, model));
  auto weights = LoadDeviceWeights(device, file, model.config(), model.dtype());
  if (!weights.ok()) return Annotate(weights.status(), path);
  loaded->weights_ = *std::move(weights);
  // Now, and not in the first request.
  for (const kernels::GemmShape& shape : DeviceProducts(model.config(), model.dtype())) {
    RETURN_IF_ERROR(device.PrepareGemm(shape));
  }
  return loaded;
}

absl::StatusOr<void*> DeviceModel::Bytes(Scratch slot, int64_t bytes) {
  return kernels::AtLeast(device_, bytes, scratch_[slot]);
}

absl::StatusOr<float*> DeviceModel::Floats(Scratch slot, int64_t count) {
  ASSIGN_OR_RETURN(void* const memory, Bytes(slot, count * int64_t{sizeof(float)}));
  return static_cast<float*>(memory);
}

absl::StatusOr<DeviceRows> DeviceModel::Operand(Scratch slot, int64_t count) {
  ASSIGN_OR_RETURN(void* const memory, Bytes(slot, count * kernels::BytesOf(dtype_)));
  return DeviceRows{memory, dtype_};
}

absl::StatusOr<DeviceRows> DeviceModel::AsOperand(Scratch slot, const float* x, int64_t count) {
  if (dtype_ == DType::kFloat32) return DeviceRows{const_cast<float*>(x), dtype_};
  ASSIGN_OR_RETURN(const DeviceRows rounded, Operand(slot, count));
  RETURN_IF_ERROR(
      device_.Run(kernels::ConvertToBf16Op{x, count, static_cast<Bf16*>(rounded.data)}));
  return rounded;
}

absl::Status DeviceModel::UploadTables(DeviceTables& tables) {
  ASSIGN_OR_RETURN(void* const memory, Bytes(kTables, tables.bytes()));
  return tables.Upload(device_, memory);
}

absl::Status DeviceModel::Product(const DeviceMatrix& weights, const DeviceRows& x, int64_t rows,
                                  float* y, bool add) {
  return device_.Run(
      kernels::GemmOp{.shape = {.n = weights.n, .k = weights.k, .in = dtype_, .add = add},
                      .weights = weights.data,
                      .x = x.data,
                      .rows = rows,
                      .y = y});
}

absl::Status DeviceModel::Copy(const std::vector<DeviceCopy>& copies) {
  if (copies.empty()) return absl::OkStatus();
  DeviceTables tables;
  const CopyTable table = CopyTable::Add(tables, copies);
  RETURN_IF_ERROR(UploadTables(tables));
  return table.Run(device_, tables);
}

absl::StatusOr<float*> DeviceModel::Gather(std::span<const float* const> rows) {
  ASSIGN_OR_RETURN(float* const gathered,
                   Floats(kRows, static_cast<int64_t>(rows.size()) * config_.d));
  std::vector<DeviceCopy> copies;
  for (const float* row : rows) {
    copies.push_back({row, gathered + static_cast<int64_t>(copies.size()) * config_.d,
                      config_.d * int64_t{sizeof(float)}});
  }
  RETURN_IF_ERROR(Copy(copies));
  return gathered;
}

absl::Status DeviceModel::Embed(std::span<const int32_t> ids, float* h) {
  const int64_t d = config_.d;
  std::vector<DeviceCopy> copies;
  for (const int32_t id : ids) {
    RECOLLECT_CHECK(id >= 0 && id < config_.vocab_size);
    copies.push_back({weights_.embed + id * d, h, d * int64_t{sizeof(float)}});
    h += d;
  }
  return Copy(copies);
}

absl::Status DeviceModel::RunFfn(const DeviceFfn& weights, FfnKind kind, float eps, const float* x,
                                 int64_t rows, float* h) {
  const int64_t width = config_.ffn;
  ASSIGN_OR_RETURN(const DeviceRows normed, Operand(kNormed, rows * config_.d));
  ASSIGN_OR_RETURN(float* const projected, Floats(kProjected, rows * weights.in_proj.n));
  ASSIGN_OR_RETURN(const DeviceRows inner, Operand(kInner, rows * width));
  RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{.sizes = {.rows = rows, .width = config_.d},
                                                 .x = x,
                                                 .gain = weights.norm,
                                                 .eps = eps,
                                                 .y = normed}));
  RETURN_IF_ERROR(Product(weights.in_proj, normed, rows, projected));
  switch (kind) {
    case FfnKind::kSwiGlu:
      RETURN_IF_ERROR(device_.Run(kernels::SwiGluOp{projected, rows, width, inner}));
      break;
    case FfnKind::kGeGlu:
      RETURN_IF_ERROR(device_.Run(kernels::GeGluOp{projected, rows, width, inner}));
      break;
    case FfnKind::kGelu:
      RETURN_IF_ERROR(device_.Run(kernels::GeluOp{projected, rows * width, inner}));
      break;
  }
  return Product(weights.out_proj, inner, rows, h, /*add=*/true);
}

absl::Status DeviceModel::Queries(int group, std::span<const float* const> rows, float* u) {
  const auto count = static_cast<int64_t>(rows.size());
  if (count == 0) return absl::OkStatus();
  const DeviceQuery& weights = weights_.queries[static_cast<size_t>(group)];
  const kernels::RowSizes sizes = {.rows = count, .width = config_.d};
  ASSIGN_OR_RETURN(const float* const h, Gather(rows));
  ASSIGN_OR_RETURN(float* const queries, Floats(kProjected, count * config_.d_r));
  if (weights.proj) {
    ASSIGN_OR_RETURN(const DeviceRows normed, Operand(kNormed, count * config_.d));
    RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{
        .sizes = sizes, .x = h, .gain = weights.norm, .eps = config_.norm_eps, .y = normed}));
    RETURN_IF_ERROR(Product(weights.proj, normed, count, queries));
  } else {
    RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{
        .sizes = sizes, .x = h, .gain = weights.norm, .eps = config_.norm_eps, .y = {queries}}));
  }
  return device_.Download(queries, count * config_.d_r * int64_t{sizeof(float)}, u);
}

absl::StatusOr<std::shared_ptr<kernels::DeviceBuffer>> DeviceModel::StageStates(
    std::span<const Bf16> states) {
  std::shared_ptr<kernels::DeviceBuffer> staged;
  RETURN_IF_ERROR(
      WithOperand(dtype_, states, [&](const void* numbers, int64_t bytes) -> absl::Status {
        ASSIGN_OR_RETURN(staged, device_.UploadAsync(numbers, bytes));
        return absl::OkStatus();
      }));
  return staged;
}

absl::Status DeviceModel::PlaceStates(std::span<const StoredStates> chunks, std::byte* to) {
  std::vector<DeviceCopy> copies;
  for (const StoredStates& chunk : chunks) {
    RECOLLECT_CHECK(static_cast<int64_t>(chunk.states.size()) == chunk.rows * config_.d);
    if (chunk.staged != nullptr) {
      RETURN_IF_ERROR(device_.Await(*chunk.staged));
      copies.push_back({chunk.staged->data(), to, chunk.staged->bytes()});
      to += chunk.staged->bytes();
    } else {
      RETURN_IF_ERROR(WithOperand(dtype_, chunk.states, [&](const void* numbers, int64_t bytes) {
        const absl::Status status = device_.Upload(numbers, bytes, to);
        to += bytes;
        return status;
      }));
    }
  }
  return Copy(copies);
}

absl::StatusOr<std::vector<DeviceMemory>> DeviceModel::ProjectMemory(
    std::span<const StoredStates> chunks) {
  const int64_t width = config_.memory_width();
  int64_t rows = 0;
  for (const StoredStates& chunk : chunks) rows += chunk.rows;
  if (rows == 0) return std::vector<DeviceMemory>();
  ASSIGN_OR_RETURN(const DeviceRows input, Operand(kNormed, rows * config_.d));
  RETURN_IF_ERROR(PlaceStates(chunks, static_cast<std::byte*>(input.data)));
  ASSIGN_OR_RETURN(float* const keys, Floats(kKeys, rows * width));
  ASSIGN_OR_RETURN(float* const values, Floats(kValues, rows * width));
  RETURN_IF_ERROR(Product(weights_.memory_k_proj, input, rows, keys));
  RETURN_IF_ERROR(Product(weights_.memory_v_proj, input, rows, values));
  if (weights_.memory_gate_proj) {
    const auto count = static_cast<int64_t>(chunks.size());
    ASSIGN_OR_RETURN(float* const gates, Floats(kProjected, rows * width));
    ASSIGN_OR_RETURN(float* const state, Floats(kState, count * width));
    RETURN_IF_ERROR(Product(weights_.memory_gate_proj, input, rows, gates));
    RETURN_IF_ERROR(device_.Run(kernels::ZeroOp{state, count * width * int64_t{sizeof(float)}}));
    std::vector<kernels::GatedScanSegment> segments;
    int64_t row = 0;
    for (const StoredStates& chunk : chunks) {
      const auto index = static_cast<int64_t>(segments.size());
      segments.push_back({.z = gates + row * width,
                          .x = {keys + row * width},
                          .y = {keys + row * width},
                          .state = {state + index * width},
                          .rows = chunk.rows});
      row += chunk.rows;
    }
    ASSIGN_OR_RETURN(
        const kernels::GatedScanPlan plan,
        kernels::PlanGatedScan({.segments = count, .max_rows = kMaxChunkTokens, .channels = width},
                               device_.multiprocessors()));
    RETURN_IF_ERROR(kernels::CheckGatedScan(plan, segments));
    DeviceTables tables;
    const int64_t at = tables.Add(segments);
    RETURN_IF_ERROR(UploadTables(tables));
    RETURN_IF_ERROR(
        device_.Run(kernels::GatedScanOp{.plan = plan,
                                         .segments = tables.At<kernels::GatedScanSegment>(at),
                                         .segment_count = count,
                                         .stride = width,
                                         .y_stride = width}));
  }
  std::vector<DeviceMemory> memories;
  int64_t row = 0;
  for (const StoredStates& chunk : chunks) {
    const int64_t count = chunk.rows * width;
    DeviceMemory& memory = memories.emplace_back();
    ASSIGN_OR_RETURN(memory.owner, device_.Allocate(2 * count * int64_t{sizeof(Bf16)}));
    Bf16* const k = static_cast<Bf16*>(memory.owner->data());
    RETURN_IF_ERROR(device_.Run(kernels::ConvertToBf16Op{keys + row * width, count, k}));
    RETURN_IF_ERROR(device_.Run(kernels::ConvertToBf16Op{values + row * width, count, k + count}));
    memory.view = {k, k + count, chunk.rows};
    row += chunk.rows;
  }
  return memories;
}

absl::Status DeviceModel::MixPointed(std::span<const Pointed> pointed, float* scores) {
  std::vector<kernels::PointedToken> all;
  std::vector<int64_t> ends;
  for (const Pointed& of_row : pointed) {
    all.insert(all.end(), of_row.begin(), of_row.end());
    ends.push_back(std::ssize(all));
  }
  DeviceTables tables;
  const int64_t all_at = tables.Add(all), ends_at = tables.Add(ends);
  RETURN_IF_ERROR(UploadTables(tables));
  return device_.Run(kernels::MixPointedOp{std::ssize(pointed), config_.vocab_size, config_.unk_id,
                                           tables.At<kernels::PointedToken>(all_at),
                                           tables.At<int64_t>(ends_at), scores});
}

absl::StatusOr<float*> DeviceModel::Scores(std::span<const float* const> rows,
                                           std::span<const Pointed> pointed) {
  RECOLLECT_CHECK(pointed.size() == rows.size());
  const auto count = static_cast<int64_t>(rows.size());
  ASSIGN_OR_RETURN(const float* const h, Gather(rows));
  ASSIGN_OR_RETURN(const DeviceRows normed, Operand(kNormed, count * config_.d));
  ASSIGN_OR_RETURN(float* const scores, Floats(kProjected, count * config_.vocab_size));
  RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{.sizes = {.rows = count, .width = config_.d},
                                                 .x = h,
                                                 .gain = weights_.final_norm,
                                                 .eps = config_.norm_eps,
                                                 .y = normed}));
  RETURN_IF_ERROR(Product(weights_.head, normed, count, scores));
  if (config_.pointer.reach > 0) RETURN_IF_ERROR(MixPointed(pointed, scores));
  return scores;
}

absl::Status DeviceModel::Logits(std::span<const float* const> rows,
                                 std::span<const Pointed> pointed, float* logits) {
  if (rows.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const float* const scores, Scores(rows, pointed));
  const auto count = static_cast<int64_t>(rows.size()) * config_.vocab_size;
  return device_.Download(scores, count * int64_t{sizeof(float)}, logits);
}

absl::Status DeviceModel::Choices(std::span<const float* const> rows,
                                  std::span<const Pointed> pointed,
                                  std::span<const kernels::SampleSettings> settings,
                                  const kernels::NeverChosen& never, int32_t* choices) {
  RECOLLECT_CHECK(settings.size() == rows.size());
  if (rows.empty()) return absl::OkStatus();
  const auto count = static_cast<int64_t>(rows.size());
  const auto setting_bytes = static_cast<int64_t>(settings.size_bytes());
  const int64_t choice_bytes = count * int64_t{sizeof(int32_t)};
  ASSIGN_OR_RETURN(const float* const scores, Scores(rows, pointed));
  ASSIGN_OR_RETURN(void* const memory, Bytes(kWorkspace, setting_bytes + choice_bytes));
  RETURN_IF_ERROR(device_.Upload(settings.data(), setting_bytes, memory));
  auto* const chosen = reinterpret_cast<int32_t*>(static_cast<std::byte*>(memory) + setting_bytes);
  RETURN_IF_ERROR(
      device_.Run(kernels::SampleOp{scores, count, static_cast<int32_t>(config_.vocab_size), never,
                                    static_cast<const kernels::SampleSettings*>(memory), chosen}));
  return device_.Download(chosen, choice_bytes, choices);
}

}  // namespace recollect::model
