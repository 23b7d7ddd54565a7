#include "http/server.h"

#include <utility>

#include "base/status.h"
#include "http/api/runtime.h"
#include "http/net/listener.h"

namespace recollect::http {
namespace {

class HttpServer final : public Server {
 public:
  HttpServer(const ServerOptions& options, engine::Engine& engine) : runtime_(options, engine) {}
  ~HttpServer() override { Drain(absl::InfinitePast()); }

  absl::Status Listen() {
    ASSIGN_OR_RETURN(listener_, Listener::Open(runtime_.options, runtime_));
    return absl::OkStatus();
  }
  const std::string& address() const override { return listener_->address(); }
  void Refuse() override { runtime_.traffic.refusing = true; }
  void Drain(absl::Time deadline) override {
    if (listener_ == nullptr) return;
    listener_->Drain(deadline);
    runtime_.Stop();
  }

 private:
  Runtime runtime_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      engine::Engine& engine) {
  auto server = std::make_unique<HttpServer>(options, engine);
  RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace recollect::http
