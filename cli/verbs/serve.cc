#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "access/certificate.h"
#include "access/guard.h"
#include "base/clock.h"
#include "base/io/descriptors.h"
#include "base/io/log_fields.h"
#include "base/status.h"
#include "cli/common/host.h"
#include "cli/common/json.h"
#include "cli/common/listen.h"
#include "cli/verbs/verbs.h"
#include "http/net/authorize.h"
#include "http/net/cors.h"
#include "http/net/hosts.h"
#include "http/server.h"
#include "model/model.h"
#include "model/text/printable.h"
#include "service/server.h"

namespace recollect::cli {
namespace {

// For answers of the engine that are still on their way when it has ended.
constexpr absl::Duration kLastAnswers = absl::Seconds(1);

struct ServeOptions {
  std::string grpc_listen = "127.0.0.1:50051";
  std::string http_listen;  // empty: none
  std::vector<std::string> http_hosts, http_cors_origins;
  double drain_timeout_s = 30;
  bool accept_data_loss = false;
  bool insecure = false;
  std::string tls_certificate_file, tls_key_file;  // both or none
};

// What SIGHUP reads again. Null: callers need no keys; nothing is encrypted.
struct Access {
  std::unique_ptr<access::Guard> guard;
  std::unique_ptr<access::Certificate> certificate;
};

// Blocks the signals that are for a server, in this thread and all that it starts later, so that
// Wait can take them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// How many connections there are descriptors for, besides those of the store.
absl::StatusOr<int> DivideDescriptors() {
  constexpr int64_t kLeast = 112;  // 8 connections, 24 tables
  constexpr int64_t kEnough = kOtherDescriptors + kMaxTableDescriptors +
                              service::kMaxConnections * service::kConnectionDescriptors;
  const int64_t limit = RaiseDescriptorLimit();
  if (limit < kLeast) {
    return absl::FailedPreconditionError(absl::StrCat(
        "file descriptors: ", limit, " are allowed (ulimit -n), at least ", kLeast, " are needed"));
  }
  const int64_t connections = std::min<int64_t>(
      ConnectionDescriptors(limit) / service::kConnectionDescriptors, service::kMaxConnections);
  if (limit < kEnough) {
    LogWarning("file descriptors: {} are allowed (ulimit -n), for {} connections; {} do for {}",
               limit, connections, kEnough, service::kMaxConnections);
  }
  return static_cast<int>(connections);
}

// What is left of the descriptors, one for each.
int HttpConnections(int grpc_connections) {
  const int64_t left = ConnectionDescriptors(DescriptorLimit()) -
                       int64_t{grpc_connections} * service::kConnectionDescriptors;
  return static_cast<int>(std::clamp<int64_t>(left, 8, http::kMaxConnections));
}

absl::StatusOr<int64_t> CountDocuments(engine::Engine& engine) {
  constexpr int64_t kPage = 1000;
  int64_t count = 0;
  std::string last;
  while (true) {
    ASSIGN_OR_RETURN(const auto page, engine.ListDocuments(last, kPage));
    count += static_cast<int64_t>(page.size());
    if (static_cast<int64_t>(page.size()) < kPage) return count;
    last = page.back().id;
  }
}

// A device may run out of memory before the budgets that lie on it are full.
void CompareBudgets(const engine::EngineOptions& options, const engine::EngineStats& stats) {
  if (stats.device_total_bytes == 0) return;
  const bool keys = stats.landmark_index != "cpu", layers = stats.backend != "cpu";
  const std::string& device = layers ? stats.backend : stats.landmark_index;
  // As double: budgets that are to bound nothing may be as large as numbers go.
  double there = 0;
  if (keys) there += static_cast<double>(options.landmark_budget_bytes);
  if (keys && layers) there += static_cast<double>(options.memory_budget_bytes);
  if (layers) there += static_cast<double>(options.state_budget_bytes);
  LogInfo("{}: {} of {} bytes free; its budgets sum to {:.0f} bytes", device,
          stats.device_free_bytes, stats.device_total_bytes, there);
  if (there > static_cast<double>(stats.device_free_bytes)) {
    LogWarning("{} may run out of memory before its budgets are full", device);
  }
}

// Whoever reaches another address than the machine's own needs a key, or has been let in on
// purpose.
absl::Status CheckStrangers(absl::string_view flag, const std::string& listen, const Access& access,
                            bool insecure) {
  ASSIGN_OR_RETURN(const bool own, IsLoopback(flag, listen));
  if (own) return absl::OkStatus();
  if (access.guard == nullptr && !insecure) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": ", listen,
        " may be reached from other machines: give --keys FILE (recollect keys create), "
        "or --insecure to let everybody read and delete every document"));
  }
  if (access.guard == nullptr) {
    LogWarning(
        "{} may be reached from other machines: whoever reaches it can read and delete every "
        "document, since no keys are asked for",
        listen);
  }
  if (access.certificate == nullptr) {
    LogWarning(
        "{} may be reached from other machines, and nothing is encrypted (--tls-cert): who "
        "listens on the way reads {}documents",
        listen, access.guard == nullptr ? "" : "keys and ");
  }
  return absl::OkStatus();
}

