#include "model/device/device_weights.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/numeric/bf16.h"
#include "base/numeric/round_up.h"
#include "base/status.h"
#include "model/weights/adapter_weights.h"
#include "model/weights/weights_list.h"

namespace recollect::model {
namespace {

constexpr int64_t kAlignment = 256;

// What goes up under a name: a tensor, or what is made of tensors.
using ReadValues = std::function<absl::StatusOr<std::vector<float>>(const TensorFile&)>;

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

// A reader of weights_list.h that gives each tensor a place in one buffer. The rows of the
// embedding are fp32; with a tied head they are multiplied, too, from a place of their own where
// products are in bf16. Borrows the weights until Upload has filled them.
class Places {
 public:
  using Shape = std::vector<int64_t>;

  Places(const ModelConfig& config, DType dtype, DeviceWeights& weights) : dtype_(dtype) {
    AddTensors(*this, config, weights);
    for (size_t i = 0; i < config.adapter.gca_layers.size(); ++i) {
      const int layer = config.adapter.gca_layers[i];
      DeviceGca& gca = weights.layers[static_cast<size_t>(layer)].gca.emplace();
      gca.norm_eps = kAdapterNormEps;
      gca.memory_layer = static_cast<int>(i);
      AddAdapter(config, layer, gca);
    }
  }

  // The host has these: parts of retrieval (lexicon.h), the pointer (pointer.h), and what vectors
  // are made of.
  void Elsewhere(const std::string& /*name*/, const Shape& /*shape*/) {}

  void Vector(const std::string& name, const Shape& shape, const float*& out) {
    MadeVector(Count(shape), ReadTensor(name), out);
  }
  void Rows(const std::string& name, const Shape& shape, const float*& out) {
    Vector(name, shape, out);
    rows_shape_ = shape;
  }
  template <typename Make>
  void MadeVector(int64_t count, const Make& make, const float*& out) {
    Reserve(count, DType::kFloat32, make,
            [&out](const std::byte* at) { out = reinterpret_cast<const float*>(at); });
  }
  void Matrix(const std::string& name, const Shape& shape, DeviceMatrix& out) {
    MadeMatrix(name, shape, ReadTensor(name), out);
  }
  // A head that is tied to the embedding, whose rows were the last tensor.
  void Pack(const std::string& name, DeviceMatrix& out) {
    if (dtype_ == DType::kBf16) return Matrix(name, rows_shape_, out);
    AddProduct(name, rows_shape_);
    places_.back().puts.emplace_back(
        [&out, n = rows_shape_[0], k = rows_shape_[1]](const std::byte* at) {
          out = {at, n, k};
        });
  }
  void MixerInput(const std::string& name, const ModelConfig& config, const MixerConfig& mixer,
                  DeviceMatrix& out) {
    if (mixer.kind != MixerKind::kRat) {
      return Matrix(name, {MixerInputRows(config, mixer), config.d}, out);
    }
    const auto read = [=, &config,
                       &mixer](const TensorFile& file) -> absl::StatusOr<std::vector<float>> {
      ASSIGN_OR_RETURN(const std::vector<float> weights, ReadFinite(file, name));
      return WithEveryHead(config, mixer, weights);
    };
    MadeMatrix(name, {5 * config.inner(), config.d}, read, out);
  }

  // Each shape that a matrix has, once.
  const std::vector<kernels::GemmShape>& products() const { return products_; }

  absl::Status Upload(kernels::Device& device, const TensorFile& file, const TensorFile* adapter,
                      DeviceWeights& weights) {
    ASSIGN_OR_RETURN(weights.owner, device.Allocate(bytes_));
    base_ = static_cast<std::byte*>(weights.owner->data());
    for (const Place& place : places_) {
      ASSIGN_OR_RETURN(const std::vector<float> values,
                       place.read(place.in_adapter ? *adapter : file));
      RETURN_IF_ERROR(UploadValues(device, place, values));
      for (const auto& put : place.puts) put(base_ + place.at);
    }
    return absl::OkStatus();
  }

 private:
  using Put = std::function<void(const std::byte*)>;
  struct Place {
    int64_t at = 0;
    DType dtype = DType::kFloat32;
    ReadValues read;
    std::vector<Put> puts;  // the address into the weights
    bool in_adapter = false;
  };

  static ReadValues ReadTensor(const std::string& name) {
    return [name](const TensorFile& file) { return ReadFinite(file, name); };
  }
  static int64_t Count(const Shape& shape) {
    return std::reduce(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
  }

  void Reserve(int64_t count, DType dtype, ReadValues read, Put put) {
    places_.push_back({bytes_, dtype, std::move(read), {std::move(put)}, in_adapter_});
    bytes_ += RoundUp(count * kernels::BytesOf(dtype), kAlignment);
  }

  void MadeMatrix(const std::string& name, const Shape& shape, ReadValues read, DeviceMatrix& out) {
    AddProduct(name, shape);
    Reserve(Count(shape), dtype_, std::move(read),
            [&out, n = shape[0], k = shape[1]](const std::byte* at) {
              out = {at, n, k};
            });
  }

  // The GCA of an adapter.
  void AddAdapter(const ModelConfig& config, int layer, DeviceGca& gca) {
    in_adapter_ = true;
    const std::string prefix = absl::StrCat("layers.", layer, ".gca.");
    Vector(prefix + "query_norm.weight", {config.d}, gca.norm);
    Matrix(prefix + "q_proj.weight", {config.inner(), config.d}, gca.q_proj);
    const auto read = [&config, layer](const TensorFile& file) {
      return ReadGatedOutput(file, config, layer);
    };
    MadeMatrix(prefix + "out_proj.weight", {config.d, config.inner()}, read, gca.out_proj);
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
  void AddProduct(const std::string& name, const Shape& shape) {
    const kernels::GemmShape product = {.n = shape[0],
                                        .k = shape[1],
                                        .in = dtype_,
                                        .add = absl::EndsWith(name, "out_proj.weight") ||
                                               absl::EndsWith(name, "carry_proj.weight")};
    const auto same = [&](const kernels::GemmShape& other) {
      return other.n == product.n && other.k == product.k && other.add == product.add;
    };
    if (std::ranges::none_of(products_, same)) products_.push_back(product);
  }

  const DType dtype_;
  bool in_adapter_ = false;
  std::vector<Place> places_;
  std::vector<kernels::GemmShape> products_;
  Shape rows_shape_;  // of the embedding
  int64_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace

std::vector<kernels::GemmShape> DeviceProducts(const ModelConfig& config, DType dtype) {
  DeviceWeights none;
  return Places(config, dtype, none).products();
}

absl::StatusOr<DeviceWeights> LoadDeviceWeights(kernels::Device& device, const TensorFile& file,
                                                const TensorFile* adapter,
                                                const ModelConfig& config, DType dtype) {
  DeviceWeights weights;
  RETURN_IF_ERROR(Places(config, dtype, weights).Upload(device, file, adapter, weights));
  return weights;
}

}  // namespace recollect::model
