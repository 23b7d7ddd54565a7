#include "engine/backend/device/device_sparse.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/numeric/round_up.h"
#include "base/status.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/device/packed_arrays.h"
#include "kernels/sparse_topk/sparse_topk_plan.h"

namespace recollect::engine {
namespace {

using kernels::DeviceSparseQuery;
using kernels::DeviceSparseRange;
using kernels::ScoredCandidate;
using kernels::SparseSlice;
using kernels::WholeTerm;

// Arrays in device memory begin at multiples of this.
constexpr int64_t kSparseAlignment = 16;

}  // namespace

class DeviceSparse::Kept final : public KeptSparse {
 public:
  explicit Kept(DeviceSparse& index) : index_(index) {}
  SparseIndex& index() const override { return index_; }
  int64_t blocks() const override { return blocks_; }
  int64_t bytes() const override { return memory_->bytes(); }
  // The first blocks of the ranges are numbered from 0.
  std::span<const DeviceSparseRange> ranges() const { return ranges_; }

  // Packs one range at a time: a document's lists are not in RAM twice.
  absl::Status Copy(kernels::Device& device, std::span<const SparseSource> sources, int width) {
    int64_t bytes = 0;
    for (const SparseSource& source : sources) {
      bytes += RoundUp(source.lists->bytes(), kSparseAlignment) +
               RoundUp(DenseBytes(source, width), kSparseAlignment);
    }
    ASSIGN_OR_RETURN(memory_, device.Allocate(bytes));
    auto* at = static_cast<std::byte*>(memory_->data());
    for (const SparseSource& source : sources) {
      const std::vector<std::byte> packed = source.lists->Pack();
      RETURN_IF_ERROR(device.Upload(packed.data(), std::ssize(packed), at));
      std::byte* const dense = at + RoundUp(source.lists->bytes(), kSparseAlignment);
      RETURN_IF_ERROR(device.Upload(source.dense, DenseBytes(source, width), dense));
      ranges_.push_back({source.lists->PackedAt(at),
                         width == 0 ? nullptr : reinterpret_cast<const Bf16*>(dense), blocks_});
      blocks_ += source.lists->blocks();
      at = dense + RoundUp(DenseBytes(source, width), kSparseAlignment);
    }
    return absl::OkStatus();
  }

 private:
  static int64_t DenseBytes(const SparseSource& source, int width) {
    return source.lists->blocks() * width * static_cast<int64_t>(sizeof(Bf16));
  }

