// Numbers from a seed that do not depend on the standard library's distributions.
#ifndef RECOLLECT_CLI_NIAH_RANDOM_H_
#define RECOLLECT_CLI_NIAH_RANDOM_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::cli::niah {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(bits_() % static_cast<uint64_t>(n)); }
  double Unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))];
  }
  // `count` characters of `alphabet`.
  std::string Characters(int64_t count, std::string_view alphabet) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += alphabet[Below(std::ssize(alphabet))];
    return text;
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_RANDOM_H_
