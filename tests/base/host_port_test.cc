#include "base/io/host_port.h"

#include <gtest/gtest.h>

#include <string>

namespace recollect {
namespace {

TEST(HostPortTest, SplitsAtTheLastColonAndTakesBracketsAway) {
  const struct {
    std::string address, host, port;
  } cases[] = {{"localhost:50051", "localhost", "50051"},
               {"[::1]:0", "::1", "0"},
               {"::1:80", "::1", "80"},
               {"[::1:80", "[::1", "80"},
               {"[]:80", "[]", "80"},
               {"host", "host", ""},
               {"host:", "host", ""},
               {":80", "", "80"},
               {"", "", ""}};
  for (const auto& [address, host, port] : cases) {
    const HostPort split = SplitHostPort(address);
    EXPECT_EQ(split.host, host) << address;
    EXPECT_EQ(split.port, port) << address;
  }
}

TEST(HostPortTest, AnotherPortLeavesTheHostAsItWasWritten) {
  EXPECT_EQ(WithPort("[::1]:0", 4711), "[::1]:4711");
  EXPECT_EQ(WithPort("localhost", 80), "localhost:80");
}

}  // namespace
}  // namespace recollect
