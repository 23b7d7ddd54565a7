// Input of an ingest: a file or standard input, read forward from any offset.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace recollect::cli {

class TextSource {
 public:
  // "-" is standard input. NOT_FOUND or INVALID_ARGUMENT (a directory) naming the path.
  static absl::StatusOr<std::unique_ptr<TextSource>> Open(const std::string& path);

  // Up to `limit` bytes from `offset` on; empty at the end. Standard input is read and discarded up
  // to `offset`: FAILED_PRECONDITION if it is already past `offset`, OUT_OF_RANGE if it ends before
  // it. INVALID_ARGUMENT if it cannot be read.
  absl::StatusOr<std::string> Read(int64_t offset, int64_t limit);

  bool seekable() const { return seekable_; }
  int64_t size() const { return size_; }  // 0: unknown

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool seekable_ = false;
  int64_t size_ = 0;
  int64_t position_ = 0;
};

}  // namespace recollect::cli
