#include "model/weights/adapter_weights.h"

#include <cmath>
#include <string>

#include "model/weights/weights_list.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

std::string GcaPrefix(int layer) { return absl::StrCat("layers.", layer, ".gca."); }

// What a layer that reads memory has.
void AddReading(WeightsReader& reader, const ModelConfig& config, int layer, GcaWeights& gca,
                AdapterMemoryWeights& memory) {
  const int64_t d = config.d, inner = config.inner(), kv = config.memory_width();
  const std::string prefix = GcaPrefix(layer);
  gca.norm_eps = kAdapterNormEps;
  reader.Vector(prefix + "query_norm.weight", {d}, gca.norm);
  reader.Vector(prefix + "key_norm.weight", {d}, memory.norm);
  reader.Matrix(prefix + "q_proj.weight", {inner, d}, gca.q_proj);
  reader.Matrix(prefix + "k_proj.weight", {kv, d}, memory.k_proj);
  reader.Matrix(prefix + "v_proj.weight", {kv, d}, memory.v_proj);
  reader.Elsewhere(prefix + "out_proj.weight", {d, inner});
  reader.Elsewhere(prefix + "gate", {config.heads});
  reader.MadeMatrix([&](const TensorFile& file) { return ReadGatedOutput(file, config, layer); }, d,
                    inner, gca.out_proj);
}

void AddAdapter(WeightsReader& reader, const ModelConfig& config, Weights& weights) {
  const int64_t d = config.d, d_p = config.adapter.d_pointer, words = config.adapter.words;
  AdapterWeights& adapter = weights.adapter;
  reader.Vector("encoder.cls", {2, d}, adapter.cls);
  reader.Vector("encoder.out_norm.weight", {d}, adapter.out_norm);
  reader.Matrix("states_proj.weight", {d, d}, adapter.states_proj);
  reader.Matrix("landmark_proj.weight", {config.d_r, d}, adapter.landmark_proj);
  reader.Matrix("query_proj.weight", {config.d_r, d}, adapter.query_proj);
  reader.Vector("words.key_proj.weight", {1, d}, adapter.key_word_proj);
  reader.Vector("words.key_bias", {words}, adapter.key_word_bias);
  reader.Vector("words.query_proj.weight", {1, d}, adapter.query_word_proj);
  reader.Vector("words.query_bias", {words}, adapter.query_word_bias);
  reader.Vector("score.scale", {2}, adapter.score_scale);
  reader.Vector("score.mix.weight", {2, d}, adapter.score_mix_proj);
  reader.Vector("score.mix.bias", {2}, adapter.score_mix_bias);
  reader.Vector("score.nothing.weight", {1, d}, adapter.nothing_proj);
  reader.Number("score.nothing.bias", adapter.nothing_bias);
  reader.Elsewhere("score.successor", {1});
  reader.Matrix("pointer.key_proj.weight", {d_p, d}, adapter.pointer_key_proj);
  reader.Matrix("pointer.query_proj.weight", {d_p, d}, adapter.pointer_query_proj);
  reader.Number("pointer.scale", adapter.pointer_scale);
  reader.Vector("pointer.gate.weight", {1, d}, adapter.pointer_gate_proj);
  reader.Number("pointer.gate.bias", adapter.pointer_gate_bias);
  reader.Number("pointer.evidence", adapter.pointer_evidence);
  adapter.layers.resize(static_cast<size_t>(config.encoder_layers));
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    AddEncoderLayer(reader, absl::StrCat("encoder.layers.", layer, "."), config, FfnKind::kSwiGlu,
                    config.adapter.encoder_ffn, adapter.layers[static_cast<size_t>(layer)]);
  }
  weights.layers.resize(static_cast<size_t>(config.layers()));
  for (const int layer : config.adapter.gca_layers) {
    GcaWeights& gca = weights.layers[static_cast<size_t>(layer)].gca.emplace();
    gca.memory_layer = static_cast<int>(adapter.memory.size());
    AddReading(reader, config, layer, gca, adapter.memory.emplace_back());
  }
}

}  // namespace

absl::StatusOr<std::vector<float>> ReadGatedOutput(const TensorFile& file,
                                                   const ModelConfig& config, int layer) {
  const std::string prefix = GcaPrefix(layer);
  ASSIGN_OR_RETURN(std::vector<float> weights, ReadFinite(file, prefix + "out_proj.weight"));
  ASSIGN_OR_RETURN(const std::vector<float> gate, ReadFinite(file, prefix + "gate"));
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto column = static_cast<int64_t>(i) % config.inner();
    weights[i] *= gate[static_cast<size_t>(column / config.head_dim)];
  }
  return weights;
}

std::vector<TensorSpec> AdapterTensors(const ModelConfig& config) {
  WeightsReader list;
  Weights none;
  AddAdapter(list, config, none);
  return list.specs();
}

absl::Status ReadAdapter(const TensorFile& file, const ModelConfig& config, DType dtype,
                         Weights& weights) {
  WeightsReader reader(file, dtype);
  AddAdapter(reader, config, weights);
  weights.bytes += reader.bytes();
  return reader.status();
}

absl::StatusOr<float> ReadSuccessorDistance(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<float> distance, ReadFinite(file, "score.successor"));
  return std::log1p(std::exp(distance.front()));
}

}  // namespace recollect::model
