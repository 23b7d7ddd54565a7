#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/memory.h"
#include "base/status.h"
#include "recollect/v1/generation.grpc.pb.h"
#include "service/net/sockets.h"
#include "service/rpc/services.h"

namespace recollect::service {
namespace {

// Cancels engine work that another thread begins.
class LaterHandle final : public engine::RequestHandle {
 public:
  void Set(std::shared_ptr<engine::RequestHandle> handle) { cancellation_.Set(std::move(handle)); }
  void Cancel() override { cancellation_.Cancel(); }

 private:
  Cancellation cancellation_;
};

class GenerationService final : public v1::Generation::CallbackService {
 public:
  GenerationService(Runtime& runtime, engine::Engine& engine)
      : runtime_(runtime), engine_(engine) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      Context* context, const v1::GenerateRequest* request) override {
    return StartGenerateCall(runtime_, engine_, context, *request);
  }

  Unary* OpenSession(Context* context, const v1::OpenSessionRequest* request,
                     v1::Session* response) override {
    const auto opened = std::make_shared<std::optional<engine::SessionId>>();
    const std::string peer = PeerAddress(PeerName(context->peer()));
    const auto open = [=, this](const access::Caller& caller) -> absl::Status {
      ASSIGN_OR_RETURN(
          *opened,
          engine_.OpenSession(Decode(request->session()),
                              {.peer = peer, .owner = caller.name(), .account = caller.account()}));
      return Put(engine_.GetSession(**opened), response);
    };
    // Nobody else knows the session's id: it would hold its mounts until it expires.
    const auto close = [this, opened] {
      if (opened->has_value()) engine_.CloseSession(**opened).IgnoreError();
    };
    return RunOnPool(runtime_, context, request, open, close);
  }

  Unary* GetSession(Context* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller& caller) {
      return Put(GetOwnSession(engine_, caller, request->id()), response);
    });
  }

  Unary* CloseSession(Context* context, const v1::CloseSessionRequest* request,
                      v1::CloseSessionResponse*) override {
    return RunOnPool(runtime_, context, request,
                     [=, this](const access::Caller& caller) -> absl::Status {
                       RETURN_IF_ERROR(GetOwnSession(engine_, caller, request->id()).status());
                       return engine_.CloseSession(engine::SessionId{request->id()});
                     });
  }

  Unary* SaveSession(Context* context, const v1::SaveSessionRequest* request,
                     v1::Document* response) override {
    const auto start = [=, this](const Call& call,
                                 Done done) -> std::shared_ptr<engine::RequestHandle> {
      const auto handle = std::make_shared<LaterHandle>();
      const engine::Origin origin = call.origin();
      const absl::Status posted = runtime_.Post([=, this] {
        handle->Set(engine_.SaveSession(
            engine::SessionId{request->session_id()},
            {.id = request->document_id(), .replace = request->replace(), .peer = origin.peer},
            origin, [response, done](const absl::StatusOr<store::DocumentInfo>& document) {
              done(Put(document, response));
            }));
      });
      if (!posted.ok()) done(posted);
      return handle;
    };
    return RunAsync(runtime_, context, request, start);
  }

  Unary* Score(Context* context, const v1::ScoreRequest* request,
               v1::ScoreResponse* response) override {
    const auto start = [=, this](const Call& call,
                                 Done done) -> std::shared_ptr<engine::RequestHandle> {
      absl::StatusOr<engine::ScoreRequest> decoded = Decode(*request);
      if (!decoded.ok()) {
        done(decoded.status());
        return nullptr;
      }
      decoded->deadline = call.deadline();
      decoded->account = call.caller().account();
      return engine_.Score(*std::move(decoded),
                           [response, done](const absl::StatusOr<engine::ScoreResult>& result) {
                             done(OrExhausted("an answer", [&] { return Put(result, response); }));
                           });
    };
    return RunAsync(runtime_, context, request, start);
  }

 private:
  Runtime& runtime_;
  engine::Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGenerationService(Runtime& runtime, engine::Engine& engine) {
  return std::make_unique<GenerationService>(runtime, engine);
}

}  // namespace recollect::service
