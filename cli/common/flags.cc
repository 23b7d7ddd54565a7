#include "cli/common/flags.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/io/file.h"
#include "base/io/log_fields.h"
#include "base/status.h"
#include "model/text/chat_template.h"
#include "model/text/printable.h"

namespace recollect::cli {
namespace {

constexpr char kEngineGroup[] = "Engine (serve, or without a server)";

std::string EnvironmentName(const std::string& option) {
  return absl::StrCat("RECOLLECT_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(option, {{"-", "_"}})));
}

bool InEnvironment(const std::string& option) {
  const char* value = std::getenv(EnvironmentName(option).c_str());
  return value != nullptr && value[0] != '\0';
}

// CLI11 takes a string that is not closed as it stands, and one with a '#' as far as that.
void CheckStringsAreClosed(const std::string& text) {
  constexpr size_t kMaxShown = 80;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    char open = 0;
    for (const char c : line.substr(0, line.find('#'))) {
      if (open == 0 && (c == '"' || c == '\'')) {
        open = c;
      } else if (c == open) {
        open = 0;
      }
    }
    if (open == 0) continue;
    throw CLI::ConfigError(
        absl::StrCat("line ", number, ": a string is not closed, or has a # in it: ",
                     model::Shortened(absl::StripAsciiWhitespace(line), kMaxShown)));
  }
}

// CLI11 reads the file before the environment and lets the first value stand.
class FileBelowEnvironment final : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::stringstream file;
    file << input.rdbuf();
    std::stringstream text{std::string(WithoutByteOrderMark(file.str()))};
    CheckStringsAreClosed(text.str());
    std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(text);
    std::erase_if(read, [](const CLI::ConfigItem& item) { return InEnvironment(item.name); });
    return read;
  }
};

// "8MiB" as 8388608; nothing where it is no whole number of a unit.
std::optional<int64_t> WholeSize(std::string text) {
  int64_t bytes = 0;
  try {
    const std::string error = CLI::AsSizeValue(/*kb_is_1000=*/false)(text);
    if (error.empty() && absl::SimpleAtoi(text, &bytes) && bytes >= 0) return bytes;
  } catch (const CLI::ValidationError&) {
  }
  return std::nullopt;
}

// "1.5GiB", which CLI11 does not take: a part of a byte is left out.
std::optional<int64_t> PartialSize(const std::string& text) {
  constexpr double kMax = 9.2e18;  // below what int64_t holds
  const size_t unit = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const std::optional<int64_t> scale = WholeSize(absl::StrCat("1", text.substr(unit)));
  if (unit == 0 || scale.value_or(1) == 1 || !absl::SimpleAtod(text.substr(0, unit), &number))
    return std::nullopt;
  const double bytes = number * static_cast<double>(*scale);
  return bytes < kMax ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
}

}  // namespace

CLI::Validator SizeInBytes() {
  return CLI::Validator(
      [](std::string& text) {
        std::optional<int64_t> bytes = WholeSize(text);
        if (!bytes.has_value()) bytes = PartialSize(text);
        if (bytes.has_value()) {
          text = absl::StrCat(*bytes);
          return std::string();
        }
        return absl::StrCat("'", text,
                            "' is not a size from 0 bytes to 8EiB, such as 1000, 8MiB or 1.5GiB");
      },
      "");
}

CLI::Validator Seed() {
  return CLI::Validator(
      [](std::string& text) {
        uint64_t seed = 0;
        int64_t negative = 0;
        if (absl::SimpleAtoi(text, &seed)) return std::string();
        if (!absl::SimpleAtoi(text, &negative))
          return absl::StrCat("'", text, "' is no whole number, or out of range");
        text = absl::StrCat(static_cast<uint64_t>(negative));
        return std::string();
      },
      "");
}

bool OnCommandLine(int argc, const char* const* argv, const std::string& flag) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == flag || absl::StartsWith(argv[i], absl::StrCat(flag, "="))) return true;
  }
  return false;
}

CLI::Option* FromEnvironment(CLI::Option* option) {
  return option->envname(EnvironmentName(option->get_lnames().front()));
}

CLI::Option* AddBackupDir(CLI::App& verb, Options& options) {
  return FromEnvironment(verb.add_option("--backup-dir", options.backup_dir,
                                         "Backups are kept here, of one data directory"))
      ->type_name("DIR");
}

