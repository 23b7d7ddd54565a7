#include "model/device_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/bf16.h"
#include "base/status.h"
#include "model/weights.h"

namespace recollect::model {
namespace {

constexpr int64_t kAlignment = 256;

// One place for each tensor in one buffer; the embedding, which is read by row and multiplied, has
// two where the products are in bf16.
class Uploader {
 public:
  Uploader(kernels::Device& device, const SafetensorsFile& file, DType dtype)
      : device_(device), file_(file), dtype_(dtype) {}

  absl::Status Run(const ModelConfig& config, DeviceWeights& weights) {
    int64_t bytes = 0;
    const auto reserve = [&](const std::string& name, const TensorSpec& spec, DType dtype) {
      int64_t count = 1;
      for (const int64_t size : spec.shape) count *= size;
      places_[name] = {bytes, spec, dtype};
      bytes += (count * kernels::BytesOf(dtype) + kAlignment - 1) / kAlignment * kAlignment;
    };
    for (const TensorSpec& spec : ExpectedTensors(config)) {
      reserve(spec.name, spec, spec.shape.size() == 2 ? dtype_ : DType::kFloat32);
      if (spec.name == kEmbed) reserve(kRows, spec, DType::kFloat32);
    }
    ASSIGN_OR_RETURN(weights.memory, device_.Allocate(bytes));
    base_ = static_cast<std::byte*>(weights.memory->data());
    for (const auto& [name, place] : places_) RETURN_IF_ERROR(Upload(place));
    for (const auto& [name, place] : places_) {
      if (place.spec.shape.size() == 2 && name != kRows) AddProduct(name, place, weights.products);
    }
    return absl::OkStatus();
  }

  // Null where the config has no such tensor.
  const float* Vector(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr
                                  : reinterpret_cast<const float*>(base_ + found->second.at);
  }
  DeviceMatrix Matrix(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) return {};
    const std::vector<int64_t>& shape = found->second.spec.shape;
    return {base_ + found->second.at, shape[0], shape[1]};
  }
  DeviceFfn Ffn(const std::string& prefix) const {
    return {.norm = Vector(prefix + "ffn_norm.weight"),
            .in_proj = Matrix(prefix + "ffn.in_proj.weight"),
            .out_proj = Matrix(prefix + "ffn.out_proj.weight")};
  }

  static constexpr char kEmbed[] = "embed.weight";
  static constexpr char kRows[] = "embed.weight, by row";

 private:
  struct Place {
    int64_t at = 0;
    TensorSpec spec;
    DType dtype = DType::kFloat32;
  };

  absl::Status Upload(const Place& place) {
    ASSIGN_OR_RETURN(const std::vector<float> values, file_.ReadFloats(place.spec.name));
    std::byte* const to = base_ + place.at;
    if (place.dtype == DType::kFloat32) {
      return device_.Upload(values.data(), static_cast<int64_t>(values.size() * sizeof(float)), to);
    }
    std::vector<Bf16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), Bf16::FromFloat);
    return device_.Upload(rounded.data(), static_cast<int64_t>(rounded.size() * sizeof(Bf16)), to);
  }

  // What a matrix gives is added to the residual stream, or to the CLS row, or stands alone.
  static void AddProduct(const std::string& name, const Place& place,
                         std::vector<kernels::GemmShape>& products) {
    const kernels::GemmShape shape = {.n = place.spec.shape[0],
                                      .k = place.spec.shape[1],
                                      .in = place.dtype,
                                      .add = absl::EndsWith(name, "out_proj.weight") ||
                                             absl::EndsWith(name, "carry_proj.weight")};
    const auto same = [&](const kernels::GemmShape& other) {
      return other.n == shape.n && other.k == shape.k && other.add == shape.add;
    };
    if (std::none_of(products.begin(), products.end(), same)) products.push_back(shape);
  }

  kernels::Device& device_;
  const SafetensorsFile& file_;
  const DType dtype_;
  std::map<std::string, Place> places_;
  std::byte* base_ = nullptr;
};

}  // namespace

absl::StatusOr<DeviceWeights> LoadDeviceWeights(kernels::Device& device,
                                                const SafetensorsFile& file,
                                                const ModelConfig& config, DType dtype) {
  DeviceWeights weights;
  Uploader tensors(device, file, dtype);
  RETURN_IF_ERROR(tensors.Run(config, weights));
  weights.embed = tensors.Vector(Uploader::kRows);
  weights.head = tensors.Matrix(Uploader::kEmbed);
  for (int layer = 0; layer < config.layers(); ++layer) {
    const std::string prefix = absl::StrCat("layers.", layer, ".");
    weights.layers.push_back({.mixer_norm = tensors.Vector(prefix + "mixer_norm.weight"),
                              .gate_bias = tensors.Vector(prefix + "mixer.gate_bias"),
                              .in_proj = tensors.Matrix(prefix + "mixer.in_proj.weight"),
                              .out_proj = tensors.Matrix(prefix + "mixer.out_proj.weight"),
                              .gca_norm = tensors.Vector(prefix + "gca.norm.weight"),
                              .gca_q_proj = tensors.Matrix(prefix + "gca.q_proj.weight"),
                              .gca_out_proj = tensors.Matrix(prefix + "gca.out_proj.weight"),
                              .ffn = tensors.Ffn(prefix)});
  }
  for (size_t group = 0; group < config.groups.size(); ++group) {
    const std::string prefix = absl::StrCat("groups.", group, ".");
    weights.queries.push_back({.norm = tensors.Vector(prefix + "query_norm.weight"),
                               .proj = tensors.Matrix(prefix + "query_proj.weight")});
  }
  weights.encoder = {.cls = tensors.Vector("encoder.cls"),
                     .in_norm = tensors.Vector("encoder.in_norm.weight"),
                     .out_norm = tensors.Vector("encoder.out_norm.weight"),
                     .carry_proj = tensors.Matrix("encoder.carry_proj.weight"),
                     .landmark_proj = tensors.Matrix("landmark_proj.weight"),
                     .layers = {}};
  for (int layer = 0; layer < config.encoder_layers; ++layer) {
    const std::string prefix = absl::StrCat("encoder.layers.", layer, ".");
    weights.encoder.layers.push_back(
        {.attn_norm = tensors.Vector(prefix + "attn_norm.weight"),
         .attn_in_proj = tensors.Matrix(prefix + "attn.in_proj.weight"),
         .attn_out_proj = tensors.Matrix(prefix + "attn.out_proj.weight"),
         .ffn = tensors.Ffn(prefix)});
  }
  weights.memory_k_proj = tensors.Matrix("memory.k_proj.weight");
  weights.memory_v_proj = tensors.Matrix("memory.v_proj.weight");
  weights.memory_gate_proj = tensors.Matrix("memory.gate_proj.weight");
  weights.final_norm = tensors.Vector("final_norm.weight");
  return weights;
}

}  // namespace recollect::model
