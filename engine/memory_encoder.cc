#include "engine/memory_encoder.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "base/types.h"

namespace recollect::engine {

MemoryEncoder::MemoryEncoder(const model::Model& model, ThreadPool& pool,
                             std::vector<kernels::OpContext>& contexts)
    : model_(model),
      pool_(pool),
      contexts_(contexts),
      state_(
          model::LocalState::Create(model.config(), model.config().local, model.config().n_low)) {}

absl::Status MemoryEncoder::Restore(std::string_view bytes) {
  ASSIGN_OR_RETURN(state_, model::LocalState::Deserialize(model_.config(), model_.config().local,
                                                          model_.config().n_low, bytes));
  return absl::OkStatus();
}

std::vector<model::EncodedChunk> MemoryEncoder::Encode(std::span<const int32_t> tokens) {
  const int64_t d = model_.config().d;
  const int n_low = model_.config().n_low;
  const int64_t count = static_cast<int64_t>(tokens.size());
  const int64_t blocks = (count + kChunkTokens - 1) / kChunkTokens;
  std::vector<model::EncodedChunk> chunks(static_cast<size_t>(blocks));
  h_.resize(static_cast<size_t>(blocks * kBlockRows * d));
  pool_.Wavefront(blocks, n_low + 1, [&](int64_t block, int64_t column, int worker) {
    float* h = h_.data() + block * kBlockRows * d;
    const int64_t begin = block * kChunkTokens;
    const int rows = static_cast<int>(std::min<int64_t>(kChunkTokens, count - begin));
    kernels::OpContext& ctx = contexts_[static_cast<size_t>(worker)];
    if (column == n_low) {
      chunks[static_cast<size_t>(block)] = model_.EncodeChunk(ctx, h, rows);
      return;
    }
    if (column == 0) {
      std::array<int32_t, kBlockRows> ids;
      ids[0] = model_.config().lmk_id;
      std::copy_n(tokens.begin() + begin, rows, ids.begin() + 1);
      model_.Embed(std::span<const int32_t>(ids.data(), static_cast<size_t>(rows) + 1), h);
    }
    const model::Segment segment{&state_.layers[static_cast<size_t>(column)], rows + 1, nullptr};
    model_.RunLayer(ctx, static_cast<int>(column), {&segment, 1}, h);
  });
  return chunks;
}

}  // namespace recollect::engine
