// Lists the tensors of a checkpoint, each once with its name, its shape and its place in the
// weights. Private to model/.
//
// A reader gets them one by one: a WeightsReader (model/weights/weights_reader.h), whose tensors
// lie in RAM, or the one of model/device/device_weights.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/tensor_floats.h"
#include "model/weights/weights.h"

namespace recollect::model {

template <typename Reader, typename T>
void AddResidual(Reader& reader, const ModelConfig& config, const MixerConfig& mixer,
                 const std::string& prefix, ResidualWeightsOf<T>& weights) {
  const int64_t heads = config.heads, dim = config.head_dim, tokens = mixer.learned_tokens;
  if (mixer.window >= 0) reader.Vector(prefix + "swa_norm.weight", {heads, dim}, weights.swa_norm);
  reader.Vector(prefix + "rla_norm.weight", {heads, dim}, weights.rla_norm);
  if (mixer.qk_scale) {
    reader.Vector(prefix + "rla.q_scale", {dim}, weights.q_scale);
    reader.Vector(prefix + "rla.k_scale", {dim}, weights.k_scale);
  }
  if (tokens == 0) return;
  const std::string k = prefix + "rla.init_k", v = prefix + "rla.init_v";
  reader.Elsewhere(k, {heads, tokens, dim});
  reader.Elsewhere(v, {heads, tokens, dim});
  const auto sum = [=, &config,
                    &mixer](const TensorFile& file) -> absl::StatusOr<std::vector<float>> {
    ASSIGN_OR_RETURN(const std::vector<float> keys, ReadFinite(file, k));
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFinite(file, v));
    return LearnedSum(config, mixer, keys, values);
  };
  reader.MadeVector(heads * 2 * dim * dim, sum, weights.initial);
}

template <typename Reader, typename T>
void AddMixer(Reader& reader, const ModelConfig& config, const LayerParts& parts,
              const std::string& layer, MixerWeightsOf<T>& weights) {
  const int64_t d = config.d, inner = config.inner();
  const MixerConfig& mixer = weights.config = parts.mixer;
  const std::string prefix = layer + "mixer.";
  reader.Vector(layer + "mixer_norm.weight", {d}, weights.norm);
  reader.MixerInput(prefix + "in_proj.weight", config, weights.config, weights.in_proj);
  if (parts.gate_bias) reader.Vector(prefix + "gate_bias", {inner}, weights.gate_bias);
  if (mixer.qk_norm) {
    reader.Vector(prefix + "q_norm.weight", {config.head_dim}, weights.q_norm);
    reader.Vector(prefix + "k_norm.weight", {config.head_dim}, weights.k_norm);
  }
  if (mixer.positions == Positions::kAlibi) {
    const auto slopes =
        [heads = config.heads](const TensorFile&) -> absl::StatusOr<std::vector<float>> {
      return AlibiSlopes(heads);
    };
    reader.MadeVector(config.heads, slopes, weights.alibi_slopes);
  }
  if (mixer.kind == MixerKind::kRattention) {
    AddResidual(reader, config, weights.config, prefix, weights.residual.emplace());
  }
  reader.Matrix(prefix + "out_proj.weight", {d, inner}, weights.out_proj);
}

template <typename Reader, typename T>
void AddFfnProducts(Reader& reader, const std::string& prefix, FfnKind kind, int64_t d, int64_t ffn,
                    FfnWeightsOf<T>& weights) {
  weights.kind = kind;
  reader.Matrix(prefix + "ffn.in_proj.weight", {FfnInputRows(kind, ffn), d}, weights.in_proj);
  reader.Matrix(prefix + "ffn.out_proj.weight", {d, ffn}, weights.out_proj);
}

template <typename Reader, typename T>
void AddEncoderLayer(Reader& reader, const std::string& prefix, const ModelConfig& config,
                     FfnKind kind, int64_t ffn, EncoderLayerWeightsOf<T>& weights) {
  const int64_t d = config.d, inner = config.inner();
  reader.Vector(prefix + "attn_norm.weight", {d}, weights.attn_norm);
  reader.Vector(prefix + "ffn_norm.weight", {d}, weights.ffn.norm);
  reader.Matrix(prefix + "attn.in_proj.weight", {3 * inner, d}, weights.attn_in_proj);
  reader.Matrix(prefix + "attn.out_proj.weight", {d, inner}, weights.attn_out_proj);
  AddFfnProducts(reader, prefix, kind, d, ffn, weights.ffn);
}

