#include "model/device/device_weights.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/numeric/bf16.h"
#include "base/numeric/round_up.h"
#include "base/status.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/weights.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

constexpr int64_t kAlignment = 256;

// What goes up under a name: a tensor, or what is made of tensors.
using ReadValues = std::function<absl::StatusOr<std::vector<float>>(const TensorFile&)>;

bool IsMatrix(const TensorSpec& spec) {
  return spec.name == "embed.weight" || spec.name == "head.weight" ||
         absl::EndsWith(spec.name, "_proj.weight");
}

// Of retrieval's lexical part and successors (lexicon.h) and of the pointer's scores (pointer.h),
// which the host computes.
bool StaysWithTheHost(const TensorSpec& spec) {
  return spec.name == "lexicon.weight" || absl::EndsWith(spec.name, ".recency") ||
         absl::EndsWith(spec.name, ".successor_bias") || absl::StartsWith(spec.name, "pointer.");
}

// RAT's z, v, g of all heads and q, k of the shared ones as o, q, k, v, g of all heads.
std::vector<float> WithEveryHead(const ModelConfig& config, const MixerConfig& mixer,
                                 const std::vector<float>& weights) {
  const int64_t inner = config.inner(), dim = config.head_dim, shared = mixer.shared_heads;
  std::vector<float> all;
  const auto add = [&](int64_t first_row, int64_t rows) {
    const auto begin = weights.begin() + first_row * config.d;
    all.insert(all.end(), begin, begin + rows * config.d);
  };
  add(0, inner);
  for (const int64_t first : {3 * inner, 3 * inner + shared * dim}) {
    for (int64_t head = 0; head < config.heads; ++head) add(first + head % shared * dim, dim);
  }
  add(inner, 2 * inner);
  return all;
}

// One place for each tensor in one buffer; the embedding, which is read by row and, with a tied
// head, multiplied, has two where the products are in bf16. Its rows are fp32.
class Places {
 public:
  // Borrows the config.
  Places(const ModelConfig& config, DType dtype) : dtype_(dtype) {
    for (int layer = 0; layer < config.layers(); ++layer) {
      ReserveMade(config, config.mixer(layer), absl::StrCat("layers.", layer, ".mixer."));
    }
    for (const int layer : config.adapter.gca_layers) ReserveGca(config, layer);
    for (const TensorSpec& spec : ExpectedTensors(config)) {
      if (StaysWithTheHost(spec)) continue;
      const bool rows = spec.name == kEmbed && (dtype_ == DType::kBf16 || !config.tied_head);
      if (rows) Reserve({kRows, spec.shape}, DType::kFloat32, ReadTensor(spec.name));
      if (rows && !config.tied_head) continue;
      Reserve(spec, IsMatrix(spec) ? dtype_ : DType::kFloat32, ReadTensor(spec.name));
    }
  }

  // Each shape that a matrix has, once.
  std::vector<kernels::GemmShape> Products() const {
    std::vector<kernels::GemmShape> products;
    for (const auto& [name, place] : places_) {
      if (IsMatrix(place.spec)) AddProduct(place, products);
    }
    return products;
  }

