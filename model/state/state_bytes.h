// Little-endian numbers to and from the bytes of a stored local state. Private to model/.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::model {

static_assert(std::endian::native == std::endian::little, "stored states are little-endian");

template <typename T>
void Put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

inline void PutFloats(std::string& out, const float* values, size_t count) {
  out.append(reinterpret_cast<const char*>(values), count * sizeof(float));
}

// Both read from the front of `in`; if it is too short, they return false and leave `in` unchanged.
template <typename T>
bool Get(std::string_view& in, T& value) {
  if (in.size() < sizeof(T)) return false;
  std::memcpy(&value, in.data(), sizeof(T));
  in.remove_prefix(sizeof(T));
  return true;
}

// Reserves an eighth more, so that the first positions that follow do not reallocate a long state.
inline bool GetFloats(std::string_view& in, std::vector<float>& values, size_t count) {
  if (in.size() / sizeof(float) < count) return false;
  values.reserve(count + count / 8);
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), in.data(), count * sizeof(float));
  in.remove_prefix(count * sizeof(float));
  return true;
}

}  // namespace recollect::model
