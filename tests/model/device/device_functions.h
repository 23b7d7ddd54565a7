// The model's functions on a device (model/device/device_model.h) with rows in RAM, for one
// sequence.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "gtest/gtest.h"
#include "model/device/device_model.h"
#include "tests/support/reference_sequence.h"

namespace recollect::model {

class DeviceFunctions final : public ReferenceFunctions {
 public:
  DeviceFunctions(DeviceModel& model, const LocalPatterns& pattern)
      : model_(model),
        pattern_(pattern),
        state_(model.config(), pattern, model.config().layers(), model.dtype()) {}

  DeviceState& state() { return state_; }
  // The same in RAM.
  absl::StatusOr<LocalState> Stored() const {
    LocalState stored = LocalState::Create(model_.config(), pattern_, model_.config().layers());
    for (int layer = 0; layer < model_.config().layers(); ++layer) {
      ASSIGN_OR_RETURN(const std::string bytes, state_.SerializeLayer(model_.device(), layer));
      std::string_view in = bytes;
      RETURN_IF_ERROR(stored.layers[static_cast<size_t>(layer)].Deserialize(in));
      EXPECT_TRUE(in.empty());
    }
    return stored;
  }

  void RunLayers(int first, int count, int64_t rows, int64_t rows_per_call,
                 const Retrieved* retrieved, float* h) override {
    for (int64_t row = 0; row < rows; row += rows_per_call) {
      const DeviceSegment segment{
          .state = &state_, .rows = std::min(rows_per_call, rows - row), .retrieved = retrieved};
      float* const at = h + row * model_.config().d;
      const auto on_device = Upload(at, segment.rows);
      float* const x = static_cast<float*>(on_device->data());
      ASSERT_EQ(model_.RunLayers(first, count, {&segment, 1}, x), absl::OkStatus());
      ASSERT_EQ(model_.device().Download(x, on_device->bytes(), at), absl::OkStatus());
    }
  }
  EncodedChunk EncodeChunk(const float* h, int rows) override {
    const auto on_device = Upload(h, rows + 1);
    const DeviceBlock block{.here = static_cast<const float*>(on_device->data()),
                            .rows_here = rows + 1};
    return model_.EncodeChunks({&block, 1}).value().front();
  }
  void Query(int group, const float* h, float* u) override {
    const auto on_device = Upload(h, 1);
    const float* const row = static_cast<const float*>(on_device->data());
    ASSERT_EQ(model_.Queries(group, {&row, 1}, u), absl::OkStatus());
  }
  // Every other chunk's states come ahead.
  ChunkMemory ProjectMemory(const EncodedChunk& chunk) override {
    std::shared_ptr<kernels::DeviceBuffer> uploaded;
    const std::span<const Bf16> states(chunk.states);
    if (projected_++ % 2 == 1) uploaded = model_.BeginUpload({&states, 1}).value().front();
    const StoredStates stored{chunk.states, chunk.rows, uploaded.get()};
    const DeviceMemory memory = model_.ProjectMemory({&stored, 1}).value().front();
    return {memory.view, memory.owner};
  }
  ChunkMemory TakeMemory(Memory memory) override {
    using Buffers = std::array<std::shared_ptr<kernels::DeviceBuffer>, 2>;
    const auto owner = std::make_shared<const Buffers>(
        Buffers{Upload<Bf16>(memory.keys), Upload<Bf16>(memory.values)});
    return {{static_cast<const Bf16*>((*owner)[0]->data()),
             static_cast<const Bf16*>((*owner)[1]->data()), memory.rows},
            owner};
  }
  void Logits(const float* h, std::span<const Pointed> pointed, float* logits) override {
    const auto rows = std::ssize(pointed);
    const auto on_device = Upload(h, rows);
    std::vector<const float*> at;
    for (int64_t row = 0; row < rows; ++row) {
      at.push_back(static_cast<const float*>(on_device->data()) + row * model_.config().d);
    }
    const std::vector<DeviceModel::Pointed> of_rows(pointed.begin(), pointed.end());
    ASSERT_EQ(model_.Logits(at, of_rows, logits), absl::OkStatus());
  }

 private:
  std::shared_ptr<kernels::DeviceBuffer> Upload(const float* h, int64_t rows) {
    return Upload(std::span(h, static_cast<size_t>(rows * model_.config().d)));
  }
  template <typename T>
  std::shared_ptr<kernels::DeviceBuffer> Upload(std::span<const T> numbers) {
    const auto bytes = static_cast<int64_t>(numbers.size_bytes());
    auto memory = model_.device().Allocate(bytes).value();
    EXPECT_EQ(model_.device().Upload(numbers.data(), bytes, memory->data()), absl::OkStatus());
    return memory;
  }

  DeviceModel& model_;
  const LocalPatterns pattern_;
  DeviceState state_;
  int projected_ = 0;
};

// Null, after an expectation that fails, when it does not load. Of the goldens, four have bf16
// products of other sizes than multiples of 8, which no device takes: they are refused, and null.
inline std::unique_ptr<DeviceModel> LoadGoldenOn(kernels::Device& device, const Model& model,
                                                 const std::string& folder) {
  auto loaded = DeviceModel::Load(device, model);
  const bool refused =
      model.dtype() == DType::kBf16 &&
      (folder.ends_with("/heads") || folder.ends_with("/pointer") ||
       folder.ends_with("/drt_paper_layers") || folder.ends_with("/drt_paper_projections"));
  EXPECT_EQ(loaded.status().code(),
            refused ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk)
      << loaded.status();
  return loaded.ok() ? *std::move(loaded) : nullptr;
}

// RunTokens (reference_sequence.h) on a device: logits [ids, vocab_size].
inline std::vector<float> RunTokensOn(DeviceModel& model, const CpuModel& in_ram,
                                      const LocalPatterns& pattern, const std::vector<int32_t>& ids,
                                      int64_t rows_per_call) {
  const auto rows = static_cast<int64_t>(ids.size());
  std::vector<float> h(static_cast<size_t>(rows * model.config().d));
  std::vector<float> logits(static_cast<size_t>(rows * model.config().vocab_size));
  DeviceFunctions sequence(model, pattern);
  in_ram.Embed(ids, h.data());
  sequence.RunLayers(0, model.config().layers(), rows, rows_per_call, nullptr, h.data());
  sequence.Logits(h.data(), std::vector<DeviceFunctions::Pointed>(ids.size()), logits.data());
  return logits;
}

}  // namespace recollect::model
