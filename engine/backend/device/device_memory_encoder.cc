#include "engine/backend/device/device_memory_encoder.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace recollect::engine {

DeviceMemoryEncoder::DeviceMemoryEncoder(std::shared_ptr<model::DeviceModel> model,
                                         std::shared_ptr<HostAdapter> adapter,
                                         std::shared_ptr<kernels::Device> device,
                                         const model::LocalPatterns& patterns)
    : MemoryEncoder(model->config(), patterns),
      device_(std::move(device)),
      model_(std::move(model)),
      adapter_(std::move(adapter)),
      state_(model_->config(), patterns, model_->config().n_low, model_->dtype()) {}

absl::StatusOr<std::shared_ptr<kernels::DeviceBuffer>> DeviceMemoryEncoder::RunRows(
    const Rows& rows) {
  const model::ModelConfig& config = model_->config();
  const int64_t count = rows.begins.back();
  ASSIGN_OR_RETURN(std::shared_ptr<kernels::DeviceBuffer> memory,
                   device_->Allocate(count * config.d * int64_t{sizeof(float)}));
  float* const h = static_cast<float*>(memory->data());
  const model::DeviceSegment all{.state = &state_, .rows = count};
  RETURN_IF_ERROR(model_->Embed(rows.ids, h));
  RETURN_IF_ERROR(model_->RunLayers(0, config.n_low, {&all, 1}, h));
  return memory;
}

absl::Status DeviceMemoryEncoder::EncodeSegment(std::span<const Block> blocks,
                                                std::vector<model::EncodedChunk>& chunks) {
  const int64_t d = model_->config().d;
  const Rows rows = RowsOf(blocks);
  ASSIGN_OR_RETURN(const auto memory, RunRows(rows));
  ASSIGN_OR_RETURN(
      const std::vector<float> h,
      adapter_->Download(static_cast<const float*>(memory->data()), rows.begins.back()));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const float* const first = h.data() + rows.begins[i] * d;
    const float* const open = in_segment_ > 0 ? last_row_.data() : nullptr;
    chunks.push_back(adapter_->EncodeBlock(first, i > 0 ? first - d : open, blocks[i]));
  }
  last_row_.assign(h.end() - d, h.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::EncodedChunk>> DeviceMemoryEncoder::Encode(
    std::span<const Block> blocks, const ThreadPool::Pause& /*pause*/) {
  const model::ModelConfig& config = model_->config();
  std::vector<model::EncodedChunk> chunks;
  if (blocks.empty()) return chunks;
  if (adapter_ != nullptr) {
    const int64_t segment = config.adapter.segment_tokens;
    for (size_t first = 0; first < blocks.size();) {
      if (in_segment_ == 0) {
        state_ = model::DeviceState(config, patterns(), config.n_low, model_->dtype());
      }
      size_t end = first;
      int64_t run = in_segment_;
      while (end < blocks.size() && run < segment) run += std::ssize(blocks[end++]);
      RECOLLECT_CHECK(run <= segment);
      RETURN_IF_ERROR(EncodeSegment(blocks.subspan(first, end - first), chunks));
      in_segment_ = run % segment;
      first = end;
    }
    return chunks;
  }
  const Rows rows = RowsOf(blocks);
  ASSIGN_OR_RETURN(const auto memory, RunRows(rows));
  if (!config.landmarks()) {
    // Chunks would wait for the work: without, a slice would seem to take no time.
    RETURN_IF_ERROR(device_->Wait());
    return chunks;
  }
  const float* const h = static_cast<const float*>(memory->data());
  std::vector<model::DeviceBlock> on_device;
  for (size_t i = 0; i < blocks.size(); ++i) {
    on_device.push_back(
        {.here = h + rows.begins[i] * config.d, .rows_here = rows.begins[i + 1] - rows.begins[i]});
  }
  return model_->EncodeChunks(on_device);
}

}  // namespace recollect::engine
