// The verbs of `recollect`. Each function adds a verb's options, and sets `command.run` if the verb
// is chosen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/common/flags.h"
#include "cli/common/options.h"

namespace recollect::cli {

// Makes `run`, with the common options and the verb's own, what the verb does.
template <typename T>
void RunWith(CLI::App& verb, Command& command, const std::shared_ptr<T>& options,
             absl::Status (*run)(const Options&, const T&)) {
  verb.callback([&command, options, run] {
    command.run = [&command, options, run] { return run(command.options, *options); };
  });
}

// The end of every verb's help.
inline constexpr char kCommonHelp[] =
    "\nWith a server: --server HOST:PORT. Without: --data-dir DIR. Also --json, --timeout …: "
    "recollect --help\n";

// Verbs below a verb, as `list` is one of `docs`.
class VerbGroup {
 public:
  // `help_end`: of the help of the group, and of each.
  VerbGroup(CLI::App& app, Command& command, const char* name, const char* what,
            const char* help_end = kCommonHelp)
      : command_(command), group_(*app.add_subcommand(name, what)), help_end_(help_end) {
    group_.require_subcommand(1);
  }
  // Adds one that does `run`. Its help ends with the examples, lines without "recollect" before
  // them, and the group's with those of all.
  template <typename T>
  CLI::App* Add(const char* name, const char* what, const std::vector<std::string>& examples,
                const std::shared_ptr<T>& options, absl::Status (*run)(const Options&, const T&)) {
    CLI::App* const verb = group_.add_subcommand(name, what);
    std::string lines;
    for (const std::string& example : examples)
      absl::StrAppend(&lines, "  recollect ", example, "\n");
    verb->footer(absl::StrCat("\nExamples:\n", lines, help_end_));
    examples_ += lines;
    group_.footer(absl::StrCat("\nExamples:\n", examples_, help_end_));
    RunWith(*verb, command_, options, run);
    return verb;
  }

 private:
  Command& command_;
  CLI::App& group_;
  const char* const help_end_;
  std::string examples_;
};

void AddServe(CLI::App& app, Command& command);
void AddIngest(CLI::App& app, Command& command);
void AddDocs(CLI::App& app, Command& command);
void AddDocsRefresh(VerbGroup& docs);
void AddDocsTransfer(VerbGroup& docs);  // docs export, docs import
void AddRetrieve(CLI::App& app, Command& command);
void AddGenerate(CLI::App& app, Command& command);
void AddChat(CLI::App& app, Command& command);
void AddScore(CLI::App& app, Command& command);
void AddBackup(CLI::App& app, Command& command);
void AddKeys(CLI::App& app, Command& command);
void AddStore(CLI::App& app, Command& command);
void AddModel(CLI::App& app, Command& command);
void AddStats(CLI::App& app, Command& command);
void AddBench(CLI::App& app, Command& command);

}  // namespace recollect::cli
