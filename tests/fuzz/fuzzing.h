// Helpers of the fuzz targets. A target is one function that gives bytes to a reader in the engine
// and aborts if a promise of that reader is broken; docs/operations.md says how to run targets.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

// The entry point that libFuzzer, or replay.cc, calls.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace recollect::fuzz {

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Bytes as a file in memory, for readers that take a path.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes)
      : descriptor_(memfd_create("input", MFD_CLOEXEC)),
        path_(absl::StrCat("/proc/self/fd/", descriptor_)) {
    RECOLLECT_CHECK(descriptor_ >= 0);
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      RECOLLECT_CHECK(written > 0);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const int descriptor_;
  const std::string path_;
};

// Aborts unless an input was refused with one of these codes, and with a message that is not empty
// and does not grow with the input.
inline void CheckRefusal(const absl::Status& status,
                         std::initializer_list<absl::StatusCode> codes) {
  constexpr size_t kMaxBytes = size_t{64} << 10;
  const bool known = std::find(codes.begin(), codes.end(), status.code()) != codes.end();
  const bool bounded = !status.message().empty() && status.message().size() <= kMaxBytes;
  if (known && bounded) return;
  const std::string text = status.ToString();
  std::fprintf(stderr, "refused with %zu bytes: %.1000s\n", text.size(), text.c_str());
  std::abort();
}

}  // namespace recollect::fuzz
