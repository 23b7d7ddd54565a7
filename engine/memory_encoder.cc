#include "engine/memory_encoder.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "base/types.h"

namespace recollect::engine {

MemoryEncoder::MemoryEncoder(const model::Model& model, const model::LocalPatterns& pattern,
                             ThreadPool& pool, std::vector<kernels::OpContext>& contexts)
    : model_(model),
      landmarks_(model.config().landmarks()),
      pool_(pool),
      contexts_(contexts),
      state_(model::LocalState::Create(model.config(), pattern, model.config().n_low)) {}

int64_t MemoryEncoder::block_tokens() const {
  return landmarks_ ? kChunkTokens : model::LayerState::kMaxAppend;
}

absl::Status MemoryEncoder::Restore(std::string_view bytes) {
  ASSIGN_OR_RETURN(state_, model::LocalState::Deserialize(model_.config(), state_.pattern,
                                                          model_.config().n_low, bytes));
  return absl::OkStatus();
}

std::vector<model::EncodedChunk> MemoryEncoder::Encode(std::span<const int32_t> tokens) {
  const int64_t d = model_.config().d;
  const int n_low = model_.config().n_low;
  const int64_t count = static_cast<int64_t>(tokens.size());
  const int64_t block_size = block_tokens();
  const int64_t blocks = (count + block_size - 1) / block_size;
  const int landmark = landmarks_ ? 1 : 0;
  std::vector<model::EncodedChunk> chunks(static_cast<size_t>(landmarks_ ? blocks : 0));
  h_.resize(static_cast<size_t>(blocks * kBlockRows * d));
  pool_.Wavefront(blocks, n_low + landmark, [&](int64_t block, int64_t column, int worker) {
    float* h = h_.data() + block * kBlockRows * d;
    const int64_t begin = block * block_size;
    const int rows = static_cast<int>(std::min(block_size, count - begin));
    kernels::OpContext& ctx = contexts_[static_cast<size_t>(worker)];
    if (column == n_low) {
      chunks[static_cast<size_t>(block)] = model_.EncodeChunk(ctx, h, rows);
      return;
    }
    if (column == 0) {
      std::array<int32_t, kBlockRows> ids;
      ids[0] = model_.config().lmk_id;
      std::copy_n(tokens.begin() + begin, rows, ids.begin() + landmark);
      model_.Embed(std::span<const int32_t>(ids.data(), static_cast<size_t>(rows + landmark)), h);
    }
    const model::Segment segment{&state_.layers[static_cast<size_t>(column)], rows + landmark,
                                 nullptr};
    model_.RunLayer(ctx, static_cast<int>(column), {&segment, 1}, h);
  });
  return chunks;
}

}  // namespace recollect::engine
