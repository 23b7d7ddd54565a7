#include "model/weights/reranker_weights.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/weights_list.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

constexpr char kDown[] = ".down", kUp[] = ".up";

// W + up · down of a matrix [n, k], for up [n, rank] and down [rank, k].
absl::StatusOr<std::vector<float>> ReadChanged(const TensorFile& file, const TensorFile& base,
                                               const std::string& name, int64_t k) {
  ASSIGN_OR_RETURN(std::vector<float> matrix, ReadFinite(base, name));
  ASSIGN_OR_RETURN(const std::vector<float> down, ReadFinite(file, name + kDown));
  ASSIGN_OR_RETURN(const std::vector<float> up, ReadFinite(file, name + kUp));
  const auto width = static_cast<size_t>(k);
  const size_t rank = down.size() / width;
  for (size_t at = 0; at < up.size(); ++at) {
    float* const row = matrix.data() + at / rank * width;
    const float* const change = down.data() + at % rank * width;
    for (size_t i = 0; i < width; ++i) row[i] += up[at] * change[i];
  }
  return matrix;
}

// Lists the changes, and reads the base's mixers with them, as AddMixer names their tensors.
class ChangedMixers {
 public:
  // `base` may be null where `list` reads no file.
  ChangedMixers(WeightsReader& list, const TensorFile* base, int64_t rank)
      : list_(list), base_(base), rank_(rank) {}

  void Vector(const std::string& name, const std::vector<int64_t>& shape, std::vector<float>& out) {
    MadeVector(
        shape.front(), [&](const TensorFile& base) { return ReadFinite(base, name); }, out);
  }
  template <typename Make>
  void MadeVector(int64_t count, const Make& make, std::vector<float>& out) {
    list_.MadeVector(
        count, [&](const TensorFile&) { return make(*base_); }, out);
  }
  void Matrix(const std::string& name, const std::vector<int64_t>& shape,
              kernels::PackedMatrix& out) {
    const int64_t n = shape[0], k = shape[1];
    list_.Elsewhere(name + kDown, {rank_, k});
    list_.Elsewhere(name + kUp, {n, rank_});
    const auto make = [&](const TensorFile& file) { return ReadChanged(file, *base_, name, k); };
    list_.MadeMatrix(make, n, k, out);
  }
  void MixerInput(const std::string& name, const ModelConfig& config, const MixerConfig& mixer,
                  kernels::PackedMatrix& out) {
    Matrix(name, {MixerInputRows(config, mixer), config.d}, out);
  }
  static void Elsewhere(const std::string& /*name*/, const std::vector<int64_t>& /*shape*/) {}

 private:
  WeightsReader& list_;
  const TensorFile* const base_;
  const int64_t rank_;
};

std::string Prefix(int layer) { return absl::StrCat("layers.", layer, "."); }

void AddReranker(WeightsReader& list, const TensorFile* base, const ModelConfig& config,
                 RerankerWeights& weights) {
  const RerankerConfig& reranker = config.adapter.reranker;
  ChangedMixers mixers(list, base, reranker.rank);
  weights.mixers.resize(static_cast<size_t>(reranker.layers));
  for (int layer = 0; layer < reranker.layers; ++layer) {
    AddMixer(mixers, config, config.parts(layer), Prefix(layer),
             weights.mixers[static_cast<size_t>(layer)]);
  }
  list.Vector("head.weight", {1, config.d}, weights.head);
  list.Number("head.bias", weights.bias);
}

// What the reranker has in common with the base.
void AddShared(WeightsReader& base, const ModelConfig& config, Weights& weights) {
  base.Rows("embed.weight", {config.vocab_size, config.d}, weights.embed);
  for (int layer = 0; layer < config.adapter.reranker.layers; ++layer) {
    FfnWeights& ffn = weights.layers[static_cast<size_t>(layer)].ffn;
    base.Vector(Prefix(layer) + "ffn_norm.weight", {config.d}, ffn.norm);
    AddFfnProducts(base, Prefix(layer), config.parts(layer).ffn, config.d, config.ffn, ffn);
  }
}

}  // namespace

std::vector<TensorSpec> RerankerTensors(const ModelConfig& config) {
  WeightsReader list;
  RerankerWeights none;
  AddReranker(list, nullptr, config, none);
  return list.specs();
}

absl::Status ReadReranker(const TensorFile& file, const TensorFile& base, const ModelConfig& config,
                          DType dtype, Weights& weights) {
  WeightsReader list(file, dtype), shared(base, dtype);
  AddReranker(list, &base, config, weights.adapter.reranker);
  if (weights.embed.bytes() == 0) AddShared(shared, config, weights);
  weights.bytes += list.bytes() + shared.bytes();
  RETURN_IF_ERROR(list.status());
  return shared.status();
}

}  // namespace recollect::model
