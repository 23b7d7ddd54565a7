// The memory encoder on the compute threads: a wavefront over (tile of rows, layer); the chunks
// that end in a tile are encoded after its last layer, in parallel with other tiles.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/memory_encoder.h"
#include "model/cpu/cpu_model.h"
#include "model/state/local_state.h"

namespace recollect::engine {

class CpuMemoryEncoder final : public MemoryEncoder {
 public:
  // `pattern` must be valid for the model. Model and threads must outlive the encoder.
  CpuMemoryEncoder(const model::CpuModel& model, const model::LocalPatterns& pattern,
                   ComputeThreads& threads);

  absl::StatusOr<std::vector<model::EncodedChunk>> Encode(std::span<const Block> blocks,
                                                          const ThreadPool::Pause& pause) override;
  bool pauses() const override { return true; }
  int64_t bytes() const override { return state_.bytes(); }
  absl::StatusOr<std::string> SerializeLayer(int layer) const override;
  absl::Status Begin(model::LocalState state) override;

 private:
  // Encodes blocks of the document or, with an adapter, of one segment. Fills chunks[blocks], or
  // none.
  void EncodeRun(std::span<const Block> blocks, std::span<model::EncodedChunk> chunks,
                 const ThreadPool::Pause& pause);

  const model::CpuModel& model_;
  ComputeThreads& threads_;
  model::LocalState state_;
  std::vector<float> h_;  // [rows of all blocks, d]
  // With an adapter: tokens of the open segment that have been run, and the last of their rows.
  int64_t in_segment_ = 0;
  std::vector<float> last_row_;
};

}  // namespace recollect::engine
