// The reranker of a memory adapter (docs/llama.md, "Reranker"): the base's lower layers with their
// changes read a sentence and a question, and the last row, of unit RMS, is scored.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "model/cpu/layers.h"
#include "model/state/local_state.h"

namespace recollect::model {
namespace {

constexpr kernels::ScratchName kRows;

}  // namespace

float CpuModel::Rerank(kernels::OpContext& ctx, std::span<const int32_t> tokens) const {
  const RerankerWeights& weights = weights_->adapter.reranker;
  const LayerContext context = ContextOf(*this);
  const int64_t d = config().d, rows = std::ssize(tokens);
  float* h = ctx.Floats(kRows, rows * d);
  Embed(tokens, h);
  LocalState state = LocalState::Create(config(), config().local,
                                        static_cast<int>(weights.layers.size()), cache_dtype());
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (int64_t row = 0; row < rows; row += LayerState::kMaxAppend) {
      const Segment segment{&state.layers[layer], std::min(rows - row, LayerState::kMaxAppend)};
      RunDecoderLayer(ctx, context, weights.layers[layer], {&segment, 1}, h + row * d);
    }
  }
  float* const last = h + (rows - 1) * d;
  kernels::RmsNorm(ctx, last, nullptr, kAdapterNormEps, 1, d, last);
  return Dot(weights.head.data(), last, d) + weights.bias;
}

}  // namespace recollect::model
