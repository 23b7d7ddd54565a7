#include "service/server.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/io/log.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "grpc/grpc.h"
#include "grpc/support/cpu.h"
#include "grpc/support/log.h"
#include "grpcpp/alarm.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "service/limits.h"
#include "service/net/gate.h"
#include "service/net/parse_errors.h"
#include "service/rpc/call.h"
#include "service/rpc/services.h"

namespace recollect::service {
namespace {

constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMinPingIntervalMs = 10'000;  // a client that pings more often is cut off
// A connection without calls is closed after this; its client connects again when it has one. Each
// holds a descriptor, which the store may need.
constexpr int kIdleConnectionMs = 300'000;

// gRPC's own log goes where ours goes; it speaks of sockets and threads, hence a level lower.
void LogFromGrpc(gpr_log_func_args* args) {
  const LogLevel level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug;
  Log(level, "grpc: {}", args->message);
}

// Both are process-wide switches of gRPC that have to be set before a server is built.
void SetUpGrpcOnce() {
  static const bool done = [] {
    gpr_set_log_function(LogFromGrpc);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)done;
}

// Starts all threads that the executor of gRPC may have, two for each CPU, and returns when they
// are there. gRPC 1.51 starts them when work waits, and does not look whether one has started:
// where memory or the number of threads is bounded, work goes to a thread that is not there, and
// its call never ends. Called once a server is built, since gRPC ends them with the last object of
// its own, before that server takes connections, and outside gRPC's callbacks.
void StartGrpcThreads() {
  // The executor starts a thread when more than two closures wait at one that it has.
  constexpr int kClosuresPerThread = 3;
  const int closures = kClosuresPerThread * 2 * static_cast<int>(gpr_cpu_num_cores());
  absl::Notification all_set;
  absl::BlockingCounter unfinished(closures);
  std::deque<grpc::Alarm> alarms(static_cast<size_t>(closures));
  // Callbacks of alarms run on the executor. These wait until the last has been handed over.
  for (grpc::Alarm& alarm : alarms) {
    alarm.Set(gpr_time_0(GPR_CLOCK_REALTIME), [&](bool) {
      all_set.WaitForNotification();
      unfinished.DecrementCount();
    });
  }
  all_set.Notify();
  unfinished.Wait();
}

class GrpcServer final : public Server {
 public:
  GrpcServer(const ServerOptions& options, engine::Engine& engine)
      : engine_(engine),
        max_connections_(options.max_connections),
        documents_(MakeDocumentsService(runtime_, engine)),
        generation_(MakeGenerationService(runtime_, engine)),
        admin_(MakeAdminService(runtime_, engine, options.model_name, options.backup_dir)) {
    runtime_.engine = &engine;
    runtime_.check_health = [this] { CheckHealth(); };
    runtime_.guard = options.guard;
    runtime_.shows_paths = options.listen.empty();
    // Within a process it is the input that is slow.
    runtime_.ingest_silence =
        options.listen.empty() ? absl::InfiniteDuration() : options.ingest_silence;
  }
  ~GrpcServer() override { Drain(absl::InfinitePast()); }

  absl::Status Listen(const ServerOptions& options);
  const std::string& address() const override { return address_; }
  std::shared_ptr<grpc::Channel> InProcessChannel() override;
  MetricFamilies metrics() const override;
  void Drain(absl::Time deadline) override;

 private:
  void SetServing(bool serving);
  void CheckHealth();

  engine::Engine& engine_;
  const int max_connections_;
  Runtime runtime_;  // first of what calls use: destroyed after the server, which waits for them
  const std::unique_ptr<grpc::Service> documents_, generation_, admin_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex gate_mutex_;  // for who reads its numbers while it is closed
  std::unique_ptr<Gate> gate_;
  std::atomic<bool> serving_{false};  // server_ may be used by calls
  Mutex drain_mutex_;
  bool drained_ ABSL_GUARDED_BY(drain_mutex_) = false;
};

absl::Status GrpcServer::Listen(const ServerOptions& options) {
  SetUpGrpcOnce();
  grpc::ServerBuilder builder;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  if (!options.listen.empty()) {
    ASSIGN_OR_RETURN(gate_,
                     Gate::Open(options.listen, options.max_connections, options.certificate));
    address_ = gate_->address();
    acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
  }
  // A client whose host went away says nothing: without pings its ingest would hold the id until
  // TCP gives up, which takes minutes.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
  builder.AddChannelArgument(
      GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.handshake_timeout)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, Gate::kMaxCalls);
  // gRPC expands a message before it looks at its size: a few hundred kilobytes would become
  // hundreds of megabytes. So none is expanded, and the call says so.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  builder.experimental().SetInterceptorCreators(ParseErrorInterceptors());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.RegisterService(documents_.get());
  builder.RegisterService(generation_.get());
  builder.RegisterService(admin_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC does not start");
  SetServing(true);
  serving_ = true;
  CheckHealth();  // calls may have met a loss already
  if (gate_ != nullptr) {
    StartGrpcThreads();
    gate_->Start([acceptor](int connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.fd = connection;
      acceptor->HandleNewConnection(&parameters);
    });
  }
  return absl::OkStatus();
}

void GrpcServer::CheckHealth() {
  const absl::Status health = engine_.health();
  if (health.ok() || !serving_.exchange(false)) return;
  LogError("{}; health is NOT_SERVING until a restart", health.ToString());
  SetServing(false);
}

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus(serving);  // the server as a whole, named ""
  for (const char* service :
       {"recollect.v1.Documents", "recollect.v1.Generation", "recollect.v1.Admin"}) {
    health->SetServingStatus(service, serving);
  }
}

std::shared_ptr<grpc::Channel> GrpcServer::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return server_->InProcessChannel(arguments);
}

void GrpcServer::Drain(absl::Time deadline) {
  MutexLock lock(drain_mutex_);
  if (std::exchange(drained_, true) || server_ == nullptr) return;
  SetServing(false);
  runtime_.draining = true;
  engine_.Shutdown(deadline);
  // Answers that the engine has given may still be on their way to a slow reader.
  runtime_.metrics.AwaitAllBut(kMethod<v1::IngestHeader>.name, deadline);
  // What is still open are ingests that wait for their client, and health watches: they get a
  // moment to end by themselves.
  const absl::Duration left =
      std::clamp(deadline - SteadyNow(), absl::ZeroDuration(), absl::Seconds(1));
  if (gate_ != nullptr) gate_->StopAccepting();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + left));
  std::unique_ptr<Gate> closing;
  {
    MutexLock gate_lock(gate_mutex_);
    closing = std::move(gate_);
  }
}

MetricFamilies GrpcServer::metrics() const {
  MetricFamilies families = runtime_.metrics.Families();
  MutexLock lock(gate_mutex_);
  const int64_t open = gate_ != nullptr ? gate_->connections() : 0;
  families.push_back(MakeGauge("recollect_grpc_connections", "Connections over gRPC that are open.",
                               static_cast<double>(open)));
  families.push_back(MakeGauge("recollect_grpc_connections_limit",
                               "The most connections over gRPC; one more is closed at once.",
                               max_connections_));
  return families;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      engine::Engine& engine) {
  auto server = std::make_unique<GrpcServer>(options, engine);
  if (absl::Status status = server->Listen(options); !status.ok()) return status;
  return server;
}

}  // namespace recollect::service
