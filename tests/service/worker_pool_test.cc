#include "service/worker_pool.h"

#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::service {
namespace {

TEST(WorkerPoolTest, AFullQueueRefusesNamingBothNumbers) {
  std::promise<void> begun, release;
  int done = 0;
  {
    WorkerPool pool(/*threads=*/1, /*max_queued=*/2);
    ASSERT_TRUE(pool.Post([&] {
                      begun.set_value();
                      release.get_future().wait();
                    })
                    .ok());
    begun.get_future().wait();  // no longer in the queue
    EXPECT_TRUE(pool.Post([&] { ++done; }).ok());
    EXPECT_TRUE(pool.Post([&] { ++done; }).ok());
    const absl::Status full = pool.Post([&] { done += 100; });
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(full.message(), "calls waiting for a worker: 2, limit 2");
    release.set_value();
  }
  EXPECT_EQ(done, 2) << "the end of the pool runs what is queued";
}

}  // namespace
}  // namespace recollect::service
