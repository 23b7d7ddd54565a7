#include "engine/backend/cpu/cpu_memory_encoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace recollect::engine {

CpuMemoryEncoder::CpuMemoryEncoder(const model::CpuModel& model,
                                   const model::LocalPatterns& pattern, ComputeThreads& threads)
    : MemoryEncoder(model.config(), pattern),
      model_(model),
      threads_(threads),
      state_(model::LocalState::Create(model.config(), pattern, model.config().n_low,
                                       model.cache_dtype())) {}

absl::StatusOr<std::string> CpuMemoryEncoder::SerializeLayer(int layer) const {
  const model::LayerState& state = state_.layers[static_cast<size_t>(layer)];
  std::string bytes;
  bytes.reserve(static_cast<size_t>(state.bytes()));
  state.Serialize(bytes);
  return bytes;
}

absl::Status CpuMemoryEncoder::Begin(model::LocalState state) {
  state_ = std::move(state);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::EncodedChunk>> CpuMemoryEncoder::Encode(
    std::span<const Block> blocks, const ThreadPool::Pause& pause) {
  const model::ModelConfig& config = model_.config();
  std::vector<model::EncodedChunk> chunks(
      config.documents() == DocumentKind::kChunks ? blocks.size() : 0);
  if (!config.has_adapter()) {
    EncodeRun(blocks, chunks, pause);
    return chunks;
  }
  for (size_t first = 0; first < blocks.size();) {
    if (in_segment_ == 0) {
      state_ = model::LocalState::Create(config, patterns(), config.n_low, model_.cache_dtype());
    }
    size_t end = first;
    int64_t run = in_segment_;
    while (end < blocks.size() && run < config.adapter.segment_tokens) {
      run += std::ssize(blocks[end++]);
    }
    RECOLLECT_CHECK(run <= config.adapter.segment_tokens);
    EncodeRun(blocks.subspan(first, end - first), std::span(chunks).subspan(first, end - first),
              pause);
    last_row_.assign(h_.end() - config.d, h_.end());
    in_segment_ = run % config.adapter.segment_tokens;
    first = end;
  }
  return chunks;
}

void CpuMemoryEncoder::EncodeRun(std::span<const Block> blocks,
                                 std::span<model::EncodedChunk> chunks,
                                 const ThreadPool::Pause& pause) {
  const int64_t d = model_.config().d;
  const Rows of_blocks = RowsOf(blocks);
  const std::vector<int32_t>& ids = of_blocks.ids;
  const std::vector<int64_t>& begins = of_blocks.begins;
  const int64_t rows = begins.back();
  h_.resize(static_cast<size_t>(rows * d));
  // Layers take rows in full tiles, wherever blocks end: products are fastest so.
  constexpr int64_t kTile = model::LayerState::kMaxAppend;
  const auto run_layer = [&](int64_t tile, int64_t layer, int worker) {
    const int64_t begin = tile * kTile, count = std::min(kTile, rows - begin);
    float* const h = h_.data() + begin * d;
    if (layer == 0) {
      const auto first = static_cast<size_t>(begin);
      model_.Embed(std::span(ids).subspan(first, static_cast<size_t>(count)), h);
    }
    const model::Segment segment{&state_.layers[static_cast<size_t>(layer)], count};
    model_.RunLayer(threads_.context(worker), static_cast<int>(layer), {&segment, 1}, h);
  };
  // The chunks whose last row is in the tile. No column of the wavefront: none waits for another.
  const auto encode_chunks = [&](int64_t tile, int worker) {
    const int64_t begin = tile * kTile;
    const auto ends = begins.begin() + 1;
    auto chunk = static_cast<size_t>(std::upper_bound(ends, begins.end(), begin) - ends);
    for (; chunk < chunks.size() && begins[chunk + 1] <= begin + kTile; ++chunk) {
      const float* const h = h_.data() + begins[chunk] * d;
      kernels::OpContext& ctx = threads_.context(worker);
      if (!model_.config().has_adapter()) {
        chunks[chunk] = model_.EncodeChunk(ctx, h, static_cast<int>(blocks[chunk].size()));
        continue;
      }
      const float* const open = in_segment_ > 0 ? last_row_.data() : nullptr;
      chunks[chunk] = model_.EncodeBlock(ctx, h, chunk > 0 ? h - d : open, blocks[chunk]);
    }
  };
  threads_.pool.PausingWavefront((rows + kTile - 1) / kTile, model_.config().n_low, run_layer,
                                 encode_chunks, pause);
}

}  // namespace recollect::engine
