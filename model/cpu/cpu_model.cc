#include "model/cpu/cpu_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/op_team.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"
#include "model/model_files.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/reader_weights.h"
#include "model/weights/reranker_weights.h"
#include "model/weights/tensor_file.h"
#include "model/weights/weights.h"

namespace recollect::model {
namespace {

absl::Status CheckBf16(DType dtype) {
  if (dtype != DType::kBf16 || kernels::Bf16Supported()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this CPU has no bf16 products (AVX512-BF16 or AMX); use fp32");
}

// Reads the weights of the adapter's reader and reranker, if it has them.
absl::Status AddReaders(const Model& model, const TensorFile& base, Weights& weights) {
  const ModelConfig& config = model.config();
  if (config.adapter.reader.exists()) {
    ASSIGN_OR_RETURN(const auto file, OpenReader(model.files(), config));
    RETURN_IF_ERROR(
        Annotate(ReadReader(*file, config, model.dtype(), weights), model.files().reader_weights));
  }
  if (config.adapter.reranker.exists()) {
    ASSIGN_OR_RETURN(const auto file, OpenReranker(model.files(), config));
    RETURN_IF_ERROR(Annotate(ReadReranker(*file, base, config, model.dtype(), weights),
                             model.files().reranker_weights));
  }
  return absl::OkStatus();
}

// Adds `delta`, the rows of the reading segments packed in order, to their rows of y.
void AddToReading(kernels::OpContext& ctx, std::span<const Segment> segments, int64_t width,
                  const float* delta, float* y) {
  for (const Segment& segment : segments) {
    const int64_t count = segment.rows * width;
    if (segment.reads_memory()) {
      kernels::Add(ctx, delta, count, y);
      delta += count;
    }
    y += count;
  }
}

// Lists what a layer is to read of its weights, and one row of memory.
void ReadLayerSoon(kernels::OpContext& ctx, const LayerContext& context,
                   const LayerWeights& weights, std::span<const Segment> segments, int64_t rows) {
  kernels::ReadSoon(ctx, weights.mixer.in_proj);
  kernels::ReadSoon(ctx, weights.mixer.out_proj);
  if (weights.gca && rows == 1 && segments.front().reads_memory()) {
    ReadGcaSoon(ctx, context, *weights.gca, segments.front());
  }
  kernels::ReadSoon(ctx, weights.ffn.in_proj);
  kernels::ReadSoon(ctx, weights.ffn.out_proj);
}

// Lets threads of a team that wait ask for what this layer and the next one are to read.
void ExpectLayers(kernels::OpContext& ctx, const LayerContext& context, const Weights& weights,
                  int layer, std::span<const Segment> segments, int64_t rows) {
  for (const int at : {layer, layer + 1}) {
    if (at == context.config.layers()) return;
    const LayerWeights& expected = weights.layers[static_cast<size_t>(at)];
    if (!ctx.team()->ahead().Begin(&expected)) continue;
    ReadLayerSoon(ctx, context, expected, segments, rows);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuModel>> CpuModel::Load(const std::string& path, DType dtype) {
  RETURN_IF_ERROR(CheckBf16(dtype));
  std::unique_ptr<CpuModel> model(new CpuModel);
  ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> file, model->Read(path, dtype));
  if (dtype == DType::kQuantized && !HasBlocks(*file)) {
    return absl::InvalidArgumentError(absl::StrCat(
        model->files().weights, ": dtype quantized, but no tensor is in blocks; use bf16 or fp32"));
  }
  std::unique_ptr<TensorFile> adapter;
  if (model->config().has_adapter()) {
    ASSIGN_OR_RETURN(adapter, OpenAdapter(model->files(), model->config()));
  }
  auto weights = LoadWeights(*file, adapter.get(), model->config(), dtype);
  if (!weights.ok()) return Annotate(weights.status(), model->files().weights);
  RETURN_IF_ERROR(AddReaders(*model, *file, *weights));
  model->weights_ = std::make_unique<const Weights>(*std::move(weights));
  return model;
}

absl::StatusOr<std::unique_ptr<CpuModel>> CpuModel::LoadAdapter(const std::string& path,
                                                                DType dtype) {
  RECOLLECT_CHECK(dtype != DType::kQuantized);
  RETURN_IF_ERROR(CheckBf16(dtype));
  std::unique_ptr<CpuModel> model(new CpuModel);
  ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> base, model->Read(path, dtype));
  RECOLLECT_CHECK(model->config().has_adapter());
  ASSIGN_OR_RETURN(const auto file, OpenAdapter(model->files(), model->config()));
  auto weights = std::make_unique<Weights>();
  RETURN_IF_ERROR(Annotate(ReadAdapter(*file, model->config(), dtype, *weights),
                           model->files().adapter_weights));
  RETURN_IF_ERROR(AddReaders(*model, *base, *weights));
  model->weights_ = std::move(weights);
  return model;
}

absl::StatusOr<DType> CpuModel::FastestDType(const std::string& path) {
  ASSIGN_OR_RETURN(const ModelFiles files, FindModelFiles(path));
  if (files.layout == ModelLayout::kGguf) {
    ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(files));
    ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> file, OpenWeights(files, config));
    if (HasBlocks(*file)) return DType::kQuantized;
  }
  return kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32;
}

CpuModel::CpuModel() = default;
CpuModel::~CpuModel() = default;

int64_t CpuModel::weight_bytes() const { return Model::weight_bytes() + weights_->bytes; }

void CpuModel::Embed(std::span<const int32_t> ids, float* h) const {
  const int64_t d = config().d;
  for (const int32_t id : ids) {
    RECOLLECT_CHECK(id >= 0 && id < config().vocab_size);
    weights_->embed.Read(id, h);
    h += d;
  }
}

void CpuModel::RunLayer(kernels::OpContext& ctx, int layer, std::span<const Segment> segments,
                        float* h) const {
  const LayerContext context = ContextOf(*this);
  const LayerWeights& weights = weights_->layers[static_cast<size_t>(layer)];
  const int64_t d = context.config.d;
  int64_t rows = 0;
  for (const Segment& segment : segments) {
    RECOLLECT_CHECK(segment.rows >= 0 && segment.rows <= LayerState::kMaxAppend);
    rows += segment.rows;
  }
  if (rows == 0) return;
  if (ctx.has_team()) ExpectLayers(ctx, context, *weights_, layer, segments, rows);
  kernels::Add(ctx, RunMixer(ctx, context, weights.mixer, segments, h), rows * d, h);
  const float* ffn_input = h;
  if (weights.gca) {
    if (const float* delta = RunGca(ctx, context, *weights.gca, segments, h)) {
      float* sum = h;
      if (context.config.gca_residual == GcaResidual::kBypass) {
        // The memory reaches the residual stream through the FFN only.
        sum = ctx.Floats(kSum, rows * d);
        std::copy_n(h, rows * d, sum);
        ffn_input = sum;
      }
      AddToReading(ctx, segments, d, delta, sum);
    }
  }
  kernels::Add(ctx, RunFfn(ctx, context, weights.ffn, ffn_input, rows), rows * d, h);
}

Memory CpuModel::ProjectMemory(kernels::OpContext& ctx, std::span<const Bf16> states,
                               int rows) const {
  RECOLLECT_CHECK(static_cast<int64_t>(states.size()) == rows * config().state_width());
  return config().has_adapter() ? ProjectAdapterMemory(ctx, states, rows)
                                : ProjectSharedMemory(ctx, states, rows);
}

void CpuModel::Logits(kernels::OpContext& ctx, const float* h, int64_t rows, float* logits) const {
  const int64_t d = config().d;
  float* normed = ctx.Floats(kNormed, rows * d);
  kernels::RmsNorm(ctx, h, weights_->final_norm.data(), config().norm_eps, rows, d, normed);
  kernels::Gemm(ctx, weights_->head, normed, rows, logits);
}

}  // namespace recollect::model
