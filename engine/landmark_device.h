// Where landmark keys lie and are searched (design 2.4): the one part of the engine whose work
// grows with what is mounted. In RAM, by the CPU (cpu_landmarks.h), or in the memory of a
// device and there (device_landmarks.h). Scores are fp32 on each, in an order of its own: one
// device gives the same bits in any batch, and tokens may differ between devices as far as their
// roundings do.
#ifndef RECOLLECT_ENGINE_LANDMARK_DEVICE_H_
#define RECOLLECT_ENGINE_LANDMARK_DEVICE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bf16.h"
#include "kernels/device.h"
#include "kernels/landmark_topk.h"

namespace recollect::engine {

// Keys [count, d_k] of one document or session, in a device's memory; freed with the object.
class LandmarkKeys {
 public:
  virtual ~LandmarkKeys() = default;
  // Puts `keys`, [n, d_k], behind those that are there. Not during a search. RESOURCE_EXHAUSTED:
  // nothing was added.
  virtual absl::Status Append(std::span<const Bf16> keys) = 0;
};

// The first `count` of some keys.
struct KeyRun {
  const LandmarkKeys* keys = nullptr;
  int64_t count = 0;
};

struct LandmarkQuery {
  std::vector<float> u;      // [d_k]
  std::vector<KeyRun> runs;  // candidates are numbered through them, in order
  int n = 0;                 // to find; as many as there are candidates, if they are fewer

  // The answer: the order of kernels/landmark_topk.h.
  absl::Status status;
  std::vector<kernels::ScoredCandidate> best;

  int64_t candidates() const {
    int64_t count = 0;
    for (const KeyRun& run : runs) count += run.count;
    return count;
  }
};

class LandmarkDevice {
 public:
  virtual ~LandmarkDevice() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"
  // UNAVAILABLE once it is lost, for good.
  virtual absl::Status health() const { return absl::OkStatus(); }
  // Of its memory; zeros on the CPU.
  virtual kernels::DeviceRoom room() const { return {}; }
  // Keys [count, d_k], none or more. The device outlives them. Thread-safe. RESOURCE_EXHAUSTED: its
  // memory; UNAVAILABLE: it is lost.
  virtual absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(std::vector<Bf16> keys) = 0;
  // Answers every query, each with a status of its own; returns when all are. One call at a time.
  virtual void Search(std::span<LandmarkQuery> queries) = 0;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_LANDMARK_DEVICE_H_
