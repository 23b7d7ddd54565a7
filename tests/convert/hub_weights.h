// The weights of the checkpoints in hub/, by the formula of train/hub_fixtures.py.
#ifndef RECOLLECT_TESTS_CONVERT_HUB_WEIGHTS_H_
#define RECOLLECT_TESTS_CONVERT_HUB_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace recollect::convert {

// Value `i` of the tensor of this published name; `coarse` in few bits, as the half-precision file.
inline float HubWeight(const std::string& name, int64_t i, bool coarse) {
  uint32_t x = 2166136261u;
  for (const char c : name) x = (x ^ static_cast<uint8_t>(c)) * 16777619u;
  x += static_cast<uint32_t>(i) * 2654435761u;
  x ^= x >> 16;
  x *= 0x45d9f3bu;
  x ^= x >> 16;
  if (coarse) return static_cast<float>(static_cast<int>(x >> 24) - 128) * 0x1p-10f;
  return static_cast<float>(static_cast<int>(x >> 8) - (1 << 23)) * 0x1p-26f;
}

inline std::vector<float> HubWeights(const std::string& name, int64_t size, bool coarse = false) {
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(HubWeight(name, i, coarse));
  return values;
}

}  // namespace recollect::convert

#endif  // RECOLLECT_TESTS_CONVERT_HUB_WEIGHTS_H_
