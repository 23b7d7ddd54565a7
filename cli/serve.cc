#include <netdb.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/host.h"
#include "cli/json.h"
#include "cli/verbs.h"
#include "http/server.h"
#include "model/model.h"
#include "service/server.h"

namespace recollect::cli {
namespace {

// For answers of the engine that are still on their way when it has ended.
constexpr absl::Duration kLastAnswers = absl::Seconds(1);

struct ServeOptions {
  std::string grpc_listen = "127.0.0.1:50051";
  std::string http_listen;  // empty: none
  double drain_timeout_s = 30;
  bool accept_data_loss = false;
};

// Blocks the signals that end a server, in this thread and all that it starts later, so that Wait
// can take them.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// gRPC says of a name that is none only that it cannot listen there.
absl::Status CheckResolves(absl::string_view flag, const std::string& listen,
                           const std::string& host) {
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error == 0) freeaddrinfo(found);
  if (error == 0) return absl::OkStatus();
  return absl::Status(
      error == EAI_AGAIN ? absl::StatusCode::kUnavailable : absl::StatusCode::kInvalidArgument,
      absl::StrCat(flag, ": '", listen, "': no address of the host '", host,
                   "': ", gai_strerror(error)));
}

// gRPC takes more: a port modulo 2^16 or by name, no port for 443, sockets of other kinds.
absl::Status CheckListen(absl::string_view flag, const std::string& listen) {
  const size_t colon = std::min(listen.rfind(':'), listen.size());
  const absl::string_view host = absl::string_view(listen).substr(0, colon);
  const absl::string_view port =
      absl::string_view(listen).substr(std::min(colon + 1, listen.size()));
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool host_ok = brackets || (!host.empty() && !absl::StrContains(host, ':') &&
                                    host != "unix" && host != "unix-abstract");
  const bool digits = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  int number = 0;
  if (host_ok && digits && absl::SimpleAtoi(port, &number) && number <= 65535)
    return CheckResolves(flag, listen,
                         std::string(brackets ? host.substr(1, host.size() - 2) : host));
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", listen, "', expected HOST:PORT with a port of 0 to 65535"));
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

void WarnOfStrangers(const std::string& listen) {
  for (const char* own : {"127.", "[::1]:", "localhost:"})
    if (absl::StartsWith(listen, own)) return;
  LogWarning(
      "{} may be reached from other machines: whoever reaches it can read and delete every "
      "document, since there is neither authentication nor encryption",
      listen);
}

absl::Status Serve(const Options& common, const ServeOptions& options) {
  if (common.log_level.empty()) SetLogLevel(LogLevel::kInfo);
  RETURN_IF_ERROR(CheckListen("--grpc-listen", options.grpc_listen));
  WarnOfStrangers(options.grpc_listen);
  if (!options.http_listen.empty()) {
    RETURN_IF_ERROR(CheckListen("--http-listen", options.http_listen));
    WarnOfStrangers(options.http_listen);
  }
  ASSIGN_OR_RETURN(const int connections, DivideDescriptors());
  const sigset_t signals = BlockStopSignals();
  HostOptions host_options = common.host;
  host_options.accept_data_loss = options.accept_data_loss;
  ASSIGN_OR_RETURN(Host host, CreateHost(host_options));
  ASSIGN_OR_RETURN(const int64_t documents, CountDocuments(*host.engine));
  ASSIGN_OR_RETURN(auto server, service::Server::Start({options.grpc_listen, host.model_name,
                                                        common.backup_dir, connections},
                                                       *host.engine));
  std::unique_ptr<http::Server> http;
  if (!options.http_listen.empty()) {
    ASSIGN_OR_RETURN(http, http::Server::Start({.listen = options.http_listen,
                                                .model_name = host.model_name,
                                                .tokenizer = host.engine->model().tokenizer(),
                                                .max_connections = HttpConnections(connections)},
                                               *host.engine));
  }
  const engine::EngineOptions& engine = common.host.engine;
  const engine::EngineStats stats = host.engine->stats();
  LogInfo(
      "serving {} with {} on {}; threads {} (0: all), layers on {}, landmark keys on {}, budgets: "
      "landmark keys {}, memory K, V {}, chunk states {}, sessions' states {} bytes",
      host.data_dir, host.model_name, server->address(), common.host.threads, stats.backend,
      stats.landmark_index, engine.landmark_budget_bytes, engine.memory_budget_bytes,
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
    std::printf("recollect ready grpc=%s pid=%d model=%s documents=%lld%s\n",
                server->address().c_str(), getpid(), host.model_name.c_str(),
                static_cast<long long>(documents),
                http == nullptr ? "" : absl::StrCat(" http=", http->address()).c_str());
  }
  std::fflush(stdout);

  int signal = 0;
  sigwait(&signals, &signal);
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
  FromEnvironment(verb->add_option("--drain-timeout", options->drain_timeout_s,
                                   "Time for running calls to end after SIGTERM"))
      ->check(Seconds(3600))
      ->type_name("SECONDS")
      ->capture_default_str();
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
      "finish.\n"
      "Common options (--data-dir, --model, --threads, budgets …): recollect --help\n");
  verb->callback([&command, options] {
    command.run = [&command, options] { return Serve(command.options, *options); };
  });
}

}  // namespace recollect::cli