template <typename Reader, typename T>
void AddLayer(Reader& reader, const ModelConfig& config, int layer, LayerWeightsOf<T>& weights) {
  const int64_t d = config.d, inner = config.inner();
  const LayerParts parts = config.parts(layer);
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  AddMixer(reader, config, parts, prefix, weights.mixer);
  reader.Vector(prefix + "ffn_norm.weight", {d}, weights.ffn.norm);
  AddFfnProducts(reader, prefix, parts.ffn, d, config.ffn, weights.ffn);
  if (!parts.gca) return;
  GcaWeightsOf<T>& gca = weights.gca.emplace();
  gca.norm_eps = config.norm_eps;
  reader.Vector(prefix + "gca.norm.weight", {d}, gca.norm);
  reader.Matrix(prefix + "gca.q_proj.weight", {inner, d}, gca.q_proj);
  reader.Matrix(prefix + "gca.out_proj.weight", {d, inner}, gca.out_proj);
}

template <typename Reader, typename T>
void AddQueries(Reader& reader, const ModelConfig& config, WeightsOf<T>& weights) {
  weights.queries.resize(config.groups.size());
  for (size_t group = 0; group < config.groups.size(); ++group) {
    const std::string prefix = absl::StrCat("groups.", group, ".");
    QueryWeightsOf<T>& query = weights.queries[group];
    reader.Vector(prefix + "query_norm.weight", {config.d}, query.norm);
    if (config.score_projections) {
      reader.Matrix(prefix + "query_proj.weight", {config.d_r, config.d}, query.proj.emplace());
    }
    if (config.lexicon.d > 0) reader.Elsewhere(prefix + "recency", {config.lexicon.reach});
    if (config.successors) reader.Elsewhere(prefix + "successor_bias", {1});
  }
}

template <typename Reader, typename T>
void AddEncoder(Reader& reader, const ModelConfig& config, EncoderWeightsOf<T>& weights) {
  const int64_t d = config.d;
  if (config.landmark_row == LandmarkRow::kCls) reader.Vector("encoder.cls", {d}, weights.cls);
  reader.Vector("encoder.in_norm.weight", {d}, weights.in_norm);
  reader.Vector("encoder.out_norm.weight", {d}, weights.out_norm);
  if (config.encoder_carry) {
    reader.Matrix("encoder.carry_proj.weight", {d, d}, weights.carry_proj.emplace());
  }
  weights.layers.resize(static_cast<size_t>(config.encoder_layers));
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    AddEncoderLayer(reader, absl::StrCat("encoder.layers.", layer, "."), config, config.ffn_kind,
                    config.ffn, weights.layers[static_cast<size_t>(layer)]);
  }
  if (config.score_projections) {
    reader.Matrix("landmark_proj.weight", {config.d_r, d}, weights.landmark_proj.emplace());
  }
}

// Adds retrieval queries, chunk encoder and memory: what a family with landmarks has besides
// layers.
template <typename Reader, typename T>
void AddMemory(Reader& reader, const ModelConfig& config, WeightsOf<T>& weights) {
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
  MemoryWeightsOf<T>& memory = weights.memory;
  reader.Matrix("memory.k_proj.weight", {kv, d}, memory.k_proj);
  reader.Matrix("memory.v_proj.weight", {kv, d}, memory.v_proj);
  if (config.memory_key_recurrence) {
    reader.Matrix("memory.gate_proj.weight", {kv, d}, memory.gate_proj.emplace());
  }
}

// Adds every tensor of a checkpoint of this config, in the order of docs/model-format.md.
template <typename Reader, typename T>
void AddTensors(Reader& reader, const ModelConfig& config, WeightsOf<T>& weights) {
  const std::vector<int64_t> embedding = {config.vocab_size, config.d};
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

}  // namespace recollect::model
