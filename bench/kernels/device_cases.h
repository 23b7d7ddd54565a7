// Cases that cuda_bench runs through kernels/device/device.h, prepared on any device: a test runs
// each of them, small, on the host's (tests/bench/device_cases_test.cc), so that a wrong answer on
// a GPU is the device's fault. family_cases.h has more operations of this kind. Cases return
// RESOURCE_EXHAUSTED if the device lacks memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/numeric/bf16.h"
#include "base/status.h"
#include "bench/kernels/numbers.h"
#include "kernels/device/device.h"

namespace recollect::bench {

// Holds the device memory that it needs. The device must outlive it.
struct DeviceCase {
  std::vector<kernels::Operation> operations;
  std::function<absl::Status()> reset;  // to what `check` counts on; done once already
  std::function<absl::Status()> check;  // after one run, which is done
  double bytes = 0;                     // that have to move, once each
  double flops = 0;
};

// Makes `count` operations of a decode step, each on the result of the one before: in turn h += x
// and x = RMSNorm(h), over one row of `width` floats.
absl::StatusOr<DeviceCase> SmallOperationsCase(kernels::Device& device, int64_t count,
                                               int64_t width);

struct DecodeSizes {
  int64_t batch = 0;
  int heads = 0;
  int head_dim = 0;
  int64_t position = 0;  // of every row
  int64_t entries = 0;   // that a row reads of a cache of its own, its own among them
};

// Makes the operations that mix positions in one layer of RAT+ in a decode step, between the matrix
// products, as model/device/device_gated_mixer.cc has them: the gated scan of k and v, RoPE of q
// and k, rounding to Bf16, the copies that append them to the caches, attention.
absl::StatusOr<DeviceCase> RatPlusDecodeCase(kernels::Device& device, const DecodeSizes& sizes);

// Uploads of chunk states from pageable host memory to the device, concurrent with its operations.
class ChunkUploads {
 public:
  ChunkUploads(kernels::Device& device, int64_t chunks, int64_t numbers);

  int64_t bytes() const;  // of all chunks
  const std::vector<std::vector<Bf16>>& chunks() const { return chunks_; }

  absl::Status Upload();       // begins the upload of all chunks
  absl::Status Await();        // later operations find them
  absl::Status Check() const;  // REQUIRES: awaited
  void Drop() { buffers_.clear(); }

 private:
  kernels::Device& device_;
  std::vector<std::vector<Bf16>> chunks_;
  std::vector<std::shared_ptr<kernels::DeviceBuffer>> buffers_;
};

// Device memory that a case holds until the object is destroyed. Contents may still be on their way
// when Place returns, but operations of the device find them.
class CaseMemory {
 public:
  explicit CaseMemory(kernels::Device& device) : device_(device) {}

  template <typename T>
  absl::StatusOr<T*> Allocate(int64_t count) {
    ASSIGN_OR_RETURN(std::shared_ptr<kernels::DeviceBuffer> buffer,
                     device_.Allocate(count * int64_t{sizeof(T)}));
    return static_cast<T*>(buffers_.emplace_back(std::move(buffer))->data());
  }
  template <typename T>
  absl::StatusOr<T*> Place(const std::vector<T>& from) {
    ASSIGN_OR_RETURN(T* const to, Allocate<T>(std::ssize(from)));
    RETURN_IF_ERROR(device_.Upload(from.data(), std::ssize(from) * int64_t{sizeof(T)}, to));
    return to;
  }
  // Places the first `count` numbers of the pattern; Fill writes them again.
  template <typename T>
  absl::StatusOr<T*> Place(const Pattern<T>& from, int64_t count) {
    ASSIGN_OR_RETURN(T* const to, Allocate<T>(count));
    RETURN_IF_ERROR(Fill(from, count, to));
    return to;
  }
  template <typename T>
  absl::Status Fill(const Pattern<T>& from, int64_t count, T* to) {
    const auto period = std::ssize(from.period());
    for (int64_t done = 0; done < count; done += period) {
      const int64_t bytes = std::min<int64_t>(period, count - done) * int64_t{sizeof(T)};
      RETURN_IF_ERROR(device_.Upload(from.period().data(), bytes, to + done));
    }
    return absl::OkStatus();
  }
  template <typename T>
  absl::StatusOr<std::vector<T>> Read(const T* from, int64_t count) const {
    std::vector<T> to(static_cast<size_t>(count));
    RETURN_IF_ERROR(device_.Download(from, count * int64_t{sizeof(T)}, to.data()));
    return to;
  }

 private:
  kernels::Device& device_;
  std::vector<std::shared_ptr<kernels::DeviceBuffer>> buffers_;
};

}  // namespace recollect::bench
