// The parts of a memory adapter that the backend of a device leaves to the CPU: the encoder of
// blocks and queries, the projection of memory K, V, the pointer head, the reader and the reranker.
// The base's layers and GCA run on the device, between which and here rows are copied.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/adapter_readers.h"
#include "engine/backend/cpu/compute_threads.h"
#include "kernels/cpu/op_context.h"
#include "kernels/device/device.h"
#include "model/chunk.h"
#include "model/cpu/cpu_model.h"

namespace recollect::engine {

// Used by one thread at a time. Rows [d] are in the device's memory. Statuses are the device's.
class HostAdapter {
 public:
  // `model`: CpuModel::LoadAdapter, or a whole one. `threads`: of the reader and the reranker, 0:
  // one for each core.
  HostAdapter(std::shared_ptr<kernels::Device> device, std::shared_ptr<const model::CpuModel> model,
              int threads)
      : device_(std::move(device)), model_(std::move(model)), threads_(threads) {}

  // Returns `count` rows in RAM.
  absl::StatusOr<std::vector<float>> Download(const float* rows, int64_t count) const;

  // Fills in the query, of whose piece these are the rows and tokens up to the one that asks.
  absl::Status RecallQuery(const float* rows, std::span<const int32_t> tokens,
                           const QueryRow& query);
  // Backend's functions of these names.
  model::Reading Read(const model::ReaderQuestion& question) {
    return ReadOn(threads_, *model_, question);
  }
  std::vector<std::vector<float>> Rerank(std::span<const model::RerankerText> texts) {
    return RerankOn(threads_, *model_, texts);
  }
  // CpuModel's functions of these names.
  absl::StatusOr<ProjectedMemory> ProjectMemory(const store::ChunkRecord& record);
  ProjectedMemory ProjectForReader(const store::ChunkRecord& record);
  absl::StatusOr<std::vector<float>> PointerQuery(const float* row);
  absl::Status MixCopied(const float* row, const std::vector<float>& query,
                         std::span<const model::CopiedChunk> copied, float* logits);
  // h[rows, d] and `before` in RAM.
  model::EncodedChunk EncodeBlock(const float* h, const float* before,
                                  std::span<const int32_t> tokens) {
    return model_->EncodeBlock(ctx_, h, before, tokens);
  }

 private:
  const std::shared_ptr<kernels::Device> device_;
  const std::shared_ptr<const model::CpuModel> model_;
  ComputeThreads threads_;
  kernels::OpContext ctx_;
};

}  // namespace recollect::engine
