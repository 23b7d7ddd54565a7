#include "model/local_state.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/status.h"

namespace recollect::model {
namespace {

static_assert(std::endian::native == std::endian::little, "stored states are little-endian");

constexpr uint32_t kMagic = 0x31534c52;  // "RLS1": the number is the version of the layout

template <typename T>
void Put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void PutFloats(std::string& out, const float* values, size_t count) {
  out.append(reinterpret_cast<const char*>(values), count * sizeof(float));
}

template <typename T>
bool Get(std::string_view& in, T& value) {
  if (in.size() < sizeof(T)) return false;
  std::memcpy(&value, in.data(), sizeof(T));
  in.remove_prefix(sizeof(T));
  return true;
}

bool GetFloats(std::string_view& in, std::vector<float>& values, size_t count) {
  if (in.size() / sizeof(float) < count) return false;
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), in.data(), count * sizeof(float));
  in.remove_prefix(count * sizeof(float));
  return true;
}

std::string PatternText(const LocalPattern& pattern) {
  return absl::StrCat("(window ", pattern.window, ", dilation ", pattern.dilation, ", initial ",
                      pattern.initial, ", span ", pattern.span, ")");
}

}  // namespace

LayerState::LayerState(const LocalPattern& pattern, int heads, int head_dim)
    : pattern_(pattern),
      width_(static_cast<int64_t>(heads) * head_dim),
      key_recurrence_(static_cast<size_t>(width_)),
      value_recurrence_(static_cast<size_t>(width_)) {
  for (const PartIndex part : {kInitial, kDilated, kWindow}) {
    parts_[part].first = FirstReachable(part, 0);
  }
}

// Entry i of the dilated part is position (i + 1) * D - 1, so that x / D of its entries lie before
// position x.
int64_t LayerState::FirstReachable(PartIndex part, int64_t position) const {
  switch (part) {
    case kInitial:
      return 0;
    case kDilated:
      return std::max(position - pattern_.span, pattern_.initial) / pattern_.dilation;
    case kWindow:
      return std::max(position - pattern_.window, pattern_.initial);
  }
  return 0;
}

int64_t LayerState::EndIndex(PartIndex part, int64_t length) const {
  switch (part) {
    case kInitial:
      return std::min(length, pattern_.initial);
    case kDilated:
      return std::max(length, pattern_.initial) / pattern_.dilation;
    case kWindow:
      return std::max(length, pattern_.initial);
  }
  return 0;
}

void LayerState::Append(const float* keys, const float* values, int64_t rows, int64_t stride) {
  if (stride == 0) stride = width_;
  Evict();
  const auto add = [&](PartIndex part, int64_t row) {
    const float* key = keys + row * stride;
    const float* value = values + row * stride;
    parts_[part].keys.insert(parts_[part].keys.end(), key, key + width_);
    parts_[part].values.insert(parts_[part].values.end(), value, value + width_);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = length_++;
    if (position < pattern_.initial) {
      add(kInitial, row);
      continue;
    }
    add(kWindow, row);
    if ((position + 1) % pattern_.dilation == 0) add(kDilated, row);
  }
}

// Called before new rows come in: they need what the next position can reach, and nobody asks for
// older rows any more.
void LayerState::Evict() {
  for (const PartIndex index : {kDilated, kWindow}) {
    Part& part = parts_[index];
    const int64_t kept = static_cast<int64_t>(part.keys.size()) / width_;
    const int64_t dead = FirstReachable(index, length_) - part.first;
    // Moving the living down costs as much as they are many; waiting until half as many have died
    // makes that a constant cost per append, for half as much memory again.
    if (dead == 0 || dead * 3 < kept) continue;
    part.keys.erase(part.keys.begin(), part.keys.begin() + dead * width_);
    part.values.erase(part.values.begin(), part.values.begin() + dead * width_);
    part.first += dead;
  }
}

kernels::RangeSet LayerState::Ranges(int64_t position) const {
  RECOLLECT_DCHECK(position >= 0 && position < length_);
  const int64_t window_begin = FirstReachable(kWindow, position);
  const int64_t dilated_begin = FirstReachable(kDilated, position);
  // Not before its begin: position - W may lie before the initial part's end.
  const int64_t dilated_end =
      std::max(dilated_begin, std::max<int64_t>(position - pattern_.window, 0) / pattern_.dilation);
  const int64_t window_end = std::max(position + 1, window_begin);
  kernels::RangeSet set;
  set.ranges[kInitial] = {0, std::min(position + 1, pattern_.initial)};
  set.ranges[kDilated] = {dilated_begin - parts_[kDilated].first,
                          dilated_end - parts_[kDilated].first};
  set.ranges[kWindow] = {window_begin - parts_[kWindow].first, window_end - parts_[kWindow].first};
  RECOLLECT_DCHECK(set.ranges[kDilated].begin >= 0 && set.ranges[kWindow].begin >= 0);
  return set;
}

