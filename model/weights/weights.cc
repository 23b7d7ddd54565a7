#include "model/weights/weights.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"
#include "model/config/problems.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

LayerWeights ReadLayer(WeightsReader& reader, const ModelConfig& config, int layer) {
  const LayerParts parts = config.parts(layer);
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  LayerWeights weights;
  weights.mixer = ReadMixer(reader, config, parts, prefix);
  if (parts.gca) {
    weights.gca = GcaWeights{.norm_eps = config.norm_eps,
                             .memory_layer = 0,
                             .norm = reader.Vector(prefix + "gca.norm.weight"),
                             .q_proj = reader.Matrix(prefix + "gca.q_proj.weight"),
                             .out_proj = reader.Matrix(prefix + "gca.out_proj.weight")};
  }
  weights.ffn = reader.Ffn(prefix, parts.ffn);
  return weights;
}

EncoderWeights ReadEncoder(WeightsReader& reader, const ModelConfig& config) {
  EncoderWeights weights;
  if (config.landmark_row == LandmarkRow::kCls) weights.cls = reader.Vector("encoder.cls");
  weights.in_norm = reader.Vector("encoder.in_norm.weight");
  weights.out_norm = reader.Vector("encoder.out_norm.weight");
  if (config.encoder_carry) weights.carry_proj = reader.Matrix("encoder.carry_proj.weight");
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = absl::StrCat("encoder.layers.", layer, ".");
    weights.layers.push_back({.attn_norm = reader.Vector(prefix + "attn_norm.weight"),
                              .attn_in_proj = reader.Matrix(prefix + "attn.in_proj.weight"),
                              .attn_out_proj = reader.Matrix(prefix + "attn.out_proj.weight"),
                              .ffn = reader.Ffn(prefix, config.ffn_kind)});
  }
  if (config.score_projections) weights.landmark_proj = reader.Matrix("landmark_proj.weight");
  return weights;
}

MemoryWeights ReadMemory(WeightsReader& reader, const ModelConfig& config) {
  MemoryWeights weights{.k_proj = reader.Matrix("memory.k_proj.weight"),
                        .v_proj = reader.Matrix("memory.v_proj.weight"),
                        .gate_proj = {}};
  if (config.memory_key_recurrence) weights.gate_proj = reader.Matrix("memory.gate_proj.weight");
  return weights;
}

void AddLayerSpecs(const ModelConfig& config, int layer, const AddSpec& add) {
  const int64_t d = config.d, inner = config.inner();
  const LayerParts parts = config.parts(layer);
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  AddMixerSpecs(config, parts, prefix, add);
  add(prefix + "ffn_norm.weight", {d});
  add(prefix + "ffn.in_proj.weight", {FfnInputRows(parts.ffn, config.ffn), d});
  add(prefix + "ffn.out_proj.weight", {d, config.ffn});
  if (parts.gca) {
    add(prefix + "gca.norm.weight", {d});
    add(prefix + "gca.q_proj.weight", {inner, d});
    add(prefix + "gca.out_proj.weight", {d, inner});
  }
}

// Retrieval queries, chunk encoder and memory: what a family with landmarks has besides layers.
void AddMemorySpecs(const ModelConfig& config, const AddSpec& add) {
  const int64_t d = config.d, inner = config.inner(), kv = config.memory_width();
  for (size_t group = 0; group < config.groups.size(); ++group) {
    add(absl::StrCat("groups.", group, ".query_norm.weight"), {d});
    if (config.score_projections) {
      add(absl::StrCat("groups.", group, ".query_proj.weight"), {config.d_r, d});
    }
    if (config.lexicon.d > 0)
      add(absl::StrCat("groups.", group, ".recency"), {config.lexicon.reach});
    if (config.successors) add(absl::StrCat("groups.", group, ".successor_bias"), {1});
  }
  if (config.lexicon.d > 0) add("lexicon.weight", {config.vocab_size, config.lexicon.d});
  if (config.pointer.reach > 0) {
    add("pointer.run", {config.pointer.reach});
    add("pointer.overlap", {config.pointer.reach});
    add("pointer.rarity", {config.vocab_size});
  }
  if (config.landmark_row == LandmarkRow::kCls) add("encoder.cls", {d});
  add("encoder.in_norm.weight", {d});
  add("encoder.out_norm.weight", {d});
  if (config.encoder_carry) add("encoder.carry_proj.weight", {d, d});
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = absl::StrCat("encoder.layers.", layer, ".");
    add(prefix + "attn_norm.weight", {d});
    add(prefix + "ffn_norm.weight", {d});
    add(prefix + "attn.in_proj.weight", {3 * inner, d});
    add(prefix + "attn.out_proj.weight", {d, inner});
    add(prefix + "ffn.in_proj.weight", {FfnInputRows(config.ffn_kind, config.ffn), d});
    add(prefix + "ffn.out_proj.weight", {d, config.ffn});
  }
  if (config.score_projections) add("landmark_proj.weight", {config.d_r, d});
  add("memory.k_proj.weight", {kv, d});
  add("memory.v_proj.weight", {kv, d});
  if (config.memory_key_recurrence) add("memory.gate_proj.weight", {kv, d});
}

}  // namespace

