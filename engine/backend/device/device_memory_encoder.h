// The memory encoder on a device: all blocks of a call run through a layer together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/device/host_adapter.h"
#include "engine/backend/memory_encoder.h"
#include "kernels/device/device.h"
#include "model/device/device_model.h"
#include "model/device/device_state.h"

namespace recollect::engine {

class DeviceMemoryEncoder final : public MemoryEncoder {
 public:
  // `adapter`: null where the model has none.
  DeviceMemoryEncoder(std::shared_ptr<model::DeviceModel> model,
                      std::shared_ptr<HostAdapter> adapter, std::shared_ptr<kernels::Device> device,
                      const model::LocalPatterns& patterns);

  absl::StatusOr<std::vector<model::EncodedChunk>> Encode(std::span<const Block> blocks,
                                                          const ThreadPool::Pause& pause) override;
  int64_t bytes() const override { return state_.bytes(); }
  absl::StatusOr<std::string> SerializeLayer(int layer) const override {
    return state_.SerializeLayer(*device_, layer);
  }
  absl::Status Begin(model::LocalState state) override { return state_.Begin(*device_, state); }

 private:
  // Runs the blocks' rows through the lower layers.
  absl::StatusOr<std::shared_ptr<kernels::DeviceBuffer>> RunRows(const Rows& rows);
  // The same for blocks of one segment, and encodes them.
  absl::Status EncodeSegment(std::span<const Block> blocks,
                             std::vector<model::EncodedChunk>& chunks);

  const std::shared_ptr<kernels::Device> device_;
  const std::shared_ptr<model::DeviceModel> model_;
  const std::shared_ptr<HostAdapter> adapter_;
  model::DeviceState state_;
  // With an adapter: the tokens of the open segment, and the row of its last one.
  int64_t in_segment_ = 0;
  std::vector<float> last_row_;
};

}  // namespace recollect::engine
