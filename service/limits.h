// Limits of requests. Beyond them: INVALID_ARGUMENT naming field, value and limit, before any work
// is done. The proto comments state the same numbers, except those for which the model's adapted
// values are stricter.
#ifndef RECOLLECT_SERVICE_LIMITS_H_
#define RECOLLECT_SERVICE_LIMITS_H_

#include <cstdint>

namespace recollect::service {

inline constexpr int kMaxMessageBytes = 4 << 20;  // of gRPC, both directions

inline constexpr int64_t kMaxIdBytes = 256;
inline constexpr int64_t kMaxMounts = 256;
// For SessionOptions; the values to which the model was adapted are stricter.
inline constexpr int64_t kMaxDilation = 4096;
inline constexpr int64_t kMaxWindow = 1 << 20;
inline constexpr int64_t kMaxInitial = 1 << 20;
inline constexpr int64_t kMaxContext = int64_t{1} << 32;
inline constexpr int64_t kMaxTopKBlocks = 1 << 16;

inline constexpr int64_t kMaxPieceBytes = 1 << 20;
inline constexpr int64_t kMaxPieceTokens = 1 << 18;
inline constexpr int64_t kMaxReadBytes = 1 << 20;
inline constexpr int64_t kDefaultPageSize = 100;
inline constexpr int64_t kMaxPageSize = 1000;

inline constexpr int64_t kMaxPromptBytes = 2 << 20;
inline constexpr int64_t kMaxPromptTokens = 1 << 18;
inline constexpr int64_t kMaxScoreTokens = 1 << 16;
inline constexpr int64_t kMaxScoreFlushes = 4096;

inline constexpr int64_t kDefaultMaxTokens = 128;
inline constexpr int64_t kMaxMaxTokens = 1 << 16;
inline constexpr int64_t kMaxTopK = 1 << 20;
inline constexpr double kMaxTemperature = 100;
inline constexpr double kMaxDryMultiplier = 100;
inline constexpr int64_t kDefaultDryAllowedLength = 2;
inline constexpr int64_t kMaxDryAllowedLength = 64;  // every token compares so many more
inline constexpr int64_t kMaxStops = 16;
inline constexpr int64_t kMaxStopBytes = 256;
inline constexpr int64_t kMaxHits = 1024;  // `k` of Retrieve

// An ingest piece is passed to the engine in parts of this size: progress waits for one part.
inline constexpr int64_t kAppendBytes = 32 << 10;
inline constexpr int64_t kAppendTokens = 8 << 10;

// Answer bytes that may wait for a slow reader before its call is ended.
inline constexpr int64_t kMaxUnsentBytes = 1 << 20;

inline constexpr int64_t kMaxErrorBytes = 1024;  // of a status message, which is sent in headers

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_LIMITS_H_