  absl::Status Upload(kernels::Device& device, const TensorFile& file, const TensorFile* adapter,
                      DeviceWeights& weights) {
    ASSIGN_OR_RETURN(weights.memory, device.Allocate(bytes_));
    base_ = static_cast<std::byte*>(weights.memory->data());
    for (const auto& [name, place] : places_) {
      ASSIGN_OR_RETURN(const std::vector<float> values,
                       place.read(place.in_adapter ? *adapter : file));
      RETURN_IF_ERROR(UploadValues(device, place, values));
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
  DeviceMixer Mixer(const std::string& layer) const {
    const std::string prefix = layer + "mixer.";
    return {.norm = Vector(layer + "mixer_norm.weight"),
            .gate_bias = Vector(prefix + "gate_bias"),
            .q_norm = Vector(prefix + "q_norm.weight"),
            .k_norm = Vector(prefix + "k_norm.weight"),
            .alibi_slopes = Vector(prefix + kSlopes),
            .swa_norm = Vector(prefix + "swa_norm.weight"),
            .rla_norm = Vector(prefix + "rla_norm.weight"),
            .q_scale = Vector(prefix + "rla.q_scale"),
            .k_scale = Vector(prefix + "rla.k_scale"),
            .initial = Vector(prefix + kInitial),
            .in_proj = Matrix(prefix + "in_proj.weight"),
            .out_proj = Matrix(prefix + "out_proj.weight")};
  }
  DeviceFfn Ffn(const std::string& prefix) const {
    return {.norm = Vector(prefix + "ffn_norm.weight"),
            .in_proj = Matrix(prefix + "ffn.in_proj.weight"),
            .out_proj = Matrix(prefix + "ffn.out_proj.weight")};
  }

  static constexpr char kEmbed[] = "embed.weight";
  static constexpr char kHead[] = "head.weight";
  static constexpr char kRows[] = "embed.weight, by row";
  static constexpr char kSlopes[] = "alibi slopes";
  static constexpr char kInitial[] = "learned sum";

 private:
  struct Place {
    int64_t at = 0;
    TensorSpec spec;
    DType dtype = DType::kFloat32;
    ReadValues read;
    bool in_adapter = false;
  };

  static ReadValues ReadTensor(const std::string& name) {
    return [name](const TensorFile& file) { return ReadFinite(file, name); };
  }

  // A name that has a place keeps it.
  void Reserve(const TensorSpec& spec, DType dtype, ReadValues read, bool in_adapter = false) {
    if (places_.contains(spec.name)) return;
    int64_t count = 1;
    for (const int64_t size : spec.shape) count *= size;
    places_[spec.name] = {bytes_, spec, dtype, std::move(read), in_adapter};
    bytes_ += RoundUp(count * kernels::BytesOf(dtype), kAlignment);
  }

  // What a mixer has that is no tensor as it stands.
  void ReserveMade(const ModelConfig& config, const MixerConfig& mixer, const std::string& prefix) {
    const int64_t dim = config.head_dim;
    if (mixer.kind == MixerKind::kRat) {
      const std::string name = prefix + "in_proj.weight";
      const auto read = [=, &config,
                         &mixer](const TensorFile& file) -> absl::StatusOr<std::vector<float>> {
        ASSIGN_OR_RETURN(const std::vector<float> weights, ReadFinite(file, name));
        return WithEveryHead(config, mixer, weights);
      };
      Reserve({name, {5 * config.inner(), config.d}}, dtype_, read);
    }
    if (mixer.positions == Positions::kAlibi) {
      Reserve({prefix + kSlopes, {config.heads}}, DType::kFloat32,
              [&config](const TensorFile&) { return AlibiSlopes(config.heads); });
    }
    if (mixer.learned_tokens > 0) {
      const auto read = [=, &config,
                         &mixer](const TensorFile& file) -> absl::StatusOr<std::vector<float>> {
        ASSIGN_OR_RETURN(const std::vector<float> keys, ReadFinite(file, prefix + "rla.init_k"));
        ASSIGN_OR_RETURN(const std::vector<float> values, ReadFinite(file, prefix + "rla.init_v"));
        return LearnedSum(config, mixer, keys, values);
      };
      Reserve({prefix + kInitial, {config.heads, 2 * dim, dim}}, DType::kFloat32, read);
    }
  }

  // The GCA of an adapter, under the names that it has in other families.
  void ReserveGca(const ModelConfig& config, int layer) {
    const std::string prefix = absl::StrCat("layers.", layer, ".gca.");
    Reserve({prefix + "norm.weight", {config.d}}, DType::kFloat32,
            ReadTensor(prefix + "query_norm.weight"), /*in_adapter=*/true);
    const std::string query = prefix + "q_proj.weight";
    Reserve({query, {config.inner(), config.d}}, dtype_, ReadTensor(query), /*in_adapter=*/true);
    Reserve(
        {prefix + "out_proj.weight", {config.d, config.inner()}}, dtype_,
        [&config, layer](const TensorFile& file) { return ReadGatedOutput(file, config, layer); },
        /*in_adapter=*/true);
  }

  absl::Status UploadValues(kernels::Device& device, const Place& place,
                            const std::vector<float>& values) const {
    std::byte* const to = base_ + place.at;
    if (place.dtype == DType::kFloat32) {
      return device.Upload(values.data(), static_cast<int64_t>(values.size() * sizeof(float)), to);
    }
    std::vector<Bf16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), Bf16::FromFloat);
    return device.Upload(rounded.data(), static_cast<int64_t>(rounded.size() * sizeof(Bf16)), to);
  }

  // What a matrix gives is added to the residual stream, or to the CLS row, or stands alone.
  static void AddProduct(const Place& place, std::vector<kernels::GemmShape>& products) {
    const std::string& name = place.spec.name;
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

  const DType dtype_;
  std::map<std::string, Place> places_;
  int64_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace

std::vector<kernels::GemmShape> DeviceProducts(const ModelConfig& config, DType dtype) {
  return Places(config, dtype).Products();
}

absl::StatusOr<DeviceWeights> LoadDeviceWeights(kernels::Device& device, const TensorFile& file,
                                                const TensorFile* adapter,
                                                const ModelConfig& config, DType dtype) {
  DeviceWeights weights;
  Places tensors(config, dtype);
  RETURN_IF_ERROR(tensors.Upload(device, file, adapter, weights));
  const bool rows = dtype == DType::kBf16 || !config.tied_head;
  weights.embed = tensors.Vector(rows ? Places::kRows : Places::kEmbed);
  weights.head = tensors.Matrix(config.tied_head ? Places::kEmbed : Places::kHead);
  for (int layer = 0; layer < config.layers(); ++layer) {
    const std::string prefix = absl::StrCat("layers.", layer, ".");
    weights.layers.push_back(
        {.mixer = tensors.Mixer(prefix),
         .gca_norm = tensors.Vector(prefix + "gca.norm.weight"),
         .gca_q_proj = tensors.Matrix(prefix + "gca.q_proj.weight"),
         .gca_out_proj = tensors.Matrix(prefix + "gca.out_proj.weight"),
         .gca_norm_eps = config.has_adapter() ? kAdapterNormEps : config.norm_eps,
         .ffn = tensors.Ffn(prefix)});
  }
  for (size_t i = 0; i < config.adapter.gca_layers.size(); ++i) {
    weights.layers[static_cast<size_t>(config.adapter.gca_layers[i])].memory_layer =
        static_cast<int>(i);
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
