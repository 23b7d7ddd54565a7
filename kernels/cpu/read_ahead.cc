#include "kernels/cpu/read_ahead.h"

#include <algorithm>

namespace recollect::kernels {

bool ReadAhead::Begin(const void* name) {
  if (name == name_) return false;
  name_ = name;
  count_.store(0, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  return true;
}

void ReadAhead::Add(const void* bytes, int64_t count) {
  const uint32_t at = count_.load(std::memory_order_relaxed);
  if (at == kMax || count <= 0 || count > UINT32_MAX) return;
  ranges_[at].begin.store(static_cast<const char*>(bytes), std::memory_order_relaxed);
  ranges_[at].bytes.store(count, std::memory_order_relaxed);
  count_.store(at + 1, std::memory_order_release);
}

bool ReadAhead::AskForSome() {
  uint64_t next = next_.load(std::memory_order_relaxed);
  const uint64_t range = next >> 32;
  if (range >= count_.load(std::memory_order_acquire)) return false;
  const auto first = static_cast<int64_t>(next & UINT32_MAX);
  const int64_t end =
      std::min(first + kAtOnce, ranges_[range].bytes.load(std::memory_order_relaxed));
  const bool all = end == ranges_[range].bytes.load(std::memory_order_relaxed);
  const uint64_t after = all ? (range + 1) << 32 : range << 32 | static_cast<uint64_t>(end);
  if (!next_.compare_exchange_strong(next, after, std::memory_order_relaxed)) return true;
  const char* const begin = ranges_[range].begin.load(std::memory_order_relaxed);
  constexpr int64_t kLine = 64;
  for (int64_t at = first; at < end; at += kLine) __builtin_prefetch(begin + at, 0, 2);
  return true;
}

}  // namespace recollect::kernels
