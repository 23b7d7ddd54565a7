// Flags of the options common to all verbs. A value is taken from the flag, else the environment,
// else the file, else the default.
//
// The environment variable of `--data-dir` is RECOLLECT_DATA_DIR, and so on. The file (--config,
// deploy/recollect.toml) has the same names; options of a verb are in a section with the verb's
// name.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/common/options.h"

namespace recollect::cli {

// Adds the common options to the program, and makes the environment win over the file.
void AddCommonOptions(CLI::App& app, Options& options);

// Whether "--flag" or "--flag=…" was typed.
bool OnCommandLine(int argc, const char* const* argv, const std::string& flag);

// Gives an option its environment variable by the rule above.
CLI::Option* FromEnvironment(CLI::Option* option);

// The option --backup-dir, of verbs that make or read backups.
CLI::Option* AddBackupDir(CLI::App& verb, Options& options);

// The option --keys, of verbs that make or ask for keys.
CLI::Option* AddKeysFile(CLI::App& verb, Options& options);

// Positional ids of up to 64 documents; the first of the options is returned. `ids` must outlive
// the verb, and has an empty string for each id that is not given (GivenIds leaves these out,
// but for the first).
CLI::Option* AddIds(CLI::App& verb, std::vector<std::string>& ids);
// INVALID_ARGUMENT: an id that is not UTF-8.
absl::StatusOr<std::vector<std::string>> GivenIds(const std::vector<std::string>& ids);

// For check(): a number that fits in T. CLI11 would wrap or clamp it.
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

// An option whose value goes to a setter of a message; where it is not given nothing is set.
template <typename Message, typename T>
CLI::Option* AddOption(CLI::App& verb, const std::string& name, Message& message,
                       void (Message::*set)(T), const std::string& help) {
  CLI::Option* const option = verb.add_option_function<T>(
      name, [&message, set](const T& value) { (message.*set)(value); }, help);
  if constexpr (std::is_integral_v<T>) option->check(Fits<T>());
  return option;
}

// For transform(): a seed, of which a negative one stands for its bits, as over HTTP.
CLI::Validator Seed();

// For transform(): "8MiB" to "8388608", and "1.5GiB".
CLI::Validator SizeInBytes();
// For check(): 0 to `most`. Unlike CLI::Range, it refuses nan.
CLI::Validator Seconds(double most);

// If both --server and --data-dir have a value, the one on the command line counts.
// INVALID_ARGUMENT if both are on the command line, or --server and an option of the engine.
absl::Status ChooseConnection(const CLI::App& app, int argc, const char* const* argv,
                              Options& options);

}  // namespace recollect::cli
