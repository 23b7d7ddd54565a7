#include "model/weights/reranker_weights.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "model/weights/weights_list.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

// The matrices that are changed: those of attention. Behind "layers.N.".
constexpr const char* kChanged[] = {"mixer.in_proj.weight", "mixer.out_proj.weight"};
constexpr char kDown[] = ".down", kUp[] = ".up";

bool IsChanged(const std::string& name) {
  return std::ranges::any_of(kChanged, [&](const char* end) { return absl::EndsWith(name, end); });
}

// W + up · down of a matrix [n, k], for up [n, rank] and down [rank, k].
absl::StatusOr<std::vector<float>> ReadChanged(const TensorFile& file, const TensorFile& base,
                                               const std::string& name, int64_t k) {
  ASSIGN_OR_RETURN(std::vector<float> matrix, ReadFinite(base, name));
  if (!IsChanged(name)) return matrix;
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

// Lists the tensors of the base's layers for AddLayer. Without files it lists those of the reranker
// instead; with them it reads the changed layers.
class ChangedLayers {
 public:
  ChangedLayers(int64_t rank, WeightsReader& list) : rank_(rank), list_(list) {}
  ChangedLayers(const TensorFile& file, const TensorFile& base, WeightsReader& list)
      : file_(&file), base_(&base), list_(list) {}

  void Vector(const std::string& name, std::vector<int64_t> shape, std::vector<float>& out) {
    MadeVector(
        shape.front(), [&](const TensorFile& base) { return ReadFinite(base, name); }, out);
  }
  template <typename Make>
  void MadeVector(int64_t count, const Make& make, std::vector<float>& out) {
    if (base_ != nullptr)
      list_.MadeVector(
          count, [&](const TensorFile&) { return make(*base_); }, out);
  }
  void Matrix(const std::string& name, std::vector<int64_t> shape, kernels::PackedMatrix& out) {
    const int64_t n = shape[0], k = shape[1];
    if (base_ != nullptr) {
      const auto make = [&](const TensorFile&) { return ReadChanged(*file_, *base_, name, k); };
      return list_.MadeMatrix(make, n, k, out);
    }
    if (!IsChanged(name)) return;
    list_.Elsewhere(name + kDown, {rank_, k});
    list_.Elsewhere(name + kUp, {n, rank_});
  }
  void MixerInput(const std::string& name, const ModelConfig& config, const MixerConfig& mixer,
                  kernels::PackedMatrix& out) {
    Matrix(name, {MixerInputRows(config, mixer), config.d}, out);
  }
  void Elsewhere(const std::string&, std::vector<int64_t>) {}

 private:
  const int64_t rank_ = 0;
  const TensorFile* const file_ = nullptr;
  const TensorFile* const base_ = nullptr;
  WeightsReader& list_;
};

void AddReranker(ChangedLayers layers, WeightsReader& list, const ModelConfig& config,
                 RerankerWeights& weights) {
  weights.layers.resize(static_cast<size_t>(config.adapter.reranker.layers));
  for (size_t layer = 0; layer < weights.layers.size(); ++layer)
    AddLayer(layers, config, static_cast<int>(layer), weights.layers[layer]);
  list.Vector("head.weight", {1, config.d}, weights.head);
  list.Number("head.bias", weights.bias);
}

}  // namespace

std::vector<TensorSpec> RerankerTensors(const ModelConfig& config) {
  WeightsReader list;
  RerankerWeights none;
  AddReranker({config.adapter.reranker.rank, list}, list, config, none);
  return list.specs();
}

absl::Status ReadReranker(const TensorFile& file, const TensorFile& base, const ModelConfig& config,
                          DType dtype, Weights& weights) {
  if (weights.embed.bytes() == 0) {
    WeightsReader embedding(base, dtype);
    embedding.Rows("embed.weight", {config.vocab_size, config.d}, weights.embed);
    RETURN_IF_ERROR(embedding.status());
    weights.bytes += embedding.bytes();
  }
  WeightsReader list(file, dtype);
  AddReranker({file, base, list}, list, config, weights.adapter.reranker);
  weights.bytes += list.bytes();
  return list.status();
}

}  // namespace recollect::model
