// SHA-256 in steps. The only place that knows the library.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace recollect {

// Not thread-safe. Use once: Update any number of times, then Hex.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);
  std::string Hex();  // 64 lower-case digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 64 lower-case digits.
std::string Sha256Hex(absl::string_view bytes);

// Whether both are the same, in a time that depends on their sizes alone: for what must not be
// guessed byte by byte.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace recollect