std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  const AddSpec add = [&](const std::string& name, std::vector<int64_t> shape) {
    specs.push_back({name, std::move(shape)});
  };
  add("embed.weight", {config.vocab_size, config.d});
  for (int layer = 0; layer < config.layers(); ++layer) AddLayerSpecs(config, layer, add);
  if (config.landmarks()) AddMemorySpecs(config, add);
  add("final_norm.weight", {config.d});
  if (!config.tied_head) add("head.weight", {config.vocab_size, config.d});
  return specs;
}

absl::Status CheckTensors(const TensorFile& file, const ModelConfig& config) {
  return CheckTensors(file, ExpectedTensors(config));
}

absl::Status CheckTensors(const TensorFile& file, const std::vector<TensorSpec>& expected) {
  std::vector<std::string> problems;
  std::map<std::string, const TensorSpec*> known;
  for (const TensorSpec& spec : expected) {
    known.emplace(spec.name, &spec);
    const auto found = file.tensors().find(spec.name);
    if (found == file.tensors().end()) {
      problems.push_back(absl::StrCat(spec.name, " is missing, expected ", ShapeText(spec.shape)));
    } else if (found->second.shape != spec.shape) {
      problems.push_back(absl::StrCat(spec.name, " is ", ShapeText(found->second.shape),
                                      ", the config expects ", ShapeText(spec.shape)));
    } else if (found->second.integers()) {
      problems.push_back(
          absl::StrCat(spec.name, " is ", found->second.dtype, ", expected F32, BF16 or F16"));
    }
  }
  for (const auto& [name, info] : file.tensors()) {
    if (!known.contains(name)) {
      problems.push_back(
          absl::StrCat(name, " ", ShapeText(info.shape), " is not a tensor of this config"));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return ProblemsError(problems);
}

bool HasBlocks(const TensorFile& file) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const auto& tensor) { return IsInBlocks(file, tensor.first); });
}

absl::StatusOr<Weights> LoadWeights(const TensorFile& file, const TensorFile* adapter,
                                    const ModelConfig& config, DType dtype) {
  Weights weights;
  WeightsReader reader(file, dtype);
  weights.embed = reader.Rows("embed.weight");
  weights.head = reader.Matrix(config.tied_head ? "embed.weight" : "head.weight");
  for (int layer = 0; layer < config.layers(); ++layer) {
    weights.layers.push_back(ReadLayer(reader, config, layer));
  }
  for (size_t group = 0; config.landmarks() && group < config.groups.size(); ++group) {
    const std::string prefix = absl::StrCat("groups.", group, ".");
    QueryWeights& query = weights.queries.emplace_back();
    query.norm = reader.Vector(prefix + "query_norm.weight");
    if (config.score_projections) query.proj = reader.Matrix(prefix + "query_proj.weight");
  }
  if (config.landmarks()) {
    weights.encoder = ReadEncoder(reader, config);
    weights.memory = ReadMemory(reader, config);
  }
  weights.final_norm = reader.Vector("final_norm.weight");
  RETURN_IF_ERROR(reader.status());
  weights.bytes = reader.bytes();
  if (adapter != nullptr) RETURN_IF_ERROR(ReadAdapter(*adapter, config, dtype, weights));
  return weights;
}

}  // namespace recollect::model
