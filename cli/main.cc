// The program `recollect`.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/io/descriptors.h"
#include "base/io/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "cli/common/exit_code.h"
#include "cli/common/flags.h"
#include "cli/common/json.h"
#include "cli/common/options.h"
#include "cli/common/usage.h"
#include "cli/verbs/verbs.h"
#include "model/text/printable.h"

namespace recollect::cli {
namespace {

constexpr char kExamples[] =
    "To talk about a document:\n"
    "  recollect model add smollm2\n"
    "  recollect ingest --id lease lease.txt\n"
    "  recollect chat --mount lease\n"
    "\n"
    "Examples:\n"
    "  recollect ingest --id moby moby-dick.txt\n"
    "  recollect generate --mount moby --prompt 'Who is the captain of the Pequod? It is' --stop "
    ".\n"
    "  recollect retrieve --mount moby --query 'the whiteness of the whale'\n"
    "  recollect serve --grpc-listen 127.0.0.1:50051 &\n"
    "  recollect docs list --server 127.0.0.1:50051 --json\n"
    "\n"
    "Every option marked (Env:RECOLLECT_…) may be set in the environment, and all of them in the\n"
    "file that --config names. A flag overrides the environment, and the environment the file.\n"
    "What a command does and takes: recollect help COMMAND.\n"
    "\n";

// Values that messages quote may be of any size, and may do anything to a terminal.
constexpr size_t kMaxShown = 16 << 10;

void Report(const absl::Status& status, bool json) {
  const absl::Status shown(status.code(), model::Shortened(status.message(), kMaxShown));
  if (json) {
    absl::FPrintF(stderr, "%s\n",
                  ToJson(shown).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    absl::FPrintF(stderr, "recollect: %s\n", model::EscapeInvisible(shown.ToString()));
  }
}

int ReportUsage(const std::string& what, bool json) {
  if (json) {
    Report(absl::InvalidArgumentError(what), json);
  } else {
    const std::string shown = model::EscapeInvisible(model::Shortened(what, kMaxShown));
    std::fprintf(stderr, "%s\nRun with --help for more information.\n", shown.c_str());
  }
  return kExitUsage;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Recollect: ingest a document once, of any length; mount it into any number of sessions.",
      "recollect");
  app.fallthrough();  // common options may follow the verb
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(std::string(kExamples) + kExitCodeHelp);
  app.set_version_flag("--version", std::string("recollect ") + RECOLLECT_VERSION);
  Command command;
  AddCommonOptions(app, command.options);
  AddServe(app, command);
  AddIngest(app, command);
  AddDocs(app, command);
  AddBackup(app, command);
  AddKeys(app, command);
  AddStore(app, command);
  AddRetrieve(app, command);
  AddGenerate(app, command);
  AddChat(app, command);
  AddScore(app, command);
  AddBench(app, command);
  AddModel(app, command);
  AddStats(app, command);
  // Before anything is parsed, or not at all.
  const bool json = OnCommandLine(argc, argv, "--json");
  absl::StatusOr<std::vector<std::string>> arguments = Arguments(app, argc, argv);
  if (!arguments.ok()) return ReportUsage(std::string(arguments.status().message()), json);
  std::reverse(arguments->begin(), arguments->end());  // as the parser takes them
  try {
    app.parse(*std::move(arguments));
  } catch (const CLI::ConfigError& error) {
    absl::string_view what = error.what();
    std::string shown(what);
    if (absl::ConsumePrefix(&what, "INI was not able to parse ")) {
      shown = absl::StrCat("there is no option '", what, "'");
      const CLI::App* const serve = app.get_subcommand("serve");
      if (serve->get_option_no_throw(absl::StrCat("--", what)) != nullptr) {
        absl::StrAppend(&shown, " for every command; it belongs under [serve]");
      }
    }
    Report(absl::InvalidArgumentError(
               absl::StrCat(app.get_config_ptr()->as<std::string>(), ": ", shown)),
           json);
    return kExitUsage;
  } catch (const CLI::ParseError& error) {  // --help comes this way too
    return error.get_exit_code() == 0 ? app.exit(error) : ReportUsage(Explain(app, error), json);
  }
  if (absl::Status status = ChooseConnection(app, argc, argv, command.options); !status.ok()) {
    Report(status, command.options.json);
    return kExitUsage;
  }
  const std::string& level = command.options.log_level;
  if (absl::Status status = SetLogLevel(level.empty() ? "warning" : level); !status.ok()) {
    Report(status, command.options.json);
    return kExitUsage;
  }
  absl::Status status = OrExhausted("recollect", [&] {
    const MemoryScope scope(MemoryScope::kTake);  // nobody else is to be spared
    return command.run();
  });
  // What was printed may still be in the buffer; lost output is no success.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && status.ok())
    status = absl::UnknownError("cannot write to standard output");
  if (absl::IsDeadlineExceeded(status) && command.options.timeout_s > 0) {
    status =
        Annotate(status, absl::StrCat("gave up after --timeout ", command.options.timeout_s, " s"));
  }
  if (!status.ok()) Report(status, command.options.json);
  return ExitCode(status);
}

// Opens them before any library does: one makes an eventfd as it is loaded, and would be read as
// standard input, or printed to.
__attribute__((section(".preinit_array"),
               used)) void (*open_standard_descriptors)() = &OpenStandardDescriptors;

}  // namespace
}  // namespace recollect::cli

int main(int argc, char** argv) { return recollect::cli::Main(argc, argv); }
