#include "engine/backend/device/device_memory_encoder.h"

#include <utility>

#include "base/status.h"

namespace recollect::engine {

DeviceMemoryEncoder::DeviceMemoryEncoder(std::shared_ptr<model::DeviceModel> model,
                                         std::shared_ptr<kernels::Device> device,
                                         const model::LocalPatterns& patterns)
    : MemoryEncoder(model->config(), patterns),
      device_(std::move(device)),
      model_(std::move(model)),
      state_(model_->config(), patterns, model_->config().n_low, model_->dtype()) {}

absl::StatusOr<std::vector<model::EncodedChunk>> DeviceMemoryEncoder::Encode(
    std::span<const Block> blocks) {
  const model::ModelConfig& config = model_->config();
  if (blocks.empty()) return std::vector<model::EncodedChunk>();
  const auto [ids, begins] = RowsOf(blocks);
  const int64_t rows = begins.back();
  ASSIGN_OR_RETURN(const std::shared_ptr<kernels::DeviceBuffer> memory,
                   device_->Allocate(rows * config.d * int64_t{sizeof(float)}));
  float* const h = static_cast<float*>(memory->data());
  const model::DeviceSegment all{.state = &state_, .rows = rows};
  RETURN_IF_ERROR(model_->Embed(ids, h));
  RETURN_IF_ERROR(model_->RunLayers(0, config.n_low, {&all, 1}, h));
  if (!config.landmarks()) {
    // Chunks would wait for the work: without, a slice would seem to take no time.
    RETURN_IF_ERROR(device_->Wait());
    return std::vector<model::EncodedChunk>();
  }
  std::vector<model::DeviceBlock> on_device;
  for (size_t i = 0; i < blocks.size(); ++i) {
    on_device.push_back({.here = h + begins[i] * config.d, .rows_here = begins[i + 1] - begins[i]});
  }
  return model_->EncodeChunks(on_device);
}

}  // namespace recollect::engine
