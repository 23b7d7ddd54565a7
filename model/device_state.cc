#include "model/device_state.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/status.h"
#include "model/state_bytes.h"

namespace recollect::model {

using kernels::Device;
using kernels::DeviceCopy;

namespace {

// What a device keeps, as floats at the end of `out`.
absl::Status DownloadFloats(Device& device, const StoredNumbers& from, std::string& out) {
  std::vector<float> floats(static_cast<size_t>(from.count));
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

DeviceCache::DeviceCache(const LocalPattern& pattern, int first_head, int heads, int head_dim,
                         DType dtype)
    : index_(pattern),
      firsts_(index_.FirstsReachable(0)),
      first_head_(first_head),
      heads_(heads),
      head_dim_(head_dim),
      dtype_(dtype),
      step_(dtype == DType::kBf16 ? kernels::kSplitTileEntries : 1),
      entry_bytes_(int64_t{heads} * head_dim * kernels::BytesOf(dtype)) {}

std::byte* DeviceCache::KeysOf(const Part& part, int64_t entry) const {
  if (part.memory == nullptr) return nullptr;
  return static_cast<std::byte*>(part.memory->data()) + entry * entry_bytes_;
}

std::byte* DeviceCache::ValuesOf(const Part& part, int64_t entry) const {
  return part.memory == nullptr ? nullptr : KeysOf(part, part.capacity + entry);
}

absl::Status DeviceCache::Resize(Device& device, Part& part, int64_t capacity) const {
  ASSIGN_OR_RETURN(part.memory, device.Allocate(2 * capacity * entry_bytes_));
  part.capacity = capacity;
  return absl::OkStatus();
}

int64_t DeviceCache::Droppable(CacheIndex::Part part, int64_t position) const {
  return (index_.FirstReachable(part, position) - firsts_[part]) / step_ * step_;
}

absl::Status DeviceCache::Reserve(Device& device, int64_t rows, CacheCopies& copies) {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    int64_t coming = 0;
    for (int64_t row = 0; row < rows; ++row) coming += index_.Holds(index, length_ + row) ? 1 : 0;
    if (part.entries + coming <= part.capacity) continue;
    const int64_t dropped = Droppable(index, length_);
    const int64_t kept = part.entries - dropped;
    const Part before = part;
    // What moves down within its own memory must not overlap where it goes. Memory of twice what
    // is kept, or lives, in whole steps, makes moves as rare as positions that come in are many.
    if (kept + coming > part.capacity || kept > dropped) {
      const int64_t living =
          part.entries - (index_.FirstReachable(index, length_) - firsts_[index]);
      const int64_t in_steps = (living + step_ - 1) / step_ * step_;
      RETURN_IF_ERROR(Resize(device, part, std::max(2 * std::min(kept, in_steps), kept + coming)));
      if (before.memory != nullptr) copies.left.push_back(before.memory);
    }
    if (kept > 0) {
      const int64_t bytes = kept * entry_bytes_;
      copies.moves.push_back({KeysOf(before, dropped), KeysOf(part, 0), bytes});
      copies.moves.push_back({ValuesOf(before, dropped), ValuesOf(part, 0), bytes});
    }
    part.entries = kept;
    firsts_[index] += dropped;
  }
  return absl::OkStatus();
}

void DeviceCache::Append(const void* keys, const void* values, int64_t rows, int64_t stride,
                         std::vector<DeviceCopy>& appends) {
  const int64_t number_bytes = kernels::BytesOf(dtype_);
  const int64_t at = int64_t{first_head_} * head_dim_ * number_bytes;
  const auto* key = static_cast<const std::byte*>(keys) + at;
  const auto* value = static_cast<const std::byte*>(values) + at;
  for (int64_t row = 0; row < rows; ++row, ++length_) {
    for (const CacheIndex::Part index : CacheIndex::kParts) {
      if (!index_.Holds(index, length_)) continue;
      Part& part = parts_[index];
      RECOLLECT_DCHECK(part.entries < part.capacity);
      appends.push_back({key, KeysOf(part, part.entries), entry_bytes_});
      appends.push_back({value, ValuesOf(part, part.entries), entry_bytes_});
      ++part.entries;
    }
    key += stride * number_bytes;
    value += stride * number_bytes;
  }
}

CacheParts DeviceCache::parts() const {
  CacheParts parts;
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    parts[index] = {KeysOf(parts_[index], 0), ValuesOf(parts_[index], 0)};
  }
  return parts;
}

int64_t DeviceCache::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts_) total += part.memory == nullptr ? 0 : part.memory->bytes();
  return total;
}