absl::StatusOr<Access> OpenAccess(const Options& common, const ServeOptions& options) {
  Access access;
  if (!common.keys_file.empty()) {
    ASSIGN_OR_RETURN(access.guard, access::Guard::Open(common.keys_file));
  }
  if (options.tls_certificate_file.empty() != options.tls_key_file.empty())
    return absl::InvalidArgumentError("--tls-cert and --tls-key: give both or none");
  if (!options.tls_key_file.empty()) {
    ASSIGN_OR_RETURN(access.certificate,
                     access::Certificate::Open(options.tls_certificate_file, options.tls_key_file));
  }
  return access;
}

// Without keys a browser on this machine must not be the way in for the pages that it shows. Where
// others may reach the listener, by names that nobody has listed, only --http-hosts says which.
absl::StatusOr<http::Hosts> OpenHosts(const ServeOptions& options, const http::Cors& cors) {
  bool own = false;
  if (!options.http_listen.empty()) {
    ASSIGN_OR_RETURN(own, IsLoopback("--http-listen", options.http_listen));
  }
  return http::Hosts::Create(options.http_listen, options.http_hosts,
                             own || !options.http_hosts.empty(), cors);
}

absl::StatusOr<http::Cors> OpenCors(const ServeOptions& options, const Access& access) {
  ASSIGN_OR_RETURN(const http::Cors cors, http::Cors::Create(options.http_cors_origins));
  if (cors.allows_all() && access.guard == nullptr) {
    return absl::InvalidArgumentError(
        "--http-cors-origins: '*' without --keys lets every page that a browser here shows read "
        "all "
        "documents; expected the origins of your pages, or --keys");
  }
  return cors;
}

// On a failure what there was stays.
void Reload(const Access& access) {
  if (access.guard == nullptr && access.certificate == nullptr)
    return LogInfo("SIGHUP: there is nothing to read again");
  const auto reload = [](auto* what, const char* stays) {
    if (what == nullptr) return;
    if (absl::Status status = what->Reload(); !status.ok())
      LogError("SIGHUP: {}: {}", stays, status.ToString());
  };
  reload(access.guard.get(), "the keys stay as they were");
  reload(access.certificate.get(), "the certificate stays as it was");
}

// Until a signal that ends the server, which is returned.
int AwaitStop(const sigset_t& signals, const Access& access) {
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGHUP) return signal;
    Reload(access);
  }
}

// Every option as it counts, whether it comes from a flag, the environment, the file or nowhere.
void LogOptions(const CLI::App& app, const CLI::App& verb) {
  // Of help, of what has counted already, of what asks a server.
  constexpr absl::string_view kOther[] = {"help", "help-all", "version", "config", "server"};
  std::vector<LogField> fields;
  std::string line = "options:";
  for (const CLI::App* part : {&app, &verb}) {
    for (const CLI::Option* option : part->get_options()) {
      if (option->get_lnames().empty()) continue;
      const std::string& name = option->get_lnames().front();
      if (std::find(std::begin(kOther), std::end(kOther), name) != std::end(kOther)) continue;
      std::string value = absl::StrJoin(option->results(), ",");
      if (value.empty()) value = option->get_default_str();
      if (value.empty()) value = option->get_expected_max() == 0 ? "false" : "unset";
      fields.push_back({name.c_str(), value});
      absl::StrAppend(&line, " ", name, "=", model::EscapeInvisible(value));
    }
  }
  LogEvent(LogLevel::kInfo, "options", fields, line);
}