  DeviceSparse& index_;
  std::shared_ptr<kernels::DeviceBuffer> memory_;
  std::vector<DeviceSparseRange> ranges_;
  int64_t blocks_ = 0;
};

// A search on its way.
struct DeviceSparse::Call {
  std::vector<DeviceSparseRange> ranges;
  std::vector<SparseSlice> slices;
  std::vector<WholeTerm> terms;
  DeviceSparseQuery query;
  std::span<const float> dense;
  int64_t candidates = 0;
};

absl::StatusOr<std::shared_ptr<const KeptSparse>> DeviceSparse::Keep(
    std::span<const SparseSource> ranges, int width) {
  if (width > kernels::kMaxDeviceKeyWidth) {
    return absl::InvalidArgumentError(absl::StrCat("dense keys of width ", width, ", a device has ",
                                                   kernels::kMaxDeviceKeyWidth, " at most"));
  }
  auto kept = std::make_shared<Kept>(*this);
  RETURN_IF_ERROR(Annotate(kept->Copy(*device_, ranges, width),
                           absl::StrCat("keys on the device ", device_->name())));
  return kept;
}

absl::StatusOr<std::vector<ScoredCandidate>> DeviceSparse::RunOnce(const Call& call, int n) {
  ASSIGN_OR_RETURN(const kernels::SparseTopKPlan plan,
                   kernels::PlanSparseTopK({.queries = 1,
                                            .slices = std::ssize(call.slices),
                                            .candidates = call.candidates,
                                            .width = static_cast<int>(call.dense.size()),
                                            .n = n}));
  enum { kRanges, kSlices, kTerms, kQuery, kDense };
  const std::span<const std::byte> arrays[] = {
      std::as_bytes(std::span(call.ranges)), std::as_bytes(std::span(call.slices)),
      std::as_bytes(std::span(call.terms)), std::as_bytes(std::span(&call.query, 1)),
      std::as_bytes(call.dense)};
  const kernels::PackedArrays packed(arrays);
  std::vector<std::byte> in(static_cast<size_t>(RoundUp(packed.bytes(), kSparseAlignment)));
  packed.Copy(0, packed.bytes(), in.data());
  const int64_t in_bytes = std::ssize(in),
                place_bytes = RoundUp(n * int64_t{sizeof(int64_t)}, kSparseAlignment),
                out_bytes = place_bytes + RoundUp(n * int64_t{sizeof(float)}, kSparseAlignment);
  ASSIGN_OR_RETURN(
      void* const memory,
      kernels::AtLeast(*device_, in_bytes + out_bytes + plan.workspace_bytes, memory_));
  auto* const at = static_cast<std::byte*>(memory);
  RETURN_IF_ERROR(device_->Upload(in.data(), in_bytes, at));
  RETURN_IF_ERROR(device_->Run(kernels::SparseTopKOp{
      plan, reinterpret_cast<const DeviceSparseRange*>(at + packed.offset(kRanges)),
      reinterpret_cast<const SparseSlice*>(at + packed.offset(kSlices)),
      reinterpret_cast<const WholeTerm*>(at + packed.offset(kTerms)),
      reinterpret_cast<const DeviceSparseQuery*>(at + packed.offset(kQuery)),
      reinterpret_cast<const float*>(at + packed.offset(kDense)), at + in_bytes + out_bytes,
      reinterpret_cast<int64_t*>(at + in_bytes),
      reinterpret_cast<float*>(at + in_bytes + place_bytes)}));
  std::vector<std::byte> out(static_cast<size_t>(out_bytes));
  RETURN_IF_ERROR(device_->Download(at + in_bytes, out_bytes, out.data()));
  const auto* const candidates = reinterpret_cast<const int64_t*>(out.data());
  const auto* const scores = reinterpret_cast<const float*>(out.data() + place_bytes);
  std::vector<ScoredCandidate> best;
  // Where there are fewer hits than n, -1 follows.
  for (int i = 0; i < n && candidates[i] >= 0; ++i) best.push_back({candidates[i], scores[i]});
  return best;
}

absl::StatusOr<std::vector<ScoredCandidate>> DeviceSparse::Search(
    std::span<const KeptSparse* const> documents, const SparseSearch& query, int n) {
  kernels::WholeQuery whole = kernels::InWholeNumbers(query.terms);
  Call call;
  call.terms = std::move(whole.terms);
  call.dense = query.dense;
  call.query = {0, static_cast<int32_t>(call.terms.size()), whole.scale};
  for (const KeptSparse* document : documents) {
    for (DeviceSparseRange range : static_cast<const Kept*>(document)->ranges()) {
      range.first += call.candidates;
      call.ranges.push_back(range);
    }
    call.candidates += document->blocks();
  }
  call.slices = kernels::SparseSlices(call.ranges);
  const auto wanted = static_cast<size_t>(std::min<int64_t>(n, call.candidates));
  std::vector<ScoredCandidate> best;
  MutexLock lock(mutex_);
  while (best.size() < wanted) {
    const auto most = std::min<size_t>(wanted - best.size(), kernels::kMaxDeviceTopK);
    ASSIGN_OR_RETURN(const std::vector<ScoredCandidate> found,
                     RunOnce(call, static_cast<int>(most)));
    best.insert(best.end(), found.begin(), found.end());
    if (found.size() < most) break;
    call.query.below = kernels::cuda::PackCandidate(best.back().score, best.back().candidate);
  }
  return best;
}

}  // namespace recollect::engine
