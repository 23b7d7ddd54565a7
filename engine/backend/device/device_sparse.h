// Sparse keys in the memory of a device, searched there: one upload of the query and the tables,
// two launches, one download of the hits; more where more hits are asked for than a launch finds.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "engine/backend/sparse_index.h"
#include "kernels/device/device.h"

namespace recollect::engine {

class DeviceSparse final : public SparseIndex {
 public:
  explicit DeviceSparse(std::shared_ptr<kernels::Device> device) : device_(std::move(device)) {}

  std::string name() const override { return device_->name(); }
  absl::StatusOr<std::shared_ptr<const KeptSparse>> Keep(std::span<const SparseSource> ranges,
                                                         int width) override;
  absl::StatusOr<std::vector<kernels::ScoredCandidate>> Search(
      std::span<const KeptSparse* const> documents, const SparseSearch& query, int n) override;

 private:
  class Kept;
  struct Call;
  // Finds the call's next `n` hits.
  absl::StatusOr<std::vector<kernels::ScoredCandidate>> RunOnce(const Call& call, int n)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<kernels::Device> device_;
  Mutex mutex_;  // held during a search
  // The memory of a search's tables, hits and workspace.
  std::shared_ptr<kernels::DeviceBuffer> memory_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::engine
