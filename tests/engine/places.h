// The places where a test's layers run: on the CPU, or on a device.
//   INSTANTIATE_TEST_SUITE_P(Places, AdapterTest, kPlaces, NameOfPlace);
#ifndef RECOLLECT_TESTS_ENGINE_PLACES_H_
#define RECOLLECT_TESTS_ENGINE_PLACES_H_

#include <gtest/gtest.h>

#include <string>

namespace recollect::engine {

enum class Place { kCpu, kDevice };

inline const auto kPlaces = ::testing::Values(Place::kCpu, Place::kDevice);

inline std::string NameOfPlace(const ::testing::TestParamInfo<Place>& info) {
  return info.param == Place::kCpu ? "Cpu" : "Device";
}

}  // namespace recollect::engine

#endif  // RECOLLECT_TESTS_ENGINE_PLACES_H_
