// The suite of an op: its cases run on every runner, which are the CPU's code for each instruction
// set, the scalar reference first, and the device of test_device.h: the host running the thread
// blocks of the CUDA operations or, in a program of its own, the GPU.
//   class GcaTest : public OpTest<gca_cases::Call> {};
//   TEST_P(GcaTest, MatchesReference) { … Run(call) … }
//   INSTANTIATE_TEST_SUITE_P(Runners, GcaTest, ::testing::ValuesIn(Runners()), NameOfRunner);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/test_device.h"

namespace recollect::kernels {

using Runner = std::optional<Isa>;  // none: the device

inline std::vector<Runner> Runners() {
  std::vector<Runner> runners;
  for (const Isa isa : RunnableIsas()) runners.emplace_back(isa);
  runners.emplace_back(std::nullopt);
  return runners;
}

// cuda_test_main.cc runs those of a device, by their name.
inline std::string NameOfRunner(const ::testing::TestParamInfo<Runner>& info) {
  return info.param.has_value() ? IsaName(*info.param) : "Device";
}

// An op's Call comes with RunOnCpu(ctx, call) and RunOnDevice(device, call, way) in its namespace.
// A device has several ways to run a call, by strategies of its plan and alignments; all give the
// same bits.
template <typename Call>
class OpTest : public ::testing::TestWithParam<Runner> {
 protected:
  void SetUp() override {
    if (on_cpu()) return;
    device_ = OpenTestDevice();
    RECOLLECT_SKIP_WITHOUT(device_);
  }
  bool on_cpu() const { return GetParam().has_value(); }

  // Each time in another way, or in all.
  auto Run(const Call& call) {
    return on_cpu() ? RunOnCpu(ctx_, call) : RunOnDevice(*device_, call, next_way_++ % Call::kWays);
  }
  auto RunInAllWays(const Call& call) {
    if (on_cpu()) return RunOnCpu(ctx_, call);
    const auto first = RunOnDevice(*device_, call, 0);
    for (int way = 1; way < Call::kWays; ++way) {
      EXPECT_TRUE(SameBits(RunOnDevice(*device_, call, way), first)) << "way " << way;
    }
    return first;
  }

  OpContext ctx_{GetParam().value_or(Isa::kScalar)};
  std::shared_ptr<Device> device_;  // null on the CPU

 private:
  int next_way_ = 0;
};

}  // namespace recollect::kernels
