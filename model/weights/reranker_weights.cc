#include "model/weights/reranker_weights.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/weights_list.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

std::string Prefix(int layer) { return absl::StrCat("layers.", layer, "."); }

// A change of the matrix `name` [n, k] of the base.
void AddChange(WeightsReader& list, const std::string& name, int64_t n, int64_t k, int64_t rank,
               LowRank& change) {
  list.Matrix(name + ".down", {rank, k}, change.down);
  list.Matrix(name + ".up", {n, rank}, change.up);
}

void AddReranker(WeightsReader& list, const ModelConfig& config, RerankerWeights& weights) {
  const RerankerConfig& reranker = config.adapter.reranker;
  weights.changes.resize(static_cast<size_t>(reranker.layers));
  for (int layer = 0; layer < reranker.layers; ++layer) {
    const std::string mixer = Prefix(layer) + "mixer.";
    MixerChange& change = weights.changes[static_cast<size_t>(layer)];
    AddChange(list, mixer + "in_proj.weight", MixerInputRows(config, config.parts(layer).mixer),
              config.d, reranker.rank, change.in_proj);
    AddChange(list, mixer + "out_proj.weight", config.d, config.inner(), reranker.rank,
              change.out_proj);
  }
  list.Vector("head.weight", {1, config.d}, weights.head);
  list.Number("head.bias", weights.bias);
}

// What the reranker has in common with the base.
void AddShared(WeightsReader& base, const ModelConfig& config, Weights& weights) {
  base.Rows("embed.weight", {config.vocab_size, config.d}, weights.embed);
  for (int layer = 0; layer < config.adapter.reranker.layers; ++layer) {
    LayerWeights& shared = weights.layers[static_cast<size_t>(layer)];
    AddMixer(base, config, config.parts(layer), Prefix(layer), shared.mixer);
    base.Vector(Prefix(layer) + "ffn_norm.weight", {config.d}, shared.ffn.norm);
    AddFfnProducts(base, Prefix(layer), config.parts(layer).ffn, config.d, config.ffn, shared.ffn);
  }
}

}  // namespace

std::vector<TensorSpec> RerankerTensors(const ModelConfig& config) {
  WeightsReader list;
  RerankerWeights none;
  AddReranker(list, config, none);
  return list.specs();
}

absl::Status ReadReranker(const TensorFile& file, const TensorFile& base, const ModelConfig& config,
                          DType dtype, Weights& weights) {
  WeightsReader list(file, dtype), shared(base, dtype);
  AddReranker(list, config, weights.adapter.reranker);
  if (weights.embed.bytes() == 0) AddShared(shared, config, weights);
  weights.bytes += list.bytes() + shared.bytes();
  RETURN_IF_ERROR(list.status());
  return shared.status();
}

}  // namespace recollect::model
