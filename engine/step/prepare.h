// Checks of callers' requests against the model, before they reach the scheduler; they have passed
// step/limits.h. All return INVALID_ARGUMENT naming the field.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/session/session.h"
#include "engine/types.h"
#include "model/model.h"

namespace recollect::engine {

// Names an id that is reserved or unknown, and its number among all tokens, of which `before`
// precede these.
absl::Status CheckTokenIds(const model::ModelConfig& config, std::span<const int32_t> tokens,
                           int64_t before = 0);

// The tokens of a prompt, which errors call `field`; FAILED_PRECONDITION for text when the model
// has no tokenizer, INVALID_ARGUMENT for ids that are reserved or unknown. `continues`: the session
// begins with a prefix, and the prompt's text follows the prefix's text. A tokenizer with a dummy
// prefix then puts no space before it.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const model::Model& model, const Prompt& prompt,
                                                  absl::string_view field, bool continues = false);

absl::StatusOr<model::LocalPatterns> SessionPatterns(const model::Model& model,
                                                     const SessionOptions& options);
// The patterns of an ingest: of a prefix as SessionPatterns; otherwise the model's own, and
// `options` may not ask for others.
absl::StatusOr<model::LocalPatterns> IngestPatterns(const model::Model& model,
                                                    const SessionOptions& options);
// FAILED_PRECONDITION, naming the family, for a model without landmarks, which retrieves nothing.
absl::Status RequireLandmarks(const model::Model& model);
// Whether blocks of mounted documents go in front of prompts, and whether layers read them.
bool MountsText(const model::ModelConfig& config, MountAs mount_as);
bool MountsMemory(const model::ModelConfig& config, MountAs mount_as);
// Checks `options`, except for patterns, against the model: as RequireLandmarks, and
// FAILED_PRECONDITION if a second document is mounted after a prefix.
absl::Status ValidateSession(const model::Model& model, const SessionOptions& options);
// A text may have more tokens than step/limits.h can know, and fewer than `flush_after` says.
absl::Status ValidateScore(const ScoreRequest& request, int64_t tokens);

// The token that runs before an input: what the session has carried, or, before a text that a
// session begins with, the model's begin token, if it has one.
std::optional<int32_t> TokenBefore(const model::Model& model, const Session& session, bool is_text);

}  // namespace recollect::engine
