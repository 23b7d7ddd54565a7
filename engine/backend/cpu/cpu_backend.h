// Runs the layers on the compute threads, with states in RAM. It supports every family, and all
// other backends are compared with it. No stage fails.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/cpu/cpu_lanes.h"
#include "engine/backend/loaded_model.h"
#include "kernels/sample/sample.h"
#include "model/cpu/cpu_model.h"

namespace recollect::engine {

class CpuBackend final : public Backend {
 public:
  // Encoders borrow both.
  CpuBackend(std::shared_ptr<const model::CpuModel> model, std::shared_ptr<ComputeThreads> threads);

  std::string name() const override { return "cpu"; }
  absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      const model::LocalPatterns& patterns) override;
  absl::StatusOr<std::unique_ptr<MemoryEncoder>> NewEncoder(
      const model::LocalPatterns& patterns) override;
  absl::Status RunLower(std::span<PieceRows* const> pieces) override;
  absl::StatusOr<std::vector<model::EncodedChunk>> EncodeClosed(
      std::span<PieceRows* const> pieces) override;
  absl::Status Queries(int group, std::span<const QueryRow> rows) override;
  absl::StatusOr<std::vector<ProjectedMemory>> Project(
      std::span<const ChunkToProject> chunks) override;
  absl::Status RunGroup(std::span<PieceRows* const> pieces, int group) override;
  absl::StatusOr<model::Reading> Read(const model::ReaderQuestion& question) override;
  std::vector<std::vector<float>> Rerank(std::span<const model::RerankerText> texts) override;
  absl::Status RunHead(std::span<PieceRows* const> pieces) override;

 private:
  void AskPointer(PieceRows& piece, int worker);

  const std::shared_ptr<const model::CpuModel> model_;
  const std::shared_ptr<ComputeThreads> threads_;
  CpuLanes lanes_;
  // Buffers of the head, by worker.
  std::vector<std::vector<float>> worker_rows_, worker_logits_;
  std::vector<kernels::SampleScratch> worker_samples_;
};

// Both kinds of work of `model` on the same `threads` threads; 0: one for each core.
LoadedModel OnCpu(std::shared_ptr<const model::CpuModel> model, int threads = 0);

}  // namespace recollect::engine
