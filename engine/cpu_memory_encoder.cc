#include "engine/cpu_memory_encoder.h"

#include <algorithm>

#include "base/status.h"

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
  const bool at_end = model_.config().landmark_at == model::LandmarkAt::kEnd;
  std::vector<int32_t> ids;         // of all rows
  std::vector<int64_t> first_rows;  // of each block, and their end
  for (const Block block : blocks) {
    first_rows.push_back(std::ssize(ids));
    if (landmarks_ && !at_end) ids.push_back(model_.config().lmk_id);
    ids.insert(ids.end(), block.begin(), block.end());
    if (landmarks_ && at_end) ids.push_back(model_.config().lmk_id);
  }
  const int64_t rows = std::ssize(ids);
  first_rows.push_back(rows);
  std::vector<model::EncodedChunk> chunks(landmarks_ ? blocks.size() : 0);
  h_.resize(static_cast<size_t>(rows * d));
  // Layers take rows in full tiles, wherever blocks end: products are fastest so.
  constexpr int64_t kTile = model::LayerState::kMaxAppend;
  pool_.Wavefront(
      (rows + kTile - 1) / kTile, n_low + (landmarks_ ? 1 : 0),
      [&](int64_t tile, int64_t column, int worker) {
        kernels::OpContext& ctx = contexts_[static_cast<size_t>(worker)];
        const int64_t begin = tile * kTile, end = std::min(begin + kTile, rows);
        if (column < n_low) {
          float* const h = h_.data() + begin * d;
          const size_t count = static_cast<size_t>(end - begin);
          if (column == 0)
            model_.Embed(std::span(ids).subspan(static_cast<size_t>(begin), count), h);
          const model::Segment segment = {&state_.layers[static_cast<size_t>(column)], end - begin};
          model_.RunLayer(ctx, static_cast<int>(column), {&segment, 1}, h);
          return;
        }
        // The blocks whose last row is in this tile.
        const auto ends = first_rows.begin() + 1;
        auto number = static_cast<size_t>(std::upper_bound(ends, first_rows.end(), begin) - ends);
        for (; number < blocks.size() && first_rows[number + 1] <= end; ++number) {
          chunks[number] = model_.EncodeChunk(ctx, h_.data() + first_rows[number] * d,
                                              static_cast<int>(blocks[number].size()));
        }
      });
  return chunks;
}

}  // namespace recollect::engine
