// Options of the verbs that run a session or ingest a prefix: pattern, mounts, prompt and answer.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/common/flags.h"
#include "recollect/v1/generation.pb.h"

namespace recollect::cli {

struct SessionFlags {
  v1::SessionOptions options;  // all but the three of the pattern
  // Each holds one number, or a number for each layer, separated by commas; within a layer, also a
  // number for each head, separated by slashes.
  std::string dilation, window, initial;
  std::vector<std::string> mount_where;  // conditions (cli/common/metadata_flags.h)
};

// Adds the flags of the pattern alone, or all of them.
void AddPatternFlags(CLI::App& verb, SessionFlags& flags);
void AddSessionFlags(CLI::App& verb, SessionFlags& flags);
// INVALID_ARGUMENT: a mount is not UTF-8, a condition is none, or a pattern is neither a number nor
// a list of numbers.
absl::StatusOr<v1::SessionOptions> ToSessionOptions(const SessionFlags& flags);

// Adds the flags of the verbs that generate: how tokens are chosen, and when an answer ends. The
// values go to `request`, which must outlive the parsing; those not given stay unset, and the
// defaults shown are then the service's.
void AddAnswerFlags(CLI::App& verb, v1::GenerateRequest& request);

// The values of `flag` TEXT and `flag`-file FILE, of which one is given.
struct PromptFlags {
  std::string flag;  // "--prompt"
  std::string text;
  std::string file;
};

void AddPromptFlags(CLI::App& verb, const std::string& flag, PromptFlags& flags);
// Throws a usage error unless one of the two was given, possibly empty; for a verb's callback.
void RequirePrompt(const CLI::App& verb, const std::string& flag);
absl::StatusOr<v1::Prompt> ToPrompt(const PromptFlags& flags);

}  // namespace recollect::cli
