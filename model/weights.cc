#include "model/weights.h"

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status.h"

namespace recollect::model {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Reads tensors one after another, so that at most one exists unpacked; keeps the first error.
class Reader {
 public:
  Reader(const SafetensorsFile& file, DType dtype, Weights& weights)
      : file_(file), dtype_(dtype), weights_(weights) {}

  std::vector<float> Vector(const std::string& name) {
    std::vector<float> values = Floats(name);
    weights_.bytes += static_cast<int64_t>(values.size() * sizeof(float));
    return values;
  }

  kernels::PackedMatrix Matrix(const std::string& name) {
    const std::vector<float> values = Floats(name);
    if (!status_.ok()) return {};
    return Pack(values, file_.tensors().at(name).shape, name);
  }

  kernels::PackedMatrix Pack(const std::vector<float>& values, const std::vector<int64_t>& shape,
                             const std::string& name) {
    if (!status_.ok()) return {};
    auto packed = kernels::PackedMatrix::Create(values.data(), shape[0], shape[1], dtype_);
    if (!packed.ok()) {
      status_ = Annotate(packed.status(), name);
      return {};
    }
    weights_.bytes += packed->bytes();
    return *std::move(packed);
  }

  FfnWeights Ffn(const std::string& prefix, FfnKind kind) {
    return {.kind = kind,
            .norm = Vector(prefix + "ffn_norm.weight"),
            .in_proj = Matrix(prefix + "ffn.in_proj.weight"),
            .out_proj = Matrix(prefix + "ffn.out_proj.weight")};
  }

  const absl::Status& status() const { return status_; }

 private:
  std::vector<float> Floats(const std::string& name) {
    if (!status_.ok()) return {};
    auto values = file_.ReadFloats(name);
    if (!values.ok()) {
      status_ = values.status();
      return {};
    }
    // One such value would turn every answer into NaN long after the cause is out of sight.
    for (size_t i = 0; i < values->size(); ++i) {
      if (!std::isfinite((*values)[i])) {
        status_ = absl::InvalidArgumentError(absl::StrCat(
            name, ": element ", i, " is ", (*values)[i], ", expected a finite number"));
        return {};
      }
    }
    weights_.parameters += static_cast<int64_t>(values->size());
    return *std::move(values);
  }