absl::Status Serve(const CLI::App& app, const CLI::App& verb, const Options& common,
                   const ServeOptions& options) {
  if (common.log_level.empty()) SetLogLevel(LogLevel::kInfo);
  LogOptions(app, verb);
  RETURN_IF_ERROR(CheckListen("--grpc-listen", options.grpc_listen));
  if (!options.http_listen.empty())
    RETURN_IF_ERROR(CheckListen("--http-listen", options.http_listen));
  ASSIGN_OR_RETURN(const Access access, OpenAccess(common, options));
  RETURN_IF_ERROR(CheckStrangers("--grpc-listen", options.grpc_listen, access, options.insecure));
  if (!options.http_listen.empty()) {
    RETURN_IF_ERROR(CheckStrangers("--http-listen", options.http_listen, access, options.insecure));
  }
  ASSIGN_OR_RETURN(const http::Cors cors, OpenCors(options, access));
  ASSIGN_OR_RETURN(const http::Hosts hosts, OpenHosts(options, cors));
  ASSIGN_OR_RETURN(const int connections, DivideDescriptors());
  const sigset_t signals = BlockSignals();
  HostOptions host_options = common.host;
  host_options.accept_data_loss = options.accept_data_loss;
  host_options.keeps_model = true;
  ASSIGN_OR_RETURN(Host host, CreateHost(host_options));
  ASSIGN_OR_RETURN(const int64_t documents, CountDocuments(*host.engine));
  ASSIGN_OR_RETURN(auto server, service::Server::Start({.listen = options.grpc_listen,
                                                        .model_name = host.model_name,
                                                        .backup_dir = common.backup_dir,
                                                        .max_connections = connections,
                                                        .guard = access.guard.get(),
                                                        .certificate = access.certificate.get()},
                                                       *host.engine));
  std::unique_ptr<http::Server> http;
  if (!options.http_listen.empty()) {
    http::ServerOptions http_options = {
        .listen = options.http_listen,
        .model_name = host.model_name,
        .tokenizer = host.engine->model().tokenizer(),
        .chat = host.engine->model().chat_template() != nullptr,
        .max_connections = HttpConnections(connections),
        .version = RECOLLECT_VERSION,
        .model = &host.engine->model(),
        .more_metrics = [&grpc = *server] { return grpc.metrics(); },
        .authorize = [&hosts](const http::Request& request) { return hosts.Admit(request); },
        .cors = cors,
        .certificate = access.certificate.get()};
    if (access.guard != nullptr) {
      http_options.authorize = [&guard = *access.guard](const http::Request& request) {
        return http::Authorize(guard, request);
      };
    }
    ASSIGN_OR_RETURN(http, http::Server::Start(http_options, *host.engine));
  }
  const engine::EngineOptions& engine = common.host.engine;
  const engine::EngineStats stats = host.engine->stats();
  LogInfo(
      "serving {} with {} on {}; threads {} (0: all), layers on {}, landmark keys on {}, index {}, "
      "budgets: "
      "landmark keys {}, memory K, V {}, chunk states {}, sessions' states {} bytes",
      host.data_dir, host.model_name, server->address(), common.host.threads, stats.backend,
      stats.landmark_index, stats.index, engine.landmark_budget_bytes, engine.memory_budget_bytes,
      engine.chunk_states_budget_bytes, engine.state_budget_bytes);
  CompareBudgets(engine, stats);
  if (http != nullptr) LogInfo("HTTP on {}", http->address());
  if (common.json) {
    nlohmann::json ready = {{"grpc", server->address()},
                            {"pid", getpid()},
                            {"model", host.model_name},
                            {"documents", documents}};
    if (http != nullptr) ready["http"] = http->address();
    PrintJson(ready);
  } else {
    absl::PrintF("recollect ready grpc=%s pid=%d model=%s documents=%d%s\n", server->address(),
                 getpid(), host.model_name, documents,
                 http == nullptr ? "" : absl::StrCat(" http=", http->address()));
  }
  std::fflush(stdout);

  const int signal = AwaitStop(signals, access);
  LogInfo("signal {}: draining for up to {} s; a second signal ends the process at once", signal,
          options.drain_timeout_s);
  for (const int second : {SIGINT, SIGTERM}) ::signal(second, SIG_DFL);  // a shell may ignore one
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const absl::Time deadline = SteadyNow() + absl::Seconds(options.drain_timeout_s);
  if (http != nullptr) http->Refuse();
  server->Drain(deadline);  // and the engine, which ends what HTTP has begun
  if (http != nullptr) http->Drain(std::max(deadline, SteadyNow() + kLastAnswers));
  LogInfo("stopped");
  return absl::OkStatus();
}

}  // namespace

