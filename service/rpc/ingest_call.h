// The stream Documents/Ingest.
#ifndef RECOLLECT_SERVICE_RPC_INGEST_CALL_H_
#define RECOLLECT_SERVICE_RPC_INGEST_CALL_H_

#include "engine/engine.h"
#include "grpcpp/support/server_callback.h"
#include "recollect/v1/documents.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

inline constexpr char kIngestMethod[] = "Documents/Ingest";

// The reactor deletes itself when gRPC is done with it.
grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse>* StartIngestCall(
    Runtime& runtime, engine::Engine& engine, grpc::CallbackServerContext* context);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_INGEST_CALL_H_
