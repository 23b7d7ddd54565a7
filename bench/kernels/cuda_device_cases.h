// The cases of cuda_bench that go through kernels/device/device.h: operations of device_cases.h and
// family_cases.h; how chunk states come up; what a launch costs, and a graph saves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/kernels/device_cases.h"
#include "bench/kernels/device_report.h"

namespace recollect::bench {

using MakeCase = std::function<absl::StatusOr<DeviceCase>(kernels::Device&)>;

// Rows of Report::Measure: the case's memory is the device's, its operations go to the report's
// stream, whose events time them.
absl::Status OnDevice(Report& report, kernels::Device& device, Case c, const MakeCase& make,
                      bool graph = false);

// So many chunks of so many Bf16 in pageable memory, hop by hop: copied to pinned memory; from
// there to the device in one plain copy; and both by UploadAllAsync, until it returns, and with
// Await until the device is idle. Speeds are given beside that of the plain copy, and its own
// beside `link_bytes`, byte/s, which it sets where that is 0.
absl::Status Uploads(Report& report, kernels::Device& device, const std::string& name,
                     int64_t chunks, int64_t numbers, double& link_bytes);

// SmallOperationsCase one by one, and as a graph, each until the device is idle.
absl::Status Launches(Report& report, kernels::Device& device, int64_t count, int64_t width);

}  // namespace recollect::bench
