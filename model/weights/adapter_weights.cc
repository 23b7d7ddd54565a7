#include "model/weights/adapter_weights.h"

#include <cmath>
#include <string>
#include <utility>

#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

std::string GcaPrefix(int layer) { return absl::StrCat("layers.", layer, ".gca."); }

std::string EncoderPrefix(int layer) { return absl::StrCat("encoder.layers.", layer, "."); }

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
  const int64_t d = config.d, inner = config.inner(), kv = config.memory_width();
  const int64_t ffn = config.adapter.encoder_ffn, words = config.adapter.words;
  std::vector<TensorSpec> specs = {
      {"encoder.cls", {2, d}},
      {"encoder.out_norm.weight", {d}},
      {"states_proj.weight", {d, d}},
      {"landmark_proj.weight", {config.d_r, d}},
      {"query_proj.weight", {config.d_r, d}},
      {"words.key_proj.weight", {1, d}},
      {"words.key_bias", {words}},
      {"words.query_proj.weight", {1, d}},
      {"words.query_bias", {words}},
      {"score.scale", {2}},
      {"score.mix.weight", {2, d}},
      {"score.mix.bias", {2}},
      {"score.nothing.weight", {1, d}},
      {"score.nothing.bias", {1}},
      {"score.successor", {1}},
      {"pointer.key_proj.weight", {config.adapter.d_pointer, d}},
      {"pointer.query_proj.weight", {config.adapter.d_pointer, d}},
      {"pointer.scale", {1}},
      {"pointer.gate.weight", {1, d}},
      {"pointer.gate.bias", {1}},
      {"pointer.evidence", {1}},
  };
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = EncoderPrefix(layer);
    specs.push_back({prefix + "attn_norm.weight", {d}});
    specs.push_back({prefix + "ffn_norm.weight", {d}});
    specs.push_back({prefix + "attn.in_proj.weight", {3 * inner, d}});
    specs.push_back({prefix + "attn.out_proj.weight", {d, inner}});
    specs.push_back({prefix + "ffn.in_proj.weight", {2 * ffn, d}});
    specs.push_back({prefix + "ffn.out_proj.weight", {d, ffn}});
  }
  for (const int layer : config.adapter.gca_layers) {
    const std::string prefix = GcaPrefix(layer);
    specs.push_back({prefix + "query_norm.weight", {d}});
    specs.push_back({prefix + "key_norm.weight", {d}});
    specs.push_back({prefix + "q_proj.weight", {inner, d}});
    specs.push_back({prefix + "k_proj.weight", {kv, d}});
    specs.push_back({prefix + "v_proj.weight", {kv, d}});
    specs.push_back({prefix + "out_proj.weight", {d, inner}});
    specs.push_back({prefix + "gate", {config.heads}});
  }
  return specs;
}

absl::Status ReadAdapter(const TensorFile& file, const ModelConfig& config, DType dtype,
                         Weights& weights) {
  WeightsReader reader(file, dtype);
  AdapterWeights& adapter = weights.adapter;
  adapter.cls = reader.Vector("encoder.cls");
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = EncoderPrefix(layer);
    adapter.layers.push_back({.attn_norm = reader.Vector(prefix + "attn_norm.weight"),
                              .attn_in_proj = reader.Matrix(prefix + "attn.in_proj.weight"),
                              .attn_out_proj = reader.Matrix(prefix + "attn.out_proj.weight"),
                              .ffn = reader.Ffn(prefix, FfnKind::kSwiGlu)});
  }
  adapter.out_norm = reader.Vector("encoder.out_norm.weight");
  adapter.states_proj = reader.Matrix("states_proj.weight");
  adapter.landmark_proj = reader.Matrix("landmark_proj.weight");
  adapter.query_proj = reader.Matrix("query_proj.weight");
  adapter.key_word_proj = reader.Vector("words.key_proj.weight");
  adapter.key_word_bias = reader.Vector("words.key_bias");
  adapter.query_word_proj = reader.Vector("words.query_proj.weight");
  adapter.query_word_bias = reader.Vector("words.query_bias");
  adapter.score_scale = reader.Vector("score.scale");
  adapter.score_mix_proj = reader.Vector("score.mix.weight");
  adapter.score_mix_bias = reader.Vector("score.mix.bias");
  adapter.nothing_proj = reader.Vector("score.nothing.weight");
  adapter.nothing_bias = reader.Number("score.nothing.bias");
  adapter.pointer_key_proj = reader.Matrix("pointer.key_proj.weight");
  adapter.pointer_query_proj = reader.Matrix("pointer.query_proj.weight");
  adapter.pointer_scale = reader.Number("pointer.scale");
  adapter.pointer_gate_proj = reader.Vector("pointer.gate.weight");
  adapter.pointer_gate_bias = reader.Number("pointer.gate.bias");
  adapter.pointer_evidence = reader.Number("pointer.evidence");
  for (const int layer : config.adapter.gca_layers) {
    const std::string prefix = GcaPrefix(layer);
    GcaWeights& gca = weights.layers[static_cast<size_t>(layer)].gca.emplace();
    gca.norm_eps = kAdapterNormEps;
    gca.memory_layer = static_cast<int>(adapter.memory.size());
    gca.norm = reader.Vector(prefix + "query_norm.weight");
    gca.q_proj = reader.Matrix(prefix + "q_proj.weight");
    ASSIGN_OR_RETURN(const std::vector<float> output, ReadGatedOutput(file, config, layer));
    ASSIGN_OR_RETURN(gca.out_proj, reader.Pack(output, config.d, config.inner()));
    weights.bytes += gca.out_proj.bytes();
    adapter.memory.push_back({.norm = reader.Vector(prefix + "key_norm.weight"),
                              .k_proj = reader.Matrix(prefix + "k_proj.weight"),
                              .v_proj = reader.Matrix(prefix + "v_proj.weight")});
  }
  weights.bytes += reader.bytes();
  return reader.status();
}

absl::StatusOr<float> ReadSuccessorDistance(const TensorFile& file) {
  ASSIGN_OR_RETURN(const std::vector<float> distance, ReadFinite(file, "score.successor"));
  return std::log1p(std::exp(distance.front()));
}

}  // namespace recollect::model
