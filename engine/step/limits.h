// Limits of requests that hold whatever the model: beyond them INVALID_ARGUMENT naming field, value
// and limit, before a request takes a place. The proto comments state the same numbers. What a
// model allows is stricter (step/prepare.h).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/types.h"

namespace recollect::engine {

inline constexpr int64_t kMaxScoreTokens = 1 << 16;  // the answer has four numbers for each
// Tokens times likeliest tokens of one answer: some megabytes.
inline constexpr int64_t kMaxTopLogprobsInAll = 1 << 18;

absl::Status CheckDocumentId(const std::string& id);
// For a document to be ingested: also refuses characters that are separators in commands and logs,
// or do not show (model/text/printable.h), and an asterisk at the end, which ExpandMounts reads.
absl::Status CheckNewDocumentId(const std::string& id);
absl::Status CheckSession(const SessionOptions& options);
absl::Status CheckRequest(const GenerateRequest& request);
absl::Status CheckRequest(const ScoreRequest& request);
absl::Status CheckRequest(const RetrieveRequest& request);
absl::Status CheckRequest(const EmbedRequest& request);

}  // namespace recollect::engine