std::array<kernels::KvSpan, kernels::kMaxRanges> LayerState::parts() const {
  std::array<kernels::KvSpan, kernels::kMaxRanges> spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i] = {parts_[i].keys.data(), parts_[i].values.data()};
  }
  return spans;
}

int64_t LayerState::bytes() const {
  size_t floats = key_recurrence_.capacity() + value_recurrence_.capacity();
  for (const Part& part : parts_) floats += part.keys.capacity() + part.values.capacity();
  return static_cast<int64_t>(floats * sizeof(float));
}

// length, the two recurrence vectors, then per part the keys and the values. How many entries a
// part has follows from the pattern and the length, and only those the next position can reach are
// written, so the bytes depend on the sequence alone.
void LayerState::Serialize(std::string& out) const {
  Put(out, length_);
  PutFloats(out, key_recurrence_.data(), key_recurrence_.size());
  PutFloats(out, value_recurrence_.data(), value_recurrence_.size());
  for (const PartIndex index : {kInitial, kDilated, kWindow}) {
    const Part& part = parts_[index];
    const size_t from = static_cast<size_t>((FirstReachable(index, length_) - part.first) * width_);
    PutFloats(out, part.keys.data() + from, part.keys.size() - from);
    PutFloats(out, part.values.data() + from, part.values.size() - from);
  }
}

absl::Status LayerState::Deserialize(std::string_view& in) {
  const absl::Status malformed = absl::DataLossError("stored local state is malformed");
  const size_t width = static_cast<size_t>(width_);
  int64_t length = 0;
  if (!Get(in, length) || length < 0 || !GetFloats(in, key_recurrence_, width) ||
      !GetFloats(in, value_recurrence_, width)) {
    return malformed;
  }
  length_ = length;
  for (const PartIndex index : {kInitial, kDilated, kWindow}) {
    Part& part = parts_[index];
    part.first = FirstReachable(index, length_);
    const int64_t entries = std::max<int64_t>(EndIndex(index, length_) - part.first, 0);
    if (entries > static_cast<int64_t>(in.size()) / width_) return malformed;
    const size_t floats = static_cast<size_t>(entries) * width;
    if (!GetFloats(in, part.keys, floats) || !GetFloats(in, part.values, floats)) return malformed;
  }
  return absl::OkStatus();
}

LocalState LocalState::Create(const ModelConfig& config, const LocalPattern& pattern, int layers) {
  LocalState state;
  state.pattern = pattern;
  state.layers.reserve(static_cast<size_t>(layers));
  for (int i = 0; i < layers; ++i) {
    state.layers.emplace_back(pattern, config.heads, config.head_dim);
  }
  return state;
}

int64_t LocalState::bytes() const {
  int64_t total = 0;
  for (const LayerState& layer : layers) total += layer.bytes();
  return total;
}

std::string LocalState::Serialize() const {
  std::string out;
  Put(out, kMagic);
  Put(out, pattern.window);
  Put(out, pattern.dilation);
  Put(out, pattern.initial);
  Put(out, pattern.span);
  Put(out, static_cast<uint32_t>(layers.size()));
  for (const LayerState& layer : layers) layer.Serialize(out);
  return out;
}

absl::StatusOr<LocalState> LocalState::Deserialize(const ModelConfig& config,
                                                   const LocalPattern& pattern, int layers,
                                                   std::string_view bytes) {
  uint32_t magic = 0;
  uint32_t count = 0;
  LocalPattern stored;
  if (!Get(bytes, magic) || magic != kMagic) {
    return absl::DataLossError("stored local state has no or another version's header");
  }
  if (!Get(bytes, stored.window) || !Get(bytes, stored.dilation) || !Get(bytes, stored.initial) ||
      !Get(bytes, stored.span) || !Get(bytes, count)) {
    return absl::DataLossError("stored local state is malformed");
  }
  if (!(stored == pattern)) {
    return absl::FailedPreconditionError(
        absl::StrCat("local state was made under the pattern ", PatternText(stored),
                     ", asked to continue under ", PatternText(pattern)));
  }
  if (count != static_cast<uint32_t>(layers)) {
    return absl::DataLossError(
        absl::StrCat("stored local state has ", count, " layers, expected ", layers));
  }
  LocalState state = Create(config, pattern, layers);
  for (LayerState& layer : state.layers) {
    RETURN_IF_ERROR(layer.Deserialize(bytes));
    if (layer.length() != state.length()) {
      return absl::DataLossError(absl::StrCat("stored local state has layers of ", state.length(),
                                              " and ", layer.length(), " positions"));
    }
  }
  if (!bytes.empty()) {
    return absl::DataLossError(
        absl::StrCat("stored local state has ", bytes.size(), " bytes too many"));
  }
  return state;
}

}  // namespace recollect::model
