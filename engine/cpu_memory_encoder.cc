#include "engine/cpu_memory_encoder.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "base/types.h"

namespace recollect::engine {

CpuMemoryEncoder::CpuMemoryEncoder(const model::Model& model, const model::LocalPatterns& pattern,
                                   ThreadPool& pool, std::vector<kernels::OpContext>& contexts)
    : model_(model),
      landmarks_(model.config().landmarks()),
      pool_(pool),
      contexts_(contexts),
      state_(model::LocalState::Create(model.config(), pattern, model.config().n_low)) {}

absl::Status CpuMemoryEncoder::Restore(std::string_view bytes) {
  ASSIGN_OR_RETURN(state_, model::LocalState::Deserialize(model_.config(), state_.pattern,
                                                          model_.config().n_low, bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::EncodedChunk>> CpuMemoryEncoder::Encode(
    std::span<const Block> blocks) {
  const int64_t d = model_.config().d;
  const int n_low = model_.config().n_low;
  const int landmark = landmarks_ ? 1 : 0;
  const bool at_end = model_.config().landmark_at == model::LandmarkAt::kEnd;
  std::vector<int64_t> first_rows;  // of each block
  int64_t all_rows = 0;
  for (const Block block : blocks) {
    first_rows.push_back(all_rows);
    all_rows += std::ssize(block) + landmark;
  }
  std::vector<model::EncodedChunk> chunks(landmarks_ ? blocks.size() : 0);
  h_.resize(static_cast<size_t>(all_rows * d));
  pool_.Wavefront(
      std::ssize(blocks), n_low + landmark, [&](int64_t number, int64_t column, int worker) {
        const Block block = blocks[static_cast<size_t>(number)];
        const int rows = static_cast<int>(block.size());
        float* h = h_.data() + first_rows[static_cast<size_t>(number)] * d;
        kernels::OpContext& ctx = contexts_[static_cast<size_t>(worker)];
        if (column == n_low) {
          chunks[static_cast<size_t>(number)] = model_.EncodeChunk(ctx, h, rows);
          return;
        }
        if (column == 0) {
          std::array<int32_t, kMaxChunkTokens + 1> ids;
          ids[static_cast<size_t>(at_end ? rows : 0)] = model_.config().lmk_id;
          std::copy(block.begin(), block.end(), ids.begin() + (at_end ? 0 : landmark));
          model_.Embed(std::span<const int32_t>(ids.data(), static_cast<size_t>(rows + landmark)),
                       h);
        }
        // A block of 64 tokens has one row more than a segment.
        constexpr int64_t kMost = model::LayerState::kMaxAppend;
        model::LayerState* state = &state_.layers[static_cast<size_t>(column)];
        const int64_t whole = std::min<int64_t>(rows + landmark, kMost);
        const model::Segment segments[] = {{state, whole, nullptr},
                                           {state, rows + landmark - whole, nullptr}};
        model_.RunLayer(ctx, static_cast<int>(column), segments, h);
      });
  return chunks;
}

}  // namespace recollect::engine
