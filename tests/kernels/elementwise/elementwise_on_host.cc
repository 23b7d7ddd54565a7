#include "kernels/elementwise/elementwise_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {
namespace {

template <typename Function, typename Out>
absl::Status CallOnHost(HostOrder order, const cuda::RowCall<Function, Out>& call) {
  const cuda::RowArgs<Out>& args = call.args;
  absl::Status status = CheckRows(call.name, {args.rows, args.width, 1, call.stride});
  if (!status.ok() || args.rows == 0 || args.width == 0) return status;
  RunBlocks<NoShared>(
      order, cuda::BlocksOf(args), cuda::kRowThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunRows<Function>(block, args, i); });
  return absl::OkStatus();
}

template <typename Out>
absl::Status NormOnHost(HostOrder order, const cuda::NormArgs<Out>& args) {
  absl::Status status = CheckRows("RMSNorm", args.sizes);
  if (!status.ok() || args.sizes.rows == 0 || args.sizes.width == 0) return status;
  RunBlocks<cuda::NormShared>(order, cuda::NormBlocks(args.sizes), cuda::kNormThreads,
                              [&](HostBlock& block, cuda::NormShared& shared, int64_t i) {
                                cuda::RunNorm(block, shared, args, i);
                              });
  return absl::OkStatus();
}

template <typename Op>
absl::Status RowsOnHost(HostOrder order, const Op& op) {
  return WithNumbers(op.y, [&](auto* y) { return CallOnHost(order, cuda::RowCallOf(op, y)); });
}

}  // namespace

absl::Status OnHost(HostOrder order, const RmsNormOp& op) {
  return WithNumbers(op.y, [&](auto* y) { return NormOnHost(order, cuda::NormArgsOf(op, y)); });
}

absl::Status OnHost(HostOrder order, const AddOp& op) { return RowsOnHost(order, op); }
absl::Status OnHost(HostOrder order, const ConvertToBf16Op& op) { return RowsOnHost(order, op); }
absl::Status OnHost(HostOrder order, const GeGluOp& op) { return RowsOnHost(order, op); }
absl::Status OnHost(HostOrder order, const GeluOp& op) { return RowsOnHost(order, op); }
absl::Status OnHost(HostOrder order, const SigmoidGateOp& op) { return RowsOnHost(order, op); }
absl::Status OnHost(HostOrder order, const SwiGluOp& op) { return RowsOnHost(order, op); }

}  // namespace recollect::kernels
