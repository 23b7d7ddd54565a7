// A whole file as memory, to read. Pages come from the file when they are first looked at and stay
// in the system's cache, so that a large file opens at once and two processes share it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace recollect {

// Owns the mapping: what bytes() returned is gone with it, and stays where it is when it moves. A
// file that becomes shorter meanwhile ends the process (SIGBUS) where its pages are missing:
// replace a file by renaming another over it. Thread-safe once opened.
class MappedFile {
 public:
  // NOT_FOUND: no file. INVALID_ARGUMENT: it cannot be opened or mapped, as a directory cannot.
  // Both name the file and the reason.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace recollect
