// Options common to all verbs as flags, and where their values come from: flag > environment > file
// > default.
//
// The environment variable of `--data-dir` is RECOLLECT_DATA_DIR, and so on; the file (--config,
// deploy/recollect.toml) has the same names, those of a verb in a section of its name.
#ifndef RECOLLECT_CLI_FLAGS_H_
#define RECOLLECT_CLI_FLAGS_H_

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "cli/options.h"

namespace recollect::cli {

// Adds the common options to the program, and makes the environment win over the file.
void AddCommonOptions(CLI::App& app, Options& options);

// Gives an option its environment variable, by the rule above.
CLI::Option* FromEnvironment(CLI::Option* option);

// When both --server and --data-dir have a value, the one on the command line counts; both there is
// INVALID_ARGUMENT.
absl::Status ChooseConnection(int argc, const char* const* argv, Options& options);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_FLAGS_H_
