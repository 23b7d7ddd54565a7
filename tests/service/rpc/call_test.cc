#include "service/rpc/call.h"

#include <atomic>
#include <future>

#include "gtest/gtest.h"

namespace recollect::service {
namespace {

TEST(RuntimeTest, AFullQueueRefusesNamingBothNumbers) {
  constexpr int kThreads = 4;
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> begun = 0, done = 0;
  {
    Runtime runtime;
    for (int i = 0; i < kThreads; ++i) {
      ASSERT_TRUE(runtime
                      .Post([&] {
                        ++begun;
                        begun.notify_one();
                        released.wait();
                      })
                      .ok());
    }
    for (int seen = 0; seen < kThreads; seen = begun) begun.wait(seen);  // out of the queue
    for (size_t i = 0; i < Runtime::kMaxQueued; ++i) {
      ASSERT_TRUE(runtime.Post([&] { ++done; }).ok());
    }
    const absl::Status full = runtime.Post([&] { done += 1000; });
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(full.message(), "calls waiting for a thread: 256, limit 256");
    release.set_value();
  }
  EXPECT_EQ(done, 256) << "what is queued runs before the end";
}

}  // namespace
}  // namespace recollect::service