void DeviceCache::AddStored(std::vector<StoredNumbers>& stored) const {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    const Part& part = parts_[index];
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    const int64_t living = std::max<int64_t>(part.entries - dead, 0);
    if (living == 0) continue;
    const int64_t numbers = living * heads_ * head_dim_;
    stored.push_back({KeysOf(part, dead), numbers, dtype_});
    stored.push_back({ValuesOf(part, dead), numbers, dtype_});
  }
}

absl::Status DeviceCache::Restore(Device& device, int64_t length) {
  RECOLLECT_CHECK(length_ == 0);
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    firsts_[index] += Droppable(index, length);
    part.entries = std::max<int64_t>(index_.EndIndex(index, length) - firsts_[index], 0);
    if (part.entries > 0) RETURN_IF_ERROR(Resize(device, part, 2 * part.entries));
  }
  length_ = length;
  return absl::OkStatus();
}

DeviceLayerState::DeviceLayerState(const HeadPatterns& patterns, int heads, int head_dim,
                                   DType dtype) {
  for (const HeadRun& run : RunsOfHeads(patterns, heads)) {
    caches.emplace_back(run.pattern, run.first, run.heads, head_dim, dtype);
  }
}

DeviceState::DeviceState(const ModelConfig& config, const LocalPatterns& pattern, int layers,
                         DType dtype)
    : pattern_(pattern), rope_base_(config.RopeBase(pattern.context())), width_(config.inner()) {
  RECOLLECT_CHECK(pattern.blocks().count == 0);
  for (int i = 0; i < layers; ++i) {
    layers_.emplace_back(pattern.layer(i), config.heads, config.head_dim, dtype);
  }
}

absl::Status DeviceState::Begin(Device& device) {
  const int64_t bytes = 2 * width_ * int64_t{sizeof(float)};
  for (DeviceLayerState& layer : layers_) {
    if (layer.recurrence != nullptr) continue;
    ASSIGN_OR_RETURN(layer.recurrence, device.Allocate(bytes));
    RETURN_IF_ERROR(device.Zero(layer.recurrence->data(), bytes));
  }
  return absl::OkStatus();
}

int64_t DeviceState::bytes() const {
  int64_t total = 0;
  for (const DeviceLayerState& layer : layers_) {
    total += layer.recurrence == nullptr ? 0 : layer.recurrence->bytes();
    for (const DeviceCache& cache : layer.caches) total += cache.bytes();
  }
  return total;
}

std::vector<StoredNumbers> DeviceState::Stored(size_t layer) const {
  std::vector<StoredNumbers> stored = {{layers_[layer].key_recurrence(), 2 * width_}};
  for (const DeviceCache& cache : layers_[layer].caches) cache.AddStored(stored);
  return stored;
}

absl::StatusOr<LocalState> DeviceState::Download(Device& device, const ModelConfig& config) const {
  LocalState state = LocalState::Create(config, pattern_, static_cast<int>(layers_.size()));
  if (length() == 0) return state;
  for (size_t i = 0; i < layers_.size(); ++i) {
    std::string bytes;
    Put(bytes, length());
    for (const StoredNumbers& part : Stored(i)) {
      RETURN_IF_ERROR(DownloadFloats(device, part, bytes));
    }
    std::string_view in = bytes;
    RETURN_IF_ERROR(state.layers[i].Deserialize(in));
    RECOLLECT_CHECK(in.empty());
  }
  return state;
}

absl::Status DeviceState::Upload(Device& device, const LocalState& state) {
  RECOLLECT_CHECK(length() == 0 && state.pattern == pattern_ &&
                  state.layers.size() == layers_.size());
  RETURN_IF_ERROR(Begin(device));
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (DeviceCache& cache : layers_[i].caches) {
      RETURN_IF_ERROR(cache.Restore(device, state.length()));
    }
    std::string bytes;
    state.layers[i].Serialize(bytes);
    std::string_view in = bytes;
    in.remove_prefix(sizeof(int64_t));  // the length
    for (const StoredNumbers& part : Stored(i)) RETURN_IF_ERROR(UploadFloats(device, in, part));
    RECOLLECT_CHECK(in.empty());
  }
  return absl::OkStatus();
}

}  // namespace recollect::model
