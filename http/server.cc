#include "http/server.h"

#include "base/status.h"
#include "http/api/runtime.h"
#include "http/net/listener.h"

namespace recollect::http {

Server::Server(std::unique_ptr<Runtime> runtime, std::unique_ptr<Listener> listener)
    : runtime_(std::move(runtime)), listener_(std::move(listener)) {}
Server::~Server() { Drain(absl::InfinitePast()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      engine::Engine& engine) {
  auto runtime = std::make_unique<Runtime>(options, engine);
  ASSIGN_OR_RETURN(auto listener, Listener::Open(runtime->options, *runtime));
  return std::unique_ptr<Server>(new Server(std::move(runtime), std::move(listener)));
}

const std::string& Server::address() const { return listener_->address(); }

void Server::Refuse() { runtime_->traffic.refusing = true; }

void Server::Drain(absl::Time deadline) {
  listener_->Drain(deadline);
  runtime_->Stop();
}

}  // namespace recollect::http
