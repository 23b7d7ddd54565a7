#include "service/rpc/status_map.h"

#include <gtest/gtest.h>

#include <string>

#include "base/io/paths.h"
#include "client/state.h"
#include "service/limits.h"

namespace recollect::service {
namespace {

TEST(StatusMapTest, EveryCodeComesBackAsItself) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what happened");
    EXPECT_EQ(client::FromGrpc(ToGrpc(status)), status) << status;
  }
  EXPECT_TRUE(client::FromGrpc(ToGrpc(absl::OkStatus())).ok());
}

TEST(StatusMapTest, CodesOfTheFutureBecomeUnknown) {
  EXPECT_EQ(ToGrpc(absl::Status(static_cast<absl::StatusCode>(77), "?")).error_code(),
            grpc::StatusCode::UNKNOWN);
}

TEST(StatusMapTest, PathsAreOfTheServersMachineIdsAreNot) {
  EXPECT_EQ(WithoutPaths("chunk 3 of document '/a/b c/d': IO error: No space left on device: While "
                         "appending to file: /data/000012.log: No space left on device"),
            "chunk 3 of document '/a/b c/d': IO error: No space left on device: While appending "
            "to file: a file: No space left on device");
  EXPECT_EQ(WithoutPaths("document \"x/y\": the client's data/x, ./y and path='/z'"),
            "document \"x/y\": the client's a file, a file and a file");
  EXPECT_EQ(WithoutPaths("in /data/000009.sst offset 0"), "in a file offset 0");
  for (const char* text : {"", " ", "nothing of it", "document '/': 'a b/c' \"/d\""})
    EXPECT_EQ(WithoutPaths(text), text);
}

TEST(StatusMapTest, LongMessagesAreCutAtACharacter) {
  std::string text = "x";
  while (text.size() < 2 * kMaxErrorBytes) text += "é";
  const std::string message = ToGrpc(absl::InternalError(text)).error_message();
  EXPECT_EQ(message.size(), kMaxErrorBytes - 1);  // 1 + 2 n bytes fit
  EXPECT_EQ(message, text.substr(0, message.size()));
}

}  // namespace
}  // namespace recollect::service
