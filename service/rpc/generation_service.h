// RPC group Generation.
#ifndef RECOLLECT_SERVICE_RPC_GENERATION_SERVICE_H_
#define RECOLLECT_SERVICE_RPC_GENERATION_SERVICE_H_

#include "engine/engine.h"
#include "recollect/v1/generation.grpc.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

// Stateless. Borrows both for its life.
class GenerationService final : public v1::Generation::CallbackService {
 public:
  GenerationService(Runtime& runtime, engine::Engine& engine)
      : runtime_(runtime), engine_(engine) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest* request,
                                        v1::Session* response) override;
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context,
                                       const v1::GetSessionRequest* request,
                                       v1::Session* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;
  grpc::ServerUnaryReactor* SaveSession(grpc::CallbackServerContext* context,
                                        const v1::SaveSessionRequest* request,
                                        v1::Document* response) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const v1::ScoreRequest* request,
                                  v1::ScoreResponse* response) override;

 private:
  Runtime& runtime_;
  engine::Engine& engine_;
};

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_GENERATION_SERVICE_H_