CLI::Option* AddIds(CLI::App& verb, std::vector<std::string>& ids) {
  constexpr size_t kMaxIds = 64;
  ids.resize(kMaxIds);
  CLI::Option* first = verb.add_option("ID", ids.front(), "Document; others may follow");
  // An option for each of the others: one that takes several values takes lists, too.
  for (size_t i = 1; i < ids.size(); ++i)
    verb.add_option(absl::StrCat("ID", i + 1), ids[i])->group("");
  const auto plain = verb.get_formatter();
  verb.formatter_fn([plain](const CLI::App* app, std::string name, CLI::AppFormatMode mode) {
    return absl::StrReplaceAll(plain->make_help(app, std::move(name), mode),
                               {{"] []", "]…"}, {"ID []", "ID…"}, {" []", ""}});
  });
  return first;
}

absl::StatusOr<std::vector<std::string>> GivenIds(const std::vector<std::string>& ids) {
  std::vector<std::string> given;
  for (const std::string& id : ids) {
    // An empty first one was typed so, perhaps by a variable that is not set: the server refuses
    // it.
    if (id.empty() && !given.empty()) continue;
    RETURN_IF_ERROR(CheckUtf8("ID", id));
    given.push_back(id);
  }
  return given;
}

CLI::Option* AddKeysFile(CLI::App& verb, Options& options) {
  return FromEnvironment(verb.add_option("--keys", options.keys_file,
                                         "File of the API keys that a server asks for"))
      ->type_name("FILE");
}

void AddCommonOptions(CLI::App& app, Options& options) {
  app.config_formatter(std::make_shared<FileBelowEnvironment>());
  app.set_config("--config", "", "File with options (TOML), see deploy/recollect.toml");
  app.allow_config_extras(CLI::config_extras_mode::error);

  const auto where = [&app](const char* name, auto& value, const char* type, const char* what) {
    return FromEnvironment(app.add_option(name, value, what))->type_name(type)->group("Where");
  };
  HostOptions& host = options.host;
  where("--server", options.server, "HOST:PORT",
        "Use the server at HOST:PORT; several with commas between, or a name with "
        "several addresses, are replicas: what one leaves undone goes on at another");
  where("--api-key-file", options.api_key_file, "FILE",
        "File with the API key for it (default: $RECOLLECT_API_KEY)");
  where("--tls-ca", options.tls_ca_file, "FILE",
        "File of certificates that are trusted (PEM); the server is asked with TLS");
  where("--data-dir", host.data_dir, "DIR",
        "Without a server: documents are kept here (default: $XDG_DATA_HOME/recollect or "
        "~/.local/share/recollect; \":memory:\" keeps nothing)");
  where("--store", host.store, "rados:POOL[/NAMESPACE]",
        "Instead of a data directory: documents are kept in Ceph RADOS, where other servers share "
        "them");
  where("--ceph-conf", host.ceph_conf, "FILE",
        "Configuration of its cluster (default: /etc/ceph/ceph.conf)");
  where("--ceph-user", host.ceph_user, "NAME", "Its user, without \"client.\"")
      ->capture_default_str();
  where("--store-lease", host.store_lease_s, "SECONDS",
        "After so long without a sign of a server, others take over what it was writing, and what "
        "it had mounted may be freed")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  where("--cache-dir", host.cache_dir, "DIR",
        "Keeps chunks read from that store here too, of this server alone");
  where("--cache-budget", host.cache_budget_bytes, "BYTES",
        "Of the disk, for --cache-dir; at least 32MiB")
      ->transform(SizeInBytes())
      ->default_str("16GiB");
  const auto engine = [&app](const char* name, auto& value, const char* what) {
    return FromEnvironment(app.add_option(name, value, what))->group(kEngineGroup);
  };
  engine("--model", host.model,
         "Name of a model (recollect model list), its folder, or a GGUF file (default: the data "
         "directory's, which is the one that it was served with last, or first used with; of a new "
         "one smollm2 where `model add` has brought it, else recollect-7m)")
      ->type_name("DIR");
  engine("--dtype", host.dtype,
         "Number format of matrix products (auto: the blocks of a quantised GGUF file on the CPU, "
         "else bf16 if what runs the layers supports it)")
      ->check(CLI::IsMember({"auto", "bf16", "fp32", "quantized"}))
      ->capture_default_str();
  const auto names = model::ChatTemplate::Names();
  engine("--chat-template", host.chat_template,
         "Writes conversations in this form, for a model file that has no template, or one that is "
         "not known")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
  engine("--threads", host.threads, "Compute threads (default: all cores)")
      ->check(CLI::Range(0, 4096));
  engine("--device", host.device,
         "Runs the layers and searches landmark keys: cpu, cuda:N, or auto (a CUDA device if there "
         "is one)")
      ->capture_default_str();
  engine("--index", host.index,
         "How landmark keys of large documents are searched: exact; ivf: approximately, "
         "through an index made in the background; auto: ivf in very large ones only")
      ->check(CLI::IsMember({"exact", "ivf", "auto"}))
      ->capture_default_str();
  engine("--chunk-states-format", host.chunk_states_format,
         "Numbers of chunk states that an ingest stores: mxint8, 8 bits; or bf16, as computed, "
         "twice as large")
      ->check(CLI::IsMember({"mxint8", "bf16"}))
      ->capture_default_str();
  const auto budget = [&](const char* name, int64_t& value, const char* what,
                          const char* otherwise) {
    engine(name, value, what)->transform(SizeInBytes())->type_name("BYTES")->default_str(otherwise);
  };
  budget("--landmark-budget", host.engine.landmark_budget_bytes,
         "For landmark keys of mounted documents", "1GiB");
  budget("--memory-budget", host.engine.memory_budget_bytes,
         "For memory K, V of hot chunks, not for the whole process", "256MiB");
  budget("--chunk-states-budget", host.engine.chunk_states_budget_bytes,
         "For chunk states on the host", "512MiB");
  budget("--state-budget", host.engine.state_budget_bytes,
         "For local states of sessions and ingests of prefixes", "4GiB");
  budget("--prompt-cache", host.engine.prompt_cache_bytes,
         "Of the state budget, for states of ended requests, which later prompts that begin alike "
         "go on from",
         "1GiB");

  app.add_flag("--json", options.json, "Print one JSON value instead of text")->group("Output");
  FromEnvironment(app.add_option("--timeout", options.timeout_s,
                                 "Give up a call after this long (ingest: never)"))
      ->check(Seconds(86400))
      ->type_name("SECONDS")
      ->group("Output");
  FromEnvironment(
      app.add_option("--log-level", options.log_level,
                     "debug, info, warning, error or off (default: serve: info, else warning)"))
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->group("Output");
  FromEnvironment(app.add_option_function<std::string>(
                      "--log-format",
                      [](const std::string& name) { SetLogFormat(name).IgnoreError(); },
                      "Lines of the log: text, or json for machines"))
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text")
      ->group("Output");
}

