// CHECK for invariants of our own: a failure is our bug; it is logged with its place and aborts.
// Input from outside is never CHECKed; it leads to a Status (base/status.h).
#pragma once

#include <cstdio>
#include <cstdlib>

#define RECOLLECT_CHECK(condition)                                                       \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
#ifdef NDEBUG
#define RECOLLECT_DCHECK(condition) ((void)0)
#else
#define RECOLLECT_DCHECK(condition) RECOLLECT_CHECK(condition)
#endif
