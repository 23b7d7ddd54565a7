#include "engine/device_memory_encoder.h"

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
  const bool landmarks = config.landmarks();
  const bool at_end = config.landmark_at == model::LandmarkAt::kEnd;
  std::vector<int32_t> ids;
  std::vector<model::DeviceBlock> on_device;
  for (const Block block : blocks) {
    if (landmarks && !at_end) ids.push_back(config.lmk_id);
    ids.insert(ids.end(), block.begin(), block.end());
    if (landmarks && at_end) ids.push_back(config.lmk_id);
    on_device.push_back({.rows_here = static_cast<int64_t>(block.size()) + 1});
  }
  if (blocks.empty()) return std::vector<model::EncodedChunk>();
  const auto rows = static_cast<int64_t>(ids.size());
  ASSIGN_OR_RETURN(const std::shared_ptr<kernels::DeviceBuffer> memory,
                   device_->Allocate(rows * config.d * int64_t{sizeof(float)}));
  float* const h = static_cast<float*>(memory->data());
  const float* here = h;
  for (model::DeviceBlock& block : on_device) {
    block.here = here;
    here += block.rows_here * config.d;
  }
  const model::DeviceSegment all{.state = &state_, .rows = rows};
  RETURN_IF_ERROR(model_->Embed(ids, h));
  RETURN_IF_ERROR(model_->RunLayers(0, config.n_low, {&all, 1}, h));
  if (!landmarks) return std::vector<model::EncodedChunk>();
  return model_->EncodeChunks(on_device);
}

}  // namespace recollect::engine
