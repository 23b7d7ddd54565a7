#include "model/device/device_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "model/device/device_layers.h"
#include "model/model_files.h"

namespace recollect::model {

using enum DeviceScratch;
using kernels::DeviceCopy;
using kernels::DeviceRows;

namespace {

absl::Status MixPointed(DeviceContext& ctx, std::span<const DeviceModel::Pointed> pointed,
                        float* scores) {
  std::vector<kernels::PointedToken> all;
  std::vector<int64_t> ends;
  for (const DeviceModel::Pointed& of_row : pointed) {
    all.insert(all.end(), of_row.begin(), of_row.end());
    ends.push_back(std::ssize(all));
  }
  DeviceTables tables;
  const int64_t all_at = tables.Add(all), ends_at = tables.Add(ends);
  RETURN_IF_ERROR(ctx.Upload(tables));
  return ctx.device.Run(kernels::MixPointedOp{
      std::ssize(pointed), ctx.config.vocab_size, ctx.config.unk_id,
      tables.At<kernels::PointedToken>(all_at), tables.At<int64_t>(ends_at), scores});
}

// Logits [rows, vocab_size] of rows [d], in kProjected.
absl::StatusOr<float*> Scores(DeviceContext& ctx, std::span<const float* const> rows,
                              std::span<const DeviceModel::Pointed> pointed) {
  RECOLLECT_CHECK(pointed.size() == rows.size());
  const auto count = static_cast<int64_t>(rows.size());
  ASSIGN_OR_RETURN(const float* const h, ctx.Gather(rows));
  ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, count * ctx.config.d));
  ASSIGN_OR_RETURN(float* const scores, ctx.Floats(kProjected, count * ctx.config.vocab_size));
  RETURN_IF_ERROR(ctx.RmsNorm(h, count, ctx.weights.final_norm, ctx.config.norm_eps, normed));
  RETURN_IF_ERROR(ctx.Product(ctx.weights.head, normed, count, scores));
  if (ctx.config.pointer.reach > 0) RETURN_IF_ERROR(MixPointed(ctx, pointed, scores));
  return scores;
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
                                                               const Model& model) {
  RETURN_IF_ERROR(CheckDeviceConfig(model.config(), model.dtype()));
  ASSIGN_OR_RETURN(const auto file, OpenWeights(model.files(), model.config()));
  std::unique_ptr<TensorFile> adapter;
  if (model.config().has_adapter()) {
    ASSIGN_OR_RETURN(adapter, OpenAdapter(model.files(), model.config()));
  }
  auto weights = LoadDeviceWeights(device, *file, adapter.get(), model.config(), model.dtype());
  if (!weights.ok()) return Annotate(weights.status(), model.files().weights);
  auto context = std::make_unique<DeviceContext>(device, model.config(), model.dtype());
  context->weights = *std::move(weights);
  // Now, and not in the first request.
  for (const kernels::GemmShape& shape : DeviceProducts(model.config(), model.dtype())) {
    RETURN_IF_ERROR(device.PrepareGemm(shape));
  }
  return std::unique_ptr<DeviceModel>(new DeviceModel(device, std::move(context)));
}

DeviceModel::DeviceModel(kernels::Device& device, std::unique_ptr<DeviceContext> context)
    : device_(device), ctx_(std::move(context)) {}

DeviceModel::~DeviceModel() = default;

const ModelConfig& DeviceModel::config() const { return ctx_->config; }
DType DeviceModel::dtype() const { return ctx_->dtype; }
const kernels::GraphDevice& DeviceModel::graphs() const { return ctx_->device; }

absl::Status DeviceModel::Copy(const std::vector<DeviceCopy>& copies) { return ctx_->Copy(copies); }

absl::Status DeviceModel::Embed(std::span<const int32_t> ids, float* h) {
  DeviceContext& ctx = *ctx_;
  const int64_t d = ctx.config.d;
  std::vector<DeviceCopy> copies;
  for (const int32_t id : ids) {
    RECOLLECT_CHECK(id >= 0 && id < ctx.config.vocab_size);
    copies.push_back({ctx.weights.embed + id * d, h, d * int64_t{sizeof(float)}});
    h += d;
  }
  return ctx.Copy(copies);
}

absl::Status DeviceModel::Queries(int group, std::span<const float* const> rows, float* u) {
  DeviceContext& ctx = *ctx_;
  const auto count = static_cast<int64_t>(rows.size());
  if (count == 0) return absl::OkStatus();
  const auto& weights = ctx.weights.queries[static_cast<size_t>(group)];
  ASSIGN_OR_RETURN(const float* const h, ctx.Gather(rows));
  ASSIGN_OR_RETURN(float* const queries, ctx.Floats(kProjected, count * ctx.config.d_r));
  if (weights.proj) {
    ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, count * ctx.config.d));
    RETURN_IF_ERROR(ctx.RmsNorm(h, count, weights.norm, ctx.config.norm_eps, normed));
    RETURN_IF_ERROR(ctx.Product(*weights.proj, normed, count, queries));
  } else {
    RETURN_IF_ERROR(ctx.RmsNorm(h, count, weights.norm, ctx.config.norm_eps, {queries}));
  }
  return ctx.device.Download(queries, count * ctx.config.d_r * int64_t{sizeof(float)}, u);
}

absl::Status DeviceModel::Logits(std::span<const float* const> rows,
                                 std::span<const Pointed> pointed, float* logits) {
  if (rows.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const float* const scores, Scores(*ctx_, rows, pointed));
  const int64_t count = std::ssize(rows) * config().vocab_size;
  return ctx_->device.Download(scores, count * int64_t{sizeof(float)}, logits);
}

absl::Status DeviceModel::Choices(std::span<const float* const> rows,
                                  std::span<const Pointed> pointed,
                                  std::span<const kernels::SampleSettings> settings,
                                  const kernels::NeverChosen& never, int32_t* choices) {
  RECOLLECT_CHECK(settings.size() == rows.size());
  if (rows.empty()) return absl::OkStatus();
  DeviceContext& ctx = *ctx_;
  const auto count = static_cast<int64_t>(rows.size());
  const auto setting_bytes = static_cast<int64_t>(settings.size_bytes());
  const int64_t choice_bytes = count * int64_t{sizeof(int32_t)};
  ASSIGN_OR_RETURN(const float* const scores, Scores(ctx, rows, pointed));
  ASSIGN_OR_RETURN(void* const memory, ctx.Bytes(kWorkspace, setting_bytes + choice_bytes));
  RETURN_IF_ERROR(ctx.device.Upload(settings.data(), setting_bytes, memory));
  auto* const chosen = reinterpret_cast<int32_t*>(static_cast<std::byte*>(memory) + setting_bytes);
  RETURN_IF_ERROR(ctx.device.Run(
      kernels::SampleOp{scores, count, static_cast<int32_t>(ctx.config.vocab_size), never,
                        static_cast<const kernels::SampleSettings*>(memory), chosen}));
  return ctx.device.Download(chosen, choice_bytes, choices);
}

}  // namespace recollect::model
