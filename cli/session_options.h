// Options of the verbs that run a session: mounts and prompt.
#ifndef RECOLLECT_CLI_SESSION_OPTIONS_H_
#define RECOLLECT_CLI_SESSION_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/flags.h"
#include "client/types.h"

namespace recollect::cli {

struct SessionFlags {
  std::vector<std::string> mounts;
  int64_t dilation = 0;
  bool random_chunks = false;
};

void AddSessionFlags(CLI::App& verb, SessionFlags& flags);
// INVALID_ARGUMENT: a mount that is not UTF-8.
absl::StatusOr<client::SessionOptions> ToSessionOptions(const SessionFlags& flags);

// `flag` TEXT or `flag`-file FILE, one of them.
struct PromptFlags {
  std::string flag;  // "--prompt"
  std::string text;
  std::string file;
};

void AddPromptFlags(CLI::App& verb, const std::string& flag, PromptFlags& flags);
absl::StatusOr<client::Prompt> ToPrompt(const PromptFlags& flags);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_SESSION_OPTIONS_H_
