// Lists memory that ops are about to read, for threads that have nothing to do until then: they ask
// for it, so that it is in their cache when they get a part of the op.
#pragma once

#include <atomic>
#include <cstdint>

namespace recollect::kernels {

// A queue in the order in which ops read. Expects one thread to make it; any number ask. Nobody
// waits: who asks while the queue changes may ask for something else, or for nothing, and asking
// changes nothing but caches.
class ReadAhead {
 public:
  // Begins to list what `name` stands for. Returns false if that is what was begun last.
  bool Begin(const void* name);
  // Appends bytes; what is beyond the queue's room is left out. They need not live: an address is
  // all that asking needs.
  void Add(const void* bytes, int64_t count);
  // Leaves out what begins at `bytes` and all before it, if it is in the queue: an op reads it now.
  void Reached(const void* bytes);
  // Asks for some bytes that nobody has asked for. Returns false if there are none.
  bool AskForSome();

 private:
  static constexpr uint32_t kMax = 64;
  static constexpr int64_t kAtOnce = 512;

  struct Range {
    std::atomic<const char*> begin = nullptr;
    std::atomic<int64_t> bytes = 0;
  };
  static uint32_t RangeOf(uint64_t next) { return static_cast<uint32_t>(next >> 32); }
  Range& range(uint32_t number) { return ranges_[number % kMax]; }

  const void* name_ = nullptr;
  Range ranges_[kMax];               // by their number, modulo kMax
  std::atomic<uint32_t> count_ = 0;  // of ranges so far
  std::atomic<uint64_t> next_ = 0;   // which range (32 bits), and from which byte on (32 bits)
};

}  // namespace recollect::kernels
