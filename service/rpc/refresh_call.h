// The RPC RefreshDocument.
#ifndef RECOLLECT_SERVICE_RPC_REFRESH_CALL_H_
#define RECOLLECT_SERVICE_RPC_REFRESH_CALL_H_

#include "engine/engine.h"
#include "grpcpp/support/server_callback.h"
#include "recollect/v1/documents.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

grpc::ServerWriteReactor<v1::RefreshDocumentResponse>* StartRefreshCall(
    Runtime& runtime, engine::Engine& engine, grpc::CallbackServerContext* context,
    const v1::RefreshDocumentRequest& request);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_REFRESH_CALL_H_
