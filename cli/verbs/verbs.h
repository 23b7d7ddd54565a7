// The verbs of `recollect`. Each function adds a verb's options, and sets `command.run` if the verb
// is chosen.
#ifndef RECOLLECT_CLI_VERBS_VERBS_H_
#define RECOLLECT_CLI_VERBS_VERBS_H_

#include <memory>

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

void AddServe(CLI::App& app, Command& command);
void AddIngest(CLI::App& app, Command& command);
void AddDocs(CLI::App& app, Command& command);
void AddDocsRefresh(CLI::App& docs, Command& command);
void AddDocsTransfer(CLI::App& docs, Command& command);  // docs export, docs import
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

// The end of every verb's help.
inline constexpr char kCommonHelp[] =
    "\nWith a server: --server HOST:PORT. Without: --data-dir DIR. Also --json, --timeout …: "
    "recollect --help\n";

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_VERBS_VERBS_H_
