// The main of programs that run other programs' tests on a GPU (test_device.h): those of a device,
// and no others.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

int main(int argc, char** argv) {
  GTEST_FLAG_SET(filter, "*Device*");
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
