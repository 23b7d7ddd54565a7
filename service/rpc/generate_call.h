// The stream Generation/Generate.
#ifndef RECOLLECT_SERVICE_RPC_GENERATE_CALL_H_
#define RECOLLECT_SERVICE_RPC_GENERATE_CALL_H_

#include "engine/engine.h"
#include "grpcpp/support/server_callback.h"
#include "recollect/v1/generation.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

// The reactor deletes itself when gRPC is done with it.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(
    Runtime& runtime, engine::Engine& engine, grpc::CallbackServerContext* context,
    const v1::GenerateRequest& request);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_GENERATE_CALL_H_
