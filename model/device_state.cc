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

DeviceCache::DeviceCache(const LocalPattern& pattern, int first_head, int heads, int head_dim)
    : index_(pattern),
      firsts_(index_.FirstsReachable(0)),
      first_head_(first_head),
      heads_(heads),
      head_dim_(head_dim),
      width_(static_cast<int64_t>(heads) * head_dim) {}

float* DeviceCache::KeysOf(const Part& part, int64_t entry) const {
  if (part.memory == nullptr) return nullptr;
  return static_cast<float*>(part.memory->data()) + entry * width_;
}

float* DeviceCache::ValuesOf(const Part& part, int64_t entry) const {
  return part.memory == nullptr ? nullptr : KeysOf(part, part.capacity + entry);
}

absl::Status DeviceCache::Resize(Device& device, Part& part, int64_t capacity) const {
  ASSIGN_OR_RETURN(part.memory, device.Allocate(2 * capacity * width_ * int64_t{sizeof(float)}));
  part.capacity = capacity;
  return absl::OkStatus();
}

absl::Status DeviceCache::Reserve(Device& device, int64_t rows, CacheCopies& copies) {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    int64_t coming = 0;
    for (int64_t row = 0; row < rows; ++row) coming += index_.Holds(index, length_ + row) ? 1 : 0;
    if (part.entries + coming <= part.capacity) continue;
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    const int64_t living = part.entries - dead;
    const Part before = part;
    // What moves down within its own memory must not overlap where it goes. Memory of twice what
    // lives makes moves as rare as positions that come in are many.
    if (living + coming > part.capacity || living > dead) {
      RETURN_IF_ERROR(Resize(device, part, 2 * living + coming));
      if (before.memory != nullptr) copies.left.push_back(before.memory);
    }
    if (living > 0) {
      const int64_t bytes = living * width_ * int64_t{sizeof(float)};
      copies.moves.push_back({KeysOf(before, dead), KeysOf(part, 0), bytes});
      copies.moves.push_back({ValuesOf(before, dead), ValuesOf(part, 0), bytes});
    }
    part.entries = living;
    firsts_[index] += dead;
  }
  return absl::OkStatus();
}

void DeviceCache::Append(const float* keys, const float* values, int64_t rows, int64_t stride,
                         std::vector<DeviceCopy>& appends) {
  const int64_t at = static_cast<int64_t>(first_head_) * head_dim_;
  const int64_t bytes = width_ * int64_t{sizeof(float)};
  for (int64_t row = 0; row < rows; ++row, ++length_) {
    for (const CacheIndex::Part index : CacheIndex::kParts) {
      if (!index_.Holds(index, length_)) continue;
      Part& part = parts_[index];
      RECOLLECT_DCHECK(part.entries < part.capacity);
      appends.push_back({keys + row * stride + at, KeysOf(part, part.entries), bytes});
      appends.push_back({values + row * stride + at, ValuesOf(part, part.entries), bytes});
      ++part.entries;
    }
  }
}

std::array<kernels::KvSpan, kernels::kMaxRanges> DeviceCache::parts() const {
  std::array<kernels::KvSpan, kernels::kMaxRanges> spans;
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    spans[index] = {KeysOf(parts_[index], 0), ValuesOf(parts_[index], 0)};
  }
  return spans;
}

int64_t DeviceCache::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts_) total += part.memory == nullptr ? 0 : part.memory->bytes();
  return total;
}

void DeviceCache::AddStored(std::vector<std::span<float>>& stored) const {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    const Part& part = parts_[index];
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    const int64_t living = std::max<int64_t>(part.entries - dead, 0);
    if (living == 0) continue;
    const auto floats = static_cast<size_t>(living * width_);
    stored.emplace_back(KeysOf(part, dead), floats);
    stored.emplace_back(ValuesOf(part, dead), floats);
  }
}

absl::Status DeviceCache::Restore(Device& device, int64_t length) {
  RECOLLECT_CHECK(length_ == 0);
  length_ = length;
  firsts_ = index_.FirstsReachable(length);
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    part.entries = std::max<int64_t>(index_.EndIndex(index, length) - firsts_[index], 0);
    if (part.entries > 0) RETURN_IF_ERROR(Resize(device, part, 2 * part.entries));
  }
  return absl::OkStatus();
}

DeviceLayerState::DeviceLayerState(const HeadPatterns& patterns, int heads, int head_dim) {
  for (const HeadRun& run : RunsOfHeads(patterns, heads)) {
    caches.emplace_back(run.pattern, run.first, run.heads, head_dim);
  }
}

DeviceState::DeviceState(const ModelConfig& config, const LocalPatterns& pattern, int layers)
    : pattern_(pattern), rope_base_(config.RopeBase(pattern.context())), width_(config.inner()) {
  RECOLLECT_CHECK(pattern.blocks().count == 0);
  for (int i = 0; i < layers; ++i) {
    layers_.emplace_back(pattern.layer(i), config.heads, config.head_dim);
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

std::vector<std::span<float>> DeviceState::Stored(size_t layer) const {
  std::vector<std::span<float>> stored = {
      {layers_[layer].key_recurrence(), static_cast<size_t>(2 * width_)}};
  for (const DeviceCache& cache : layers_[layer].caches) cache.AddStored(stored);
  return stored;
}

absl::StatusOr<LocalState> DeviceState::Download(Device& device, const ModelConfig& config) const {
  LocalState state = LocalState::Create(config, pattern_, static_cast<int>(layers_.size()));
  if (length() == 0) return state;
  for (size_t i = 0; i < layers_.size(); ++i) {
    std::string bytes;
    Put(bytes, length());
    for (const std::span<float> part : Stored(i)) {
      const size_t at = bytes.size();
      bytes.resize(at + part.size_bytes());
      RETURN_IF_ERROR(
          device.Download(part.data(), static_cast<int64_t>(part.size_bytes()), bytes.data() + at));
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
    size_t at = sizeof(int64_t);  // the length
    for (const std::span<float> part : Stored(i)) {
      RECOLLECT_CHECK(at + part.size_bytes() <= bytes.size());
      RETURN_IF_ERROR(
          device.Upload(bytes.data() + at, static_cast<int64_t>(part.size_bytes()), part.data()));
      at += part.size_bytes();
    }
    RECOLLECT_CHECK(at == bytes.size());
  }
  return absl::OkStatus();
}

}  // namespace recollect::model
