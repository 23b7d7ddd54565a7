#include "kernels/cpu/read_ahead.h"

#include <algorithm>

namespace recollect::kernels {

bool ReadAhead::Begin(const void* name) {
  if (name == name_) return false;
  name_ = name;
  return true;
}

void ReadAhead::Add(const void* bytes, int64_t count) {
  const uint32_t at = count_.load(std::memory_order_relaxed);
  const bool full = at - RangeOf(next_.load(std::memory_order_relaxed)) >= kMax;
  if (full || count <= 0 || count > UINT32_MAX) return;
  range(at).begin.store(static_cast<const char*>(bytes), std::memory_order_relaxed);
  range(at).bytes.store(count, std::memory_order_relaxed);
  count_.store(at + 1, std::memory_order_release);
}

void ReadAhead::Reached(const void* bytes) {
  uint64_t next = next_.load(std::memory_order_relaxed);
  const uint32_t end = count_.load(std::memory_order_relaxed);
  uint32_t at = RangeOf(next);
  while (at != end && range(at).begin.load(std::memory_order_relaxed) != bytes) ++at;
  if (at == end) return;
  const uint64_t after = (uint64_t{at} + 1) << 32;
  while (next < after && !next_.compare_exchange_weak(next, after, std::memory_order_relaxed)) {
  }
}

bool ReadAhead::AskForSome() {
  uint64_t next = next_.load(std::memory_order_relaxed);
  const uint32_t at = RangeOf(next);
  if (at >= count_.load(std::memory_order_acquire)) return false;
  const int64_t bytes = range(at).bytes.load(std::memory_order_relaxed);
  const char* const begin = range(at).begin.load(std::memory_order_relaxed);
  const auto first = static_cast<int64_t>(next & UINT32_MAX);
  const int64_t end = std::min(first + kAtOnce, bytes);
  const uint64_t after =
      end == bytes ? (uint64_t{at} + 1) << 32 : uint64_t{at} << 32 | static_cast<uint64_t>(end);
  if (!next_.compare_exchange_strong(next, after, std::memory_order_relaxed)) return true;
  constexpr int64_t kLine = 64;
  for (int64_t offset = first; offset < end; offset += kLine) {
    __builtin_prefetch(begin + offset, 0, 2);
  }
  return true;
}

}  // namespace recollect::kernels
