// Helpers of the store's benchmarks: what they write and read, files out of the page cache,
// percentiles.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "store/document_store.h"

namespace recollect::bench {

constexpr int64_t kWidth = 256;  // of the shipped model: 63 x 256 bf16 are 32 256 bytes

template <typename T>
T Checked(absl::StatusOr<T> value) {
  RECOLLECT_CHECK(value.ok());
  return *std::move(value);
}

// Returns the chunk of that number, with made-up states.
inline store::ChunkRecord MakeChunk(int64_t index) {
  store::ChunkRecord chunk;
  chunk.rows = kChunkTokens;
  chunk.states.resize(static_cast<size_t>(chunk.rows * kWidth));
  std::mt19937_64 random(static_cast<uint64_t>(index));
  for (size_t i = 0; i + 4 <= chunk.states.size(); i += 4) {
    const uint64_t bits = random();
    for (size_t k = 0; k < 4; ++k) chunk.states[i + k].bits = static_cast<uint16_t>(bits >> 16 * k);
  }
  return chunk;
}

// Returns chunks [begin, end) with keys of `key_width` numbers, their tokens, and text.
inline store::IngestBatch MakeBatch(int64_t begin, int64_t end, int64_t key_width) {
  store::IngestBatch batch;
  for (int64_t i = begin; i < end; ++i) batch.chunks.push_back(MakeChunk(i));
  batch.landmark_keys.resize(batch.chunks.size() * static_cast<size_t>(key_width));
  batch.tokens.resize(batch.chunks.size() * kChunkTokens);
  batch.text.assign(batch.chunks.size() * 250, 'x');
  return batch;
}

inline std::vector<ChunkRef> RandomChunks(const store::DocumentInfo& info, int64_t count,
                                          std::mt19937_64& random) {
  std::vector<ChunkRef> refs;
  for (int64_t i = 0; i < count; ++i) {
    refs.push_back(
        {info.owner, static_cast<int64_t>(random() % static_cast<uint64_t>(info.chunks))});
  }
  return refs;
}

inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::vector<std::string> Files(const std::string& directory) {
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    if (file.is_regular_file()) out.push_back(file.path().string());
  }
  return out;
}

// Makes the next read of every file go to the disk.
inline void DropCaches(const std::string& directory) {
  for (const std::string& file : Files(directory)) {
    const int fd = open(file.c_str(), O_RDONLY);
    if (fd < 0) continue;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

inline double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

}  // namespace recollect::bench
