// A server over the fake engine, on a free port, with a client.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/log.h"
#include "client/client.h"
#include "service/server.h"
#include "tests/support/fake_engine.h"

namespace recollect {

// Matches a code and a fragment of the message: EXPECT_THAT(result.status(),
// Fails(absl::StatusCode::kNotFound, "moby")).
MATCHER_P2(Fails, code, fragment, "") {
  *result_listener << arg.ToString();
  return arg.code() == code && arg.message().find(fragment) != absl::string_view::npos;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    auto server = service::Server::Start({"127.0.0.1:0", "fake"}, engine_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = client::Client::Connect(server_->address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  // Returns the statistics of a method's calls once none of them runs any more.
  v1::RpcStats AwaitNoneRunning(const std::string& method) {
    while (true) {
      const v1::Stats stats = client_->GetStats().value();
      for (const v1::RpcStats& rpc : stats.rpcs()) {
        if (rpc.method() == method && rpc.running() == 0) return rpc;
      }
    }
  }

  FakeEngine engine_;  // outlives the server
  std::unique_ptr<service::Server> server_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace recollect