  const SafetensorsFile& file_;
  DType dtype_;
  Weights& weights_;
  absl::Status status_;
};

absl::Status CheckTensors(const SafetensorsFile& file, const ModelConfig& config) {
  std::vector<std::string> problems;
  std::map<std::string, const TensorSpec*> known;
  const std::vector<TensorSpec> expected = ExpectedTensors(config);
  for (const TensorSpec& spec : expected) {
    known.emplace(spec.name, &spec);
    const auto found = file.tensors().find(spec.name);
    if (found == file.tensors().end()) {
      problems.push_back(absl::StrCat(spec.name, " is missing, expected ", ShapeText(spec.shape)));
    } else if (found->second.shape != spec.shape) {
      problems.push_back(absl::StrCat(spec.name, " is ", ShapeText(found->second.shape),
                                      ", the config expects ", ShapeText(spec.shape)));
    } else if (found->second.dtype[0] == 'I') {
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
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

MixerWeights ReadMixer(Reader& reader, const std::string& prefix, const LayerParts& parts) {
  MixerWeights weights;
  weights.config = parts.mixer;
  weights.norm = reader.Vector(prefix + "mixer_norm.weight");
  weights.in_proj = reader.Matrix(prefix + "mixer.in_proj.weight");
  if (parts.gate_bias) weights.gate_bias = reader.Vector(prefix + "mixer.gate_bias");
  if (parts.mixer.qk_norm) {
    weights.q_norm = reader.Vector(prefix + "mixer.q_norm.weight");
    weights.k_norm = reader.Vector(prefix + "mixer.k_norm.weight");
  }
  weights.out_proj = reader.Matrix(prefix + "mixer.out_proj.weight");
  return weights;
}

LayerWeights ReadLayer(Reader& reader, int layer, const LayerParts& parts) {
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  LayerWeights weights;
  weights.mixer = ReadMixer(reader, prefix, parts);
  if (parts.gca) {
    weights.gca = GcaWeights{.norm = reader.Vector(prefix + "gca.norm.weight"),
                             .q_proj = reader.Matrix(prefix + "gca.q_proj.weight"),
                             .out_proj = reader.Matrix(prefix + "gca.out_proj.weight")};
  }
  weights.ffn = reader.Ffn(prefix, parts.ffn);
  return weights;
}

EncoderWeights ReadEncoder(Reader& reader, const ModelConfig& config) {
  EncoderWeights weights;
  weights.cls = reader.Vector("encoder.cls");
  weights.in_norm = reader.Vector("encoder.in_norm.weight");
  weights.out_norm = reader.Vector("encoder.out_norm.weight");
  if (config.encoder_carry) weights.carry_proj = reader.Matrix("encoder.carry_proj.weight");
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = absl::StrCat("encoder.layers.", layer, ".");
    weights.layers.push_back({.attn_norm = reader.Vector(prefix + "attn_norm.weight"),
                              .attn_in_proj = reader.Matrix(prefix + "attn.in_proj.weight"),
                              .attn_out_proj = reader.Matrix(prefix + "attn.out_proj.weight"),
                              .ffn = reader.Ffn(prefix, FfnKind::kSwiGlu)});
  }
  weights.landmark_proj = reader.Matrix("landmark_proj.weight");
  return weights;
}

MemoryWeights ReadMemory(Reader& reader, const ModelConfig& config) {
  MemoryWeights weights{.k_proj = reader.Matrix("memory.k_proj.weight"),
                        .v_proj = reader.Matrix("memory.v_proj.weight"),
                        .gate_proj = {}};
  if (config.memory_key_recurrence) weights.gate_proj = reader.Matrix("memory.gate_proj.weight");
  return weights;
}

using AddSpec = std::function<void(const std::string& name, std::vector<int64_t> shape)>;

void AddLayerSpecs(const ModelConfig& config, int layer, const AddSpec& add) {
  const int64_t d = config.d, inner = config.inner();
  const LayerParts parts = config.parts(layer);
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  add(prefix + "mixer_norm.weight", {d});
  add(prefix + "mixer.in_proj.weight", {MixerInputRows(config, parts.mixer), d});
  if (parts.gate_bias) add(prefix + "mixer.gate_bias", {inner});
  if (parts.mixer.qk_norm) {
    add(prefix + "mixer.q_norm.weight", {config.head_dim});
    add(prefix + "mixer.k_norm.weight", {config.head_dim});
  }
  add(prefix + "mixer.out_proj.weight", {d, inner});
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
    add(absl::StrCat("groups.", group, ".query_proj.weight"), {config.d_r, d});
  }
  for (const char* name : {"encoder.cls", "encoder.in_norm.weight", "encoder.out_norm.weight"}) {
    add(name, {d});
  }
  if (config.encoder_carry) add("encoder.carry_proj.weight", {d, d});
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = absl::StrCat("encoder.layers.", layer, ".");
    add(prefix + "attn_norm.weight", {d});
    add(prefix + "ffn_norm.weight", {d});
    add(prefix + "attn.in_proj.weight", {3 * inner, d});
    add(prefix + "attn.out_proj.weight", {d, inner});
    add(prefix + "ffn.in_proj.weight", {FfnInputRows(FfnKind::kSwiGlu, config.ffn), d});
    add(prefix + "ffn.out_proj.weight", {d, config.ffn});
  }
  add("landmark_proj.weight", {config.d_r, d});
  add("memory.k_proj.weight", {kv, d});
  add("memory.v_proj.weight", {kv, d});
  if (config.memory_key_recurrence) add("memory.gate_proj.weight", {kv, d});
}

}  // namespace

int64_t MixerInputRows(const ModelConfig& config, const MixerConfig& mixer) {
  switch (mixer.kind) {
    case MixerKind::kRatPlus:
      return 5 * config.inner();
    case MixerKind::kRat:
      return 3 * config.inner() + 2 * static_cast<int64_t>(mixer.shared_heads) * config.head_dim;
    case MixerKind::kAttention:
      return config.inner() + 2 * config.kv_width();
  }
  return 0;
}

std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  const AddSpec add = [&](const std::string& name, std::vector<int64_t> shape) {
    specs.push_back({name, std::move(shape)});
  };
  add("embed.weight", {config.vocab_size, config.d});
  for (int layer = 0; layer < config.layers(); ++layer) AddLayerSpecs(config, layer, add);
  if (config.landmarks()) AddMemorySpecs(config, add);
  add("final_norm.weight", {config.d});
  return specs;
}

absl::StatusOr<Weights> LoadWeights(const SafetensorsFile& file, const ModelConfig& config,
                                    DType dtype) {
  RETURN_IF_ERROR(CheckTensors(file, config));
  Weights weights;
  Reader reader(file, dtype, weights);
  weights.embed = reader.Vector("embed.weight");
  weights.head = reader.Pack(weights.embed, {config.vocab_size, config.d}, "embed.weight");
  for (int layer = 0; layer < config.layers(); ++layer) {
    weights.layers.push_back(ReadLayer(reader, layer, config.parts(layer)));
  }
  for (size_t group = 0; group < config.groups.size(); ++group) {
    const std::string prefix = absl::StrCat("groups.", group, ".");
    weights.queries.push_back({.norm = reader.Vector(prefix + "query_norm.weight"),
                               .proj = reader.Matrix(prefix + "query_proj.weight")});
  }
  if (config.landmarks()) {
    weights.encoder = ReadEncoder(reader, config);
    weights.memory = ReadMemory(reader, config);
  }
  weights.final_norm = reader.Vector("final_norm.weight");
  RETURN_IF_ERROR(reader.status());
  return weights;
}

}  // namespace recollect::model
