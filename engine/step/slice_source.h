// Declares what the scheduler runs beside the steps of sessions: long work, a slice at a time.
#ifndef RECOLLECT_ENGINE_STEP_SLICE_SOURCE_H_
#define RECOLLECT_ENGINE_STEP_SLICE_SOURCE_H_

#include <cstdint>

namespace recollect::engine {

// Called on the scheduler's thread.
class SliceSource {
 public:
  virtual ~SliceSource() = default;
  virtual bool HasSlice() = 0;
  // Runs at most `most_tokens` tokens, but at least one block.
  virtual void RunSlice(int64_t most_tokens) = 0;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STEP_SLICE_SOURCE_H_
