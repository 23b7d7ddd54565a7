// The places where a test's layers run: on the CPU, or on a device.
//   INSTANTIATE_TEST_SUITE_P(Places, AdapterTest, kPlaces, NameOfPlace);
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace recollect::engine {

enum class Place { kCpu, kDevice };

inline const auto kPlaces = ::testing::Values(Place::kCpu, Place::kDevice);

inline std::string NameOfPlace(const ::testing::TestParamInfo<Place>& info) {
  return info.param == Place::kCpu ? "Cpu" : "Device";
}

}  // namespace recollect::engine
