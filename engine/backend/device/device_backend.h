// Runs the layers on a device (model/device/device_model.h). The rows of all pieces of a stage run
// together; states, residuals and memory K, V stay in the device's memory. Token ids, tables and
// chunk states are uploaded; retrieval queries, encoded chunks, and logits or chosen tokens are
// downloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/device/host_adapter.h"
#include "kernels/device/device.h"
#include "model/device/device_model.h"
#include "model/model.h"

namespace recollect::engine {

struct HeadRow;

class DeviceBackend final : public Backend {
 public:
  // Loads the weights from the files that `model` was loaded from. INVALID_ARGUMENT: a model that
  // no device runs (names why). RESOURCE_EXHAUSTED, UNAVAILABLE: the device. `adapter`: the same
  // model on the CPU, if it has an adapter (host_adapter.h); CpuModel::LoadAdapter is enough.
  // `threads`: those of its reader and reranker, 0: one for each core.
  static absl::StatusOr<std::shared_ptr<Backend>> Create(
      std::shared_ptr<kernels::Device> device, const model::Model& model,
      std::shared_ptr<const model::CpuModel> adapter = nullptr, int threads = 0);

  std::string name() const override { return device_->name(); }
  absl::Status health() const override { return device_->health(); }
  kernels::DeviceRoom room() const override { return device_->room(); }
  int64_t graph_launches() const override { return model_->graphs().launched(); }
  absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      const model::LocalPatterns& patterns) override;
  absl::StatusOr<std::unique_ptr<MemoryEncoder>> NewEncoder(
      const model::LocalPatterns& patterns) override;
  absl::Status RunLower(std::span<PieceRows* const> pieces) override;
  absl::StatusOr<std::vector<model::EncodedChunk>> EncodeClosed(
      std::span<PieceRows* const> pieces) override;
  absl::Status Queries(int group, std::span<const QueryRow> rows) override;
  std::vector<std::shared_ptr<const UploadedStates>> BeginUpload(
      std::span<const store::ChunkRecord* const> records) override;
  absl::StatusOr<std::vector<ProjectedMemory>> Project(
      std::span<const ChunkToProject> chunks) override;
  absl::Status RunGroup(std::span<PieceRows* const> pieces, int group) override;
  absl::StatusOr<model::Reading> Read(const model::ReaderQuestion& question) override;
  std::vector<std::vector<float>> Rerank(std::span<const model::RerankerText> texts) override;
  absl::Status RunHead(std::span<PieceRows* const> pieces) override;

 private:
  DeviceBackend(std::shared_ptr<kernels::Device> device, std::shared_ptr<model::DeviceModel> model,
                std::shared_ptr<HostAdapter> adapter)
      : device_(std::move(device)), model_(std::move(model)), adapter_(std::move(adapter)) {}

  // Head rows and, for each, its residual [d] on the device.
  struct HeadBatch {
    std::vector<std::pair<PieceRows*, const HeadRow*>> asked;
    std::vector<const float*> rows;
    std::vector<std::span<const kernels::PointedToken>> pointed;
  };

  absl::StatusOr<float*> BatchRows(int64_t rows);
  absl::Status RunLayers(std::span<PieceRows* const> pieces, int first, int count, int group,
                         float* h);
  absl::Status AskPointer(PieceRows& piece);
  absl::Status Choose(const HeadBatch& batch);
  absl::Status Consume(const HeadBatch& batch);

  const std::shared_ptr<kernels::Device> device_;
  const std::shared_ptr<model::DeviceModel> model_;  // shared with encoders
  const std::shared_ptr<HostAdapter> adapter_;       // likewise; null: the model has none
  std::shared_ptr<kernels::DeviceBuffer> batch_;     // [rows of a stage, d]
  kernels::SampleScratch sampling_;                  // of rows that the adapter's pointer changed
};

}  // namespace recollect::engine