CLI::Validator Seconds(double most) {
  return CLI::Validator(
      [most](const std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= 0 && value <= most) return std::string();
        return absl::StrCat("'", text, "' is not a number of seconds from 0 to ", most);
      },
      absl::StrCat("from 0 to ", most));
}

namespace {

// As of `--data-dir "$UNSET"`, which would otherwise mean the default.
absl::Status CheckNotEmpty(const CLI::App& app, int argc, const char* const* argv) {
  for (const char* flag : {"--data-dir", "--store", "--server", "--model"}) {
    if (!OnCommandLine(argc, argv, flag) || !app.get_option(flag)->as<std::string>().empty())
      continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, ": empty; leave it out for the default"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ChooseConnection(const CLI::App& app, int argc, const char* const* argv,
                              Options& options) {
  RETURN_IF_ERROR(CheckNotEmpty(app, argc, argv));
  if (options.server.empty()) return absl::OkStatus();
  const bool server = OnCommandLine(argc, argv, "--server");
  const bool data_dir =
      OnCommandLine(argc, argv, "--data-dir") || OnCommandLine(argc, argv, "--store");
  for (const CLI::App* verb : app.get_subcommands()) {
    if (verb->get_name() != "backup" || !OnCommandLine(argc, argv, "--backup-dir")) continue;
    if (server) {
      return absl::InvalidArgumentError(
          "--server and --backup-dir exclude each other: a server makes backups in the "
          "directory that it was started with");
    }
    if (verb->got_subcommand("create") && !data_dir) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--backup-dir is for a backup by this process, but the environment or the file of "
          "options names the server ",
          options.server, ": unset RECOLLECT_SERVER, or give --data-dir"));
    }
    options.server.clear();  // reads the directory itself
    return absl::OkStatus();
  }
  for (const CLI::Option* option : app.get_options()) {
    const std::string flag = option->get_name();
    const bool embedded =
        flag == "--data-dir" || flag == "--store" || option->get_group() == kEngineGroup;
    if (!embedded || !OnCommandLine(argc, argv, flag)) continue;
    if (server)
      return absl::InvalidArgumentError(absl::StrCat("--server and ", flag, " exclude each other"));
    if (!data_dir && !app.got_subcommand("serve")) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " is for an engine of this process, but the environment or the file ",
                       "of options names the server ", options.server, ": unset RECOLLECT_SERVER, ",
                       "or give --data-dir"));
    }
  }
  if (data_dir) options.server.clear();
  return absl::OkStatus();
}

}  // namespace recollect::cli
