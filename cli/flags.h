// Options common to all verbs as flags, and where their values come from: flag > environment > file
// > default.
//
// The environment variable of `--data-dir` is RECOLLECT_DATA_DIR, and so on; the file (--config,
// deploy/recollect.toml) has the same names, those of a verb in a section of its name.
#ifndef RECOLLECT_CLI_FLAGS_H_
#define RECOLLECT_CLI_FLAGS_H_

#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/options.h"

namespace recollect::cli {

// Adds the common options to the program, and makes the environment win over the file.
void AddCommonOptions(CLI::App& app, Options& options);

// Whether "--flag" or "--flag=…" was typed.
bool OnCommandLine(int argc, const char* const* argv, const std::string& flag);

// Gives an option its environment variable, by the rule above.
CLI::Option* FromEnvironment(CLI::Option* option);

// For check(): a number that fits in T. CLI11 would wrap it or cut it to fit.
template <typename T>
CLI::Validator Fits() {
  return CLI::Validator(
      [](const std::string& text) {
        T value = 0;
        if (absl::SimpleAtoi(text, &value)) return std::string();
        return absl::StrCat("'", text, "' is no whole number, or out of range");
      },
      "");
}

// For check(): 0 to `most`. CLI::Range takes nan, too.
CLI::Validator Seconds(double most);

// When both --server and --data-dir have a value, the one on the command line counts; both there is
// INVALID_ARGUMENT, and so is --server there with an option of the engine.
absl::Status ChooseConnection(const CLI::App& app, int argc, const char* const* argv,
                              Options& options);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_FLAGS_H_
