// The common part of every RPC: refusal while draining, keys and rights, deadline, cancellation,
// metrics, one log line, the status map. Handlers only decode, call the engine and encode:
//
//   return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) {
//     return Put(engine_.GetDocument(request->id()), response);
//   });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "access/caller.h"
#include "access/guard.h"
#include "base/clock.h"
#include "base/io/log.h"
#include "base/sync/executor.h"
#include "base/sync/mutex.h"
#include "engine/streams.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "service/rpc/authorize.h"
#include "service/rpc_metrics.h"

namespace recollect::service {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

// State that all calls of one server share. Must outlive them.
struct Runtime {
  static constexpr size_t kMaxQueued = 256;

  // Runs `work` on a thread that may wait for the disk, which gRPC's own threads may not.
  // RESOURCE_EXHAUSTED, and `work` is dropped, if kMaxQueued closures are waiting for a thread.
  absl::Status Post(std::function<void()> work);

  RpcMetrics metrics;
  std::atomic<bool> draining{false};
  std::atomic<int64_t> next_call{1};
  engine::Engine* engine = nullptr;                  // whose sessions callers own
  std::function<void()> check_health;                // after each call that ends UNAVAILABLE
  const access::Guard* guard = nullptr;              // null: no keys are asked for
  bool shows_paths = false;                          // in messages, to callers in this process
  absl::Duration ingest_silence = absl::Minutes(5);  // as in ServerOptions
  absl::Time start = SteadyNow();
  Executor executor{/*threads=*/4, kMaxQueued};  // last: it ends before what it uses
};

// An RPC from its arrival to its status. Thread-safe once constructed.
class Call {
 public:
  // `method` is a constant: "Documents/Ingest".
  Call(Runtime& runtime, const char* method, Context* context);

  // Checks the caller's rights, for example by Authorize.
  using Authorization = absl::FunctionRef<absl::Status(const access::Caller&)>;
  // Admits or refuses the call: UNAVAILABLE while the server drains, UNAUTHENTICATED without a key
  // of the server, PERMISSION_DENIED for a web page if the server asks for no keys, or the error of
  // `authorize`. To be called first.
  absl::Status Admit(Authorization authorize);
  template <typename Request>
  absl::Status AdmitFor(const Request& request) {
    return Admit(
        [&](const access::Caller& caller) { return Authorize(*runtime_.engine, caller, request); });
  }
  // Returns UNAUTHENTICATED once the key with which the call began is no longer valid.
  absl::Status CheckStill() const;
  const access::Caller& caller() const { return caller_; }  // nobody until it is admitted
  absl::Time deadline() const { return deadline_; }
  // The network address by which places are counted (access/places.h).
  std::string peer_address() const;
  engine::Origin origin() const;
  Runtime& runtime() const { return runtime_; }

  // Counts, logs and maps the status. To be called once.
  grpc::Status End(absl::Status status);

 private:
  void LogEnd(LogLevel level, absl::StatusCode code, double ms, const std::string& message) const;

  Runtime& runtime_;
  const std::string method_;
  Context* const context_;
  const int64_t number_;
  const absl::Time start_;
  const absl::Time deadline_;
  access::Caller caller_;
};

// Passes a cancellation to a request handle. The handle exists only after the engine call has
// returned; the cancellation may come earlier. Shared by the reactor and the frame that starts the
// engine call: the call may end before that frame does.
class Cancellation {
 public:
  void Set(std::shared_ptr<engine::RequestHandle> handle);
  void Cancel();
  bool cancelled() const;

 private:
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<engine::RequestHandle> handle_ ABSL_GUARDED_BY(mutex_);
};

using Body = std::function<absl::Status(const access::Caller&)>;
Unary* RunAuthorizedOnPool(Runtime& runtime, const char* method, Context* context,
                           Call::Authorization authorize, Body body, std::function<void()> undo);
// `body` runs on a pool thread and may block. Request and response live until it has returned.
// `undo` reverts its effects if the caller has gone before it received the answer.
template <typename Request>
Unary* RunOnPool(Runtime& runtime, Context* context, const Request* request, Body body,
                 std::function<void()> undo = nullptr) {
  const auto authorize = [&](const access::Caller& caller) {
    return Authorize(*runtime.engine, caller, *request);
  };
  return RunAuthorizedOnPool(runtime, kMethod<Request>.name, context, authorize, std::move(body),
                             std::move(undo));
}

// `start` begins engine work and returns its handle, or null when it has called `done` itself.
// `done` is called once, on any thread.
using Done = std::function<void(absl::Status)>;
using Start = std::function<std::shared_ptr<engine::RequestHandle>(const Call& call, Done done)>;
Unary* RunAuthorizedAsync(Runtime& runtime, const char* method, Context* context,
                          Call::Authorization authorize, const Start& start);
template <typename Request>
Unary* RunAsync(Runtime& runtime, Context* context, const Request* request, const Start& start) {
  const auto authorize = [&](const access::Caller& caller) {
    return Authorize(*runtime.engine, caller, *request);
  };
  return RunAuthorizedAsync(runtime, kMethod<Request>.name, context, authorize, start);
}

}  // namespace recollect::service
