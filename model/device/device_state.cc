#include "model/device/device_state.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/status.h"
#include "model/state/state_bytes.h"

namespace recollect::model {

using kernels::Device;

namespace {

// What a device keeps, as floats at the end of `out`.
absl::Status DownloadFloats(Device& device, const StoredNumbers& from, std::string& out) {
  std::vector<float> floats(static_cast<size_t>(from.count));
  if (from.data == nullptr) {  // nothing has run: zeros
    PutFloats(out, floats.data(), floats.size());
    return absl::OkStatus();
  }
  const int64_t bytes = from.count * kernels::BytesOf(from.dtype);
  if (from.dtype == DType::kFloat32) {
    RETURN_IF_ERROR(device.Download(from.data, bytes, floats.data()));
  } else {
    std::vector<Bf16> narrow(floats.size());
    RETURN_IF_ERROR(device.Download(from.data, bytes, narrow.data()));
    std::transform(narrow.begin(), narrow.end(), floats.begin(),
                   [](Bf16 number) { return number.ToFloat(); });
  }
  PutFloats(out, floats.data(), floats.size());
  return absl::OkStatus();
}

// The floats at the beginning of `in` to where a device keeps them.
absl::Status UploadFloats(Device& device, std::string_view& in, const StoredNumbers& to) {
  std::vector<float> floats;
  RECOLLECT_CHECK(GetFloats(in, floats, static_cast<size_t>(to.count)));
  const int64_t bytes = to.count * kernels::BytesOf(to.dtype);
  if (to.dtype == DType::kFloat32) return device.Upload(floats.data(), bytes, to.data);
  std::vector<Bf16> narrow(floats.size());
  std::transform(floats.begin(), floats.end(), narrow.begin(), &Bf16::FromFloat);
  return device.Upload(narrow.data(), bytes, to.data);
}

}  // namespace

DeviceLayerState::DeviceLayerState(const ModelConfig& config, const LocalPatterns& pattern,
                                   int layer, DType dtype) {
  const MixerConfig& mixer = config.mixer(layer);
  const bool gated = IsGated(mixer.kind);
  const int heads = gated ? config.heads : config.kv_heads;
  if (mixer.kind == MixerKind::kRattention) {
    residual = true;
    caches.emplace_back(LocalPattern{.window = mixer.window, .dilation = kNoDilation}, 0, heads,
                        config.head_dim, DType::kFloat32, mixer.window >= 0 ? 3 : 2, /*more=*/1);
    carried_numbers = int64_t{2} * heads * config.head_dim * config.head_dim;
    return;
  }
  if (gated) carried_numbers = 2 * config.inner();
  if (pattern.blocks().count > 0) {
    caches.emplace_back(LocalPattern{.window = kUnboundedSpan, .dilation = kNoDilation}, 0, heads,
                        config.head_dim, DType::kFloat32);
    blocks.emplace(pattern.layer(layer), int64_t{heads} * config.head_dim, pattern.blocks());
    return;
  }
  // Tile attention knows neither ALiBi's bias nor entries that a query has chosen.
  cached = mixer.positions == Positions::kAlibi ? DType::kFloat32 : dtype;
  for (const HeadRun& run : RunsOfHeads(pattern.layer(layer), heads)) {
    caches.emplace_back(run.pattern, run.first, run.heads, config.head_dim, cached);
  }
}

absl::Status DeviceLayerState::Reserve(Device& device, int64_t rows, CacheCopies& copies) {
  for (DeviceCache& cache : caches) RETURN_IF_ERROR(cache.Reserve(device, rows, copies));
  return blocks ? blocks->Reserve(device, caches.front(), rows, copies) : absl::OkStatus();
}

void DeviceLayerState::Append(const void* keys, const void* values, int64_t rows, int64_t stride,
                              CacheCopies& copies) {
  const ComingRows placed{keys, &copies.appends}, all_values{values, &copies.appends};
  std::vector<ComingRows> planes;
  if (!residual || caches.front().planes() > 2) planes.push_back(placed);
  if (residual) planes.push_back({keys, &copies.raw});
  planes.push_back(all_values);
  for (DeviceCache& cache : caches) cache.Append(planes, rows, stride);
  if (blocks) blocks->Append(caches.front(), rows, copies);
}

bool DeviceLayerState::CanRewind(int64_t rewound) const {
  if (residual || blocks || carried_numbers > 0) return false;
  return rewound >= 0 && rewound <= length() &&
         std::ranges::all_of(caches, [&](const auto& cache) { return cache.CanRewind(rewound); });
}

void DeviceLayerState::Rewind(int64_t rewound) {
  for (DeviceCache& cache : caches) cache.Rewind(rewound);
}

int64_t DeviceLayerState::bytes() const {
  int64_t total = carried == nullptr ? 0 : carried->bytes();
  for (const DeviceCache& cache : caches) total += cache.bytes();
  if (blocks) total += blocks->bytes();
  return total;
}

std::vector<StoredNumbers> DeviceLayerState::Stored() const {
  std::vector<StoredNumbers> stored;
  const StoredNumbers of_carried{carried == nullptr ? nullptr : carried->data(), carried_numbers};
  if (carried_numbers > 0 && !residual) stored.push_back(of_carried);
  for (const DeviceCache& cache : caches) cache.AddStored(stored);
  if (residual) stored.push_back(of_carried);
  return stored;
}

absl::Status DeviceLayerState::Restore(Device& device, int64_t length) {
  for (DeviceCache& cache : caches) RETURN_IF_ERROR(cache.Restore(device, length));
  return blocks ? blocks->Restore(device, length) : absl::OkStatus();
}

DeviceState::DeviceState(const ModelConfig& config, const LocalPatterns& pattern, int layers,
                         DType dtype)
    : pattern_(pattern), rope_base_(config.RopeBase(pattern.context())) {
  for (int i = 0; i < layers; ++i) layers_.emplace_back(config, pattern, i, dtype);
}

absl::Status DeviceState::Begin(Device& device) {
  for (DeviceLayerState& layer : layers_) {
    if (layer.carried_numbers == 0 || layer.carried != nullptr) continue;
    const int64_t bytes = layer.carried_numbers * int64_t{sizeof(float)};
    ASSIGN_OR_RETURN(layer.carried, device.Allocate(bytes));
    RETURN_IF_ERROR(device.Run(kernels::ZeroOp{layer.carried->data(), bytes}));
  }
  return absl::OkStatus();
}

bool DeviceState::Rewind(int64_t length) {
  if (!std::ranges::all_of(layers_, [&](const auto& layer) { return layer.CanRewind(length); })) {
    return false;
  }
  for (DeviceLayerState& layer : layers_) layer.Rewind(length);
  return true;
}

int64_t DeviceState::bytes() const {
  int64_t total = 0;
  for (const DeviceLayerState& layer : layers_) total += layer.bytes();
  return total;
}

absl::StatusOr<std::string> DeviceState::SerializeLayer(Device& device, int layer) const {
  const DeviceLayerState& state = layers_[static_cast<size_t>(layer)];
  std::string bytes;
  Put(bytes, state.length());
  for (const StoredNumbers& part : state.Stored()) {
    RETURN_IF_ERROR(DownloadFloats(device, part, bytes));
  }
  return bytes;
}

absl::Status DeviceState::Begin(Device& device, const LocalState& state) {
  RECOLLECT_CHECK(length() == 0 && state.pattern == pattern_ &&
                  state.layers.size() == layers_.size());
  RETURN_IF_ERROR(Begin(device));
  for (size_t i = 0; i < layers_.size(); ++i) {
    RETURN_IF_ERROR(layers_[i].Restore(device, state.length()));
    std::string bytes;
    state.layers[i].Serialize(bytes);
    std::string_view in = bytes;
    in.remove_prefix(sizeof(int64_t));  // the length
    for (const StoredNumbers& part : layers_[i].Stored()) {
      RETURN_IF_ERROR(UploadFloats(device, in, part));
    }
    RECOLLECT_CHECK(in.empty());
    if (const auto& blocks = layers_[i].blocks) {
      RETURN_IF_ERROR(blocks->SumUpRestored(device, layers_[i].caches.front()));
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::model
