#include "base/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"

namespace recollect {
namespace {

// For what takes from the reserve: some messages of 4 MiB, a memtable's blocks and a flush of the
// database, stacks of 8 MiB.
constexpr int64_t kReserveBytes = int64_t{64} << 20;
// Work begins while so much is left besides: what one step, one slice of an ingest and a prompt's
// tokens take together.
constexpr int64_t kWorkBytes = int64_t{32} << 20;

std::atomic<bool> bounded{false};
int statm = -1;  // opened once: descriptors run out, too

// The hard limit is the bound, also one that somebody changes meanwhile; the soft one stands below
// it by the reserve, or at it while that is taken.
Mutex mutex;
bool is_taken ABSL_GUARDED_BY(mutex) = false;
int64_t times_taken ABSL_GUARDED_BY(mutex) = 0;

void SetSoftLimit(rlimit limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  const auto reserve = static_cast<rlim_t>(kReserveBytes);
  limit.rlim_cur = is_taken || limit.rlim_max < reserve ? limit.rlim_max : limit.rlim_max - reserve;
  setrlimit(RLIMIT_AS, &limit);
}

rlimit Limit() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  return limit;
}

int64_t MappedBytes() {
  char text[32] = {};
  if (pread(statm, text, sizeof(text) - 1, 0) <= 0) return 0;
  return std::atoll(text) * sysconf(_SC_PAGESIZE);
}

// `operator new` calls it where it finds nothing, and tries again when it returns.
void OnNoMemory() {
  static thread_local int64_t tried = 0;
  if (MemoryScope::reserve() == MemoryScope::kLeave) throw std::bad_alloc();
  MutexLock lock(mutex);
  if (!is_taken) {
    is_taken = true;
    ++times_taken;
    SetSoftLimit(Limit());
  }
  // Another thread may have taken it since this one looked for memory.
  if (std::exchange(tried, times_taken) == times_taken) throw std::bad_alloc();
}

}  // namespace

absl::Status KeepMemoryReserve(int64_t needed) {
  rlimit limit = Limit();
  if (bounded || limit.rlim_cur == RLIM_INFINITY) return absl::OkStatus();
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  needed += MappedBytes() + kReserveBytes + kWorkBytes;
  if (limit.rlim_cur < static_cast<rlim_t>(needed)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory: about ", needed, " bytes of address space are needed, the limit is ",
                     limit.rlim_cur, " (ulimit -v)"));
  }
  // Each of many threads would map 64 MiB for itself, and what is freed would not come back.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  bounded = true;
  limit.rlim_max = limit.rlim_cur;
  MutexLock lock(mutex);
  SetSoftLimit(limit);
  std::set_new_handler(OnNoMemory);
  return absl::OkStatus();
}

absl::Status CheckMemory() {
  if (!bounded) return absl::OkStatus();
  const rlimit limit = Limit();
  if (limit.rlim_max == RLIM_INFINITY) return absl::OkStatus();
  const auto most = static_cast<int64_t>(limit.rlim_max);
  int64_t left = most - kReserveBytes - MappedBytes();
  if (left < kWorkBytes) left += static_cast<int64_t>(mallinfo2().fordblks);  // mapped and free
  if (left < kWorkBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory: ", std::max<int64_t>(left, 0), " bytes are left of ", most,
                     " (ulimit -v), work begins with ", kWorkBytes));
  }
  MutexLock lock(mutex);
  if (std::exchange(is_taken, false) || limit.rlim_cur == limit.rlim_max) SetSoftLimit(limit);
  return absl::OkStatus();
}

absl::Status OutOfMemory(absl::string_view what) {
  const MemoryScope scope(MemoryScope::kTake);
  return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
}

}  // namespace recollect
