// Lists memory that ops are about to read, for threads that have nothing to do until then: they ask
// for it, so that it is in their cache when they get a part of the op.
#pragma once

#include <atomic>
#include <cstdint>

namespace recollect::kernels {

// Expects one thread to make the list; any number ask. Nobody waits: who asks by a list that is
// being replaced may ask for bytes of both, or for none, and asking changes nothing but caches.
class ReadAhead {
 public:
  // Begins the list that `name` stands for. Returns false, and leaves all as it is, if that is the
  // list there is.
  bool Begin(const void* name);
  // Appends bytes; what is beyond the list's room is left out. They need not live: an address is
  // all that asking needs.
  void Add(const void* bytes, int64_t count);
  // Asks for some bytes that nobody has asked for. Returns false if there are none.
  bool AskForSome();

 private:
  static constexpr int kMax = 48;
  static constexpr int64_t kAtOnce = 512;

  struct Range {
    std::atomic<const char*> begin = nullptr;
    std::atomic<int64_t> bytes = 0;
  };
  const void* name_ = nullptr;
  Range ranges_[kMax];
  std::atomic<uint32_t> count_ = 0;
  std::atomic<uint64_t> next_ = 0;  // which range (32 bits), and from which byte on (32 bits)
};

}  // namespace recollect::kernels
