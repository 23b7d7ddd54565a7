// Declares what the scheduler runs beside the steps of sessions: long work, a slice at a time.
#pragma once

#include <cstdint>

#include "base/sync/thread_pool.h"

namespace recollect::engine {

// Called on the scheduler's thread.
class SliceSource {
 public:
  virtual ~SliceSource() = default;
  virtual bool HasSlice() = 0;
  // Whether RunSlice calls `pause`, every few milliseconds, so that steps of sessions come between.
  virtual bool pauses() const { return false; }
  // Runs at most `most_tokens` tokens, but at least one block.
  virtual void RunSlice(int64_t most_tokens, const ThreadPool::Pause& pause) = 0;
};

}  // namespace recollect::engine