void AddServe(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand("serve", "Serve gRPC until SIGTERM");
  auto options = std::make_shared<ServeOptions>();
  FromEnvironment(
      verb->add_option("--grpc-listen", options->grpc_listen, "Address; port 0: any free port"))
      ->type_name("HOST:PORT")
      ->capture_default_str();
  FromEnvironment(verb->add_option("--http-listen", options->http_listen,
                                   "Address of OpenAI-style HTTP; none unless given"))
      ->type_name("HOST:PORT");
  FromEnvironment(verb->add_option("--http-hosts", options->http_hosts,
                                   "Names by which HTTP without keys may be asked, besides "
                                   "localhost and IP addresses"))
      ->delimiter(',')
      ->type_name("NAME,...");
  FromEnvironment(verb->add_option("--http-cors-origins", options->http_cors_origins,
                                   "Sites whose pages may use HTTP from a browser (CORS); '*' with "
                                   "--keys: all"))
      ->delimiter(',')
      ->type_name("ORIGIN,...");
  FromEnvironment(verb->add_option("--drain-timeout", options->drain_timeout_s,
                                   "Time for running calls to end after SIGTERM"))
      ->check(Seconds(3600))
      ->type_name("SECONDS")
      ->capture_default_str();
  AddKeysFile(*verb, command.options);
  verb->add_flag(
      "--insecure", options->insecure,
      "Listen for other machines without keys: whoever reaches the port may do everything");
  FromEnvironment(verb->add_option("--tls-cert", options->tls_certificate_file,
                                   "File of the certificate for TLS (PEM), and of those that "
                                   "vouch for it; read again on SIGHUP"))
      ->type_name("FILE");
  FromEnvironment(verb->add_option("--tls-key", options->tls_key_file,
                                   "File of its private key (PEM, without a password)"))
      ->type_name("FILE");
  AddBackupDir(*verb, command.options);
  verb->add_flag("--accept-data-loss", options->accept_data_loss,
                 "Start with a damaged data directory, without the lost data, which the log names");
  verb->footer(
      "\nOnce ready it prints one line on standard output:\n"
      "  recollect ready grpc=127.0.0.1:50051 pid=4711 model=recollect-7m documents=3\n"
      "or, with --json, the same as an object.\n"
      "\n"
      "Examples:\n"
      "  recollect serve --data-dir /var/lib/recollect --chunk-states-budget 8GiB\n"
      "  recollect serve --grpc-listen 127.0.0.1:0 --log-level warning\n"
      "  recollect serve --grpc-listen 127.0.0.1:0 --http-listen 127.0.0.1:0\n"
      "  recollect serve --config deploy/recollect.toml\n"
      "\nSIGTERM drains: health becomes NOT_SERVING, new calls get UNAVAILABLE, running ones "
      "finish. SIGHUP reads the files of --keys, --tls-cert and --tls-key again.\n"
      "Common options (--data-dir, --model, --threads, budgets …): recollect --help\n");
  verb->callback([&app, verb, &command, options] {
    command.run = [&app, verb, &command, options] {
      return Serve(app, *verb, command.options, *options);
    };
  });
}

}  // namespace recollect::cli
