// Limits of what passes in one message or call. Those of requests are the engine's
// (engine/step/limits.h). The proto comments state the same numbers.
#pragma once

#include <cstdint>

namespace recollect::service {

inline constexpr int kMaxMessageBytes = 4 << 20;  // of gRPC, both directions

inline constexpr int64_t kMaxPieceBytes = 1 << 20;
inline constexpr int64_t kMaxPieceTokens = 1 << 18;
inline constexpr int64_t kMaxReadBytes = 1 << 20;
inline constexpr int64_t kMaxFileBytes = 1 << 20;  // of a document file, in one message
inline constexpr int64_t kDefaultPageSize = 100;
inline constexpr int64_t kMaxPageSize = 1000;

// An ingest piece is passed to the engine in parts of this size: progress waits for one part.
inline constexpr int64_t kAppendBytes = 32 << 10;
inline constexpr int64_t kAppendTokens = 8 << 10;

// Answer bytes that may wait for a slow reader before its call is ended.
inline constexpr int64_t kMaxUnsentBytes = 1 << 20;

inline constexpr int64_t kMaxErrorBytes = 1024;  // of a status message, which is sent in headers

}  // namespace recollect::service
