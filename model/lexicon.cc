#include "model/lexicon.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/tensor_floats.h"

namespace recollect::model {

absl::StatusOr<Lexicon> Lexicon::Load(const TensorFile& file, const ModelConfig& config) {
  Lexicon lexicon;
  lexicon.width_ = config.lexicon.d;
  lexicon.norm_eps_ = config.norm_eps;
  ASSIGN_OR_RETURN(lexicon.rows_, ReadFinite(file, "lexicon.weight"));
  for (size_t group = 0; group < config.groups.size(); ++group) {
    ASSIGN_OR_RETURN(lexicon.recency_.emplace_back(),
                     ReadFinite(file, absl::StrCat("groups.", group, ".recency")));
  }
  return lexicon;
}

int64_t Lexicon::bytes() const {
  const auto recency = static_cast<int64_t>(recency_.size()) * reach();
  return (std::ssize(rows_) + recency) * static_cast<int64_t>(sizeof(float));
}

std::vector<Bf16> Lexicon::Key(std::span<const int32_t> tokens) const {
  std::vector<float> sum(static_cast<size_t>(width_));
  for (const int32_t token : tokens) {
    const float* row = rows_.data() + token * width_;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
  }
  double squares = 0;
  for (const float value : sum) squares += double{value} * value;
  const double mean = squares / static_cast<double>(width_);
  const auto scale = static_cast<float>(1 / std::sqrt(mean + norm_eps_));
  std::vector<Bf16> key;
  key.reserve(sum.size());
  for (const float value : sum) key.push_back(Bf16::FromFloat(value * scale));
  return key;
}

void Lexicon::Query(int group, std::span<const int32_t> recent, std::span<float> u) const {
  const std::vector<float>& recency = recency_[static_cast<size_t>(group)];
  std::fill(u.begin(), u.end(), 0.0f);
  const size_t count = std::min(recency.size(), recent.size());
  for (size_t back = 0; back < count; ++back) {
    const float* row = rows_.data() + recent[recent.size() - 1 - back] * width_;
    for (size_t i = 0; i < u.size(); ++i) u[i] += recency[back] * row[i];
  }
}

absl::StatusOr<std::vector<float>> LoadSuccessorBiases(const TensorFile& file,
                                                       const ModelConfig& config) {
  std::vector<float> biases;
  for (size_t group = 0; group < config.groups.size(); ++group) {
    const std::string name = absl::StrCat("groups.", group, ".successor_bias");
    ASSIGN_OR_RETURN(const std::vector<float> bias, ReadFinite(file, name));
    if (bias.front() > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", bias.front(), ", expected at most 0"));
    }
    biases.push_back(bias.front());
  }
  return biases;
}

}  // namespace recollect::model
