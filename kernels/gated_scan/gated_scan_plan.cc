#include "kernels/gated_scan/gated_scan_plan.h"

#include "absl/strings/str_cat.h"
#include "kernels/block/launch.h"
#include "kernels/gated_scan/gated_scan_kernel.h"

namespace recollect::kernels {
namespace {

// The blocks count rows in 32 bits.
constexpr int64_t kMaxCount = int64_t{1} << 30;
// Threads a multiprocessor needs to keep its memory busy by channel, with the loads of
// kRowsAhead rows in flight in each: latency times bandwidth.
constexpr int64_t kThreadsToFill = 512;

absl::Status Check(const GatedScanSizes& sizes) {
  if (sizes.segments < 0 || sizes.max_rows < 0 || sizes.max_rows > kMaxCount || sizes.chunk < 0 ||
      sizes.chunk > kMaxCount) {
    return absl::InvalidArgumentError(absl::StrCat("gated scan of ", sizes.segments, " segments, ",
                                                   sizes.max_rows, " rows, chunk ", sizes.chunk,
                                                   ", expected 0 to ", kMaxCount));
  }
  if (sizes.segments > kMaxGridSide) {
    return absl::InvalidArgumentError(
        absl::StrCat("gated scan of ", sizes.segments, " segments, at most ", kMaxGridSide));
  }
  return CheckSizes("gated scan", {{"of ", sizes.channels, " channels", 1, kMaxCount},
                                   {"of ", sizes.inputs, " inputs", 1, kMaxScanInputs}});
}

}  // namespace

absl::StatusOr<GatedScanPlan> PlanGatedScan(const GatedScanSizes& sizes, int multiprocessors) {
  using Strategy = GatedScanPlan::Strategy;
  RETURN_IF_ERROR(Check(sizes));
  const bool by_channel = sizes.max_rows <= cuda::kRowsAhead ||
                          sizes.segments * sizes.channels >= kThreadsToFill * multiprocessors;
  return PlanGatedScan(sizes, by_channel ? Strategy::kByChannel : Strategy::kByTile);
}

absl::StatusOr<GatedScanPlan> PlanGatedScan(const GatedScanSizes& sizes,
                                            GatedScanPlan::Strategy strategy) {
  RETURN_IF_ERROR(Check(sizes));
  const int64_t channels =
      strategy == GatedScanPlan::Strategy::kByTile ? cuda::kTileChannels : cuda::kChannelThreads;
  return GatedScanPlan{
      .sizes = sizes, .strategy = strategy, .blocks = cuda::CeilDiv(sizes.channels, channels)};
}

absl::Status CheckGatedScan(const GatedScanPlan& plan, std::span<const GatedScanSegment> segments) {
  const GatedScanSizes& sizes = plan.sizes;
  RETURN_IF_ERROR(CheckPlanned("gated scan", std::ssize(segments), "segments", sizes.segments));
  for (size_t s = 0; s < segments.size(); ++s) {
    const GatedScanSegment& segment = segments[s];
    const auto refuse = [s](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("gated scan segment ", s, ": ", what...));
    };
    if (segment.rows < 0 || segment.rows > sizes.max_rows) {
      return refuse(segment.rows, " rows, planned for ", sizes.max_rows);
    }
    if (segment.first < 0) return refuse("begins at position ", segment.first);
    if (segment.rows == 0) continue;
    if (segment.z == nullptr) return refuse("no z");
    for (int i = 0; i < sizes.inputs; ++i) {
      if (segment.x[i] == nullptr || segment.y[i] == nullptr || segment.state[i] == nullptr) {
        return refuse("no x, y or state of input ", i, " of ", sizes.inputs);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
