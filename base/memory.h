// Running out of memory: which work it ends, and what goes on. Only where the address space is
// bounded (`ulimit -v`): elsewhere the system gives memory that it may not have, and kills.
//
// The last of it is a reserve. Work that can be refused (computing, reading, decoding requests)
// runs inside OrExhausted and leaves the reserve alone: what it cannot get ends it, and only it,
// with RESOURCE_EXHAUSTED. Such work uses the hash tables of std: one of Abseil's that finds no
// memory to grow frees what it never had, which ends the process. All else, such as libraries that
// cannot be stopped half-way through a write, and telling callers how their requests ended, takes
// from the reserve.
//
//   RETURN_IF_ERROR(KeepMemoryReserve(needed));       // once, before threads are started
//   RETURN_IF_ERROR(CheckMemory());                   // before work is begun
//   const absl::Status status = OrExhausted("reading", [&] { return Read(chunks); });
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace recollect {

// Lowers the soft limit by the reserve, if the address space is bounded: the bound is then the hard
// limit, also one that is changed later. `needed`: bytes that this process will map, beside the
// reserve and what it has mapped. RESOURCE_EXHAUSTED naming both sizes where they are not there.
// Before threads are started; the first call counts.
absl::Status KeepMemoryReserve(int64_t needed);

// RESOURCE_EXHAUSTED naming the sizes while too little is left to begin any work. Takes a few
// microseconds where the address space is bounded, else nothing. Thread-safe.
absl::Status CheckMemory();

// While there is one, what this thread allocates takes from the reserve, or gets std::bad_alloc
// before that. They nest; outside of all it takes.
class MemoryScope {
 public:
  enum Reserve { kTake, kLeave };
  explicit MemoryScope(Reserve reserve) : before_(std::exchange(reserve_, reserve)) {}
  ~MemoryScope() { reserve_ = before_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  static Reserve reserve() { return reserve_; }

 private:
  static inline thread_local Reserve reserve_ = kTake;
  const Reserve before_;
};

// RESOURCE_EXHAUSTED: `what` ran out of memory.
absl::Status OutOfMemory(absl::string_view what);

// Runs a body that returns Status or StatusOr, and leaves the reserve alone: where std::bad_alloc
// ends, once for each piece of work that somebody waits for.
template <typename Body>
auto OrExhausted(absl::string_view what, const Body& body) -> decltype(body()) {
  try {
    const MemoryScope scope(MemoryScope::kLeave);
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(what);
  }
}

}  // namespace recollect
