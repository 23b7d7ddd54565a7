#include "model/weights/weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status.h"
#include "model/config/problems.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

void AddLayer(WeightsReader& reader, const ModelConfig& config, int layer, LayerWeights& weights) {
  const int64_t d = config.d, inner = config.inner();
  const LayerParts parts = config.parts(layer);
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  AddMixer(reader, config, parts, prefix, weights.mixer);
  reader.Ffn(prefix, parts.ffn, d, config.ffn, weights.ffn);
  if (!parts.gca) return;
  GcaWeights& gca = weights.gca.emplace();
  gca.norm_eps = config.norm_eps;
  reader.Vector(prefix + "gca.norm.weight", {d}, gca.norm);
  reader.Matrix(prefix + "gca.q_proj.weight", {inner, d}, gca.q_proj);
  reader.Matrix(prefix + "gca.out_proj.weight", {d, inner}, gca.out_proj);
}

void AddQueries(WeightsReader& reader, const ModelConfig& config, Weights& weights) {
  weights.queries.resize(config.groups.size());
  for (size_t group = 0; group < config.groups.size(); ++group) {
    const std::string prefix = absl::StrCat("groups.", group, ".");
    QueryWeights& query = weights.queries[group];
    reader.Vector(prefix + "query_norm.weight", {config.d}, query.norm);
    if (config.score_projections) {
      reader.Matrix(prefix + "query_proj.weight", {config.d_r, config.d}, query.proj.emplace());
    }
    if (config.lexicon.d > 0) reader.Elsewhere(prefix + "recency", {config.lexicon.reach});
    if (config.successors) reader.Elsewhere(prefix + "successor_bias", {1});
  }
}

void AddEncoder(WeightsReader& reader, const ModelConfig& config, EncoderWeights& weights) {
  const int64_t d = config.d;
  if (config.landmark_row == LandmarkRow::kCls) reader.Vector("encoder.cls", {d}, weights.cls);
  reader.Vector("encoder.in_norm.weight", {d}, weights.in_norm);
  reader.Vector("encoder.out_norm.weight", {d}, weights.out_norm);
  if (config.encoder_carry) {
    reader.Matrix("encoder.carry_proj.weight", {d, d}, weights.carry_proj.emplace());
  }
  weights.layers.resize(static_cast<size_t>(config.encoder_layers));
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    reader.EncoderLayer(absl::StrCat("encoder.layers.", layer, "."), config, config.ffn_kind,
                        config.ffn, weights.layers[static_cast<size_t>(layer)]);
  }
  if (config.score_projections) {
    reader.Matrix("landmark_proj.weight", {config.d_r, d}, weights.landmark_proj.emplace());
  }
}

// Retrieval queries, chunk encoder and memory: what a family with landmarks has besides layers.
void AddMemory(WeightsReader& reader, const ModelConfig& config, Weights& weights) {
  const int64_t d = config.d, kv = config.memory_width();
  AddQueries(reader, config, weights);
  if (config.lexicon.d > 0) {
    reader.Elsewhere("lexicon.weight", {config.vocab_size, config.lexicon.d});
  }
  if (config.pointer.reach > 0) {
    reader.Elsewhere("pointer.run", {config.pointer.reach});
    reader.Elsewhere("pointer.overlap", {config.pointer.reach});
    reader.Elsewhere("pointer.rarity", {config.vocab_size});
  }
  AddEncoder(reader, config, weights.encoder);
  MemoryWeights& memory = weights.memory;
  reader.Matrix("memory.k_proj.weight", {kv, d}, memory.k_proj);
  reader.Matrix("memory.v_proj.weight", {kv, d}, memory.v_proj);
  if (config.memory_key_recurrence) {
    reader.Matrix("memory.gate_proj.weight", {kv, d}, memory.gate_proj.emplace());
  }
}

void AddAll(WeightsReader& reader, const ModelConfig& config, Weights& weights) {
  const WeightsReader::Shape embedding = {config.vocab_size, config.d};
  reader.Rows("embed.weight", embedding, weights.embed);
  if (config.tied_head) reader.Pack("embed.weight", weights.head);
  weights.layers.resize(static_cast<size_t>(config.layers()));
  for (int layer = 0; layer < config.layers(); ++layer) {
    AddLayer(reader, config, layer, weights.layers[static_cast<size_t>(layer)]);
  }
  if (config.landmarks()) AddMemory(reader, config, weights);
  reader.Vector("final_norm.weight", {config.d}, weights.final_norm);
  if (!config.tied_head) reader.Matrix("head.weight", embedding, weights.head);
}

}  // namespace

std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  WeightsReader list;
  Weights none;
  AddAll(list, config, none);
  return list.specs();
}

absl::Status CheckTensors(const TensorFile& file, const std::vector<TensorSpec>& expected,
                          const std::function<bool(const std::string& name)>& redundant) {
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const TensorSpec& spec : expected) {
    known.insert(spec.name);
    const auto found = file.tensors().find(spec.name);
    if (found == file.tensors().end()) {
      problems.push_back(absl::StrCat(spec.name, " is missing, expected ", ShapeText(spec.shape)));
    } else if (found->second.shape != spec.shape) {
      problems.push_back(absl::StrCat(spec.name, " is ", ShapeText(found->second.shape),
                                      ", the config expects ", ShapeText(spec.shape)));
    } else if (found->second.integers()) {
      problems.push_back(absl::StrCat(spec.name, " is ", found->second.dtype,
                                      ", expected floating-point numbers"));
    }
  }
  for (const auto& [name, info] : file.tensors()) {
    if (known.contains(name) || (redundant && redundant(name))) continue;
    problems.push_back(
        absl::StrCat(name, " ", ShapeText(info.shape), " is not a tensor of this config"));
  }
  return problems.empty() ? absl::OkStatus() : ProblemsError(problems);
}

bool HasBlocks(const TensorFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const auto& tensor) { return IsInBlocks(file, tensor.first); });
}

absl::StatusOr<Weights> LoadWeights(const TensorFile& file, const TensorFile* adapter,
                                    const ModelConfig& config, DType dtype) {
  Weights weights;
  WeightsReader reader(file, dtype);
  AddAll(reader, config, weights);
  RETURN_IF_ERROR(reader.status());
  weights.bytes = reader.bytes();
  if (adapter != nullptr) RETURN_IF_ERROR(ReadAdapter(*adapter, config, dtype, weights));
  return weights;
}

}  // namespace recollect::model
