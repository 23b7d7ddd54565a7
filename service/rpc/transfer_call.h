// The RPCs that carry documents as files: ExportDocument and ImportDocument.
#ifndef RECOLLECT_SERVICE_RPC_TRANSFER_CALL_H_
#define RECOLLECT_SERVICE_RPC_TRANSFER_CALL_H_

#include "engine/engine.h"
#include "grpcpp/support/server_callback.h"
#include "recollect/v1/documents.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

grpc::ServerWriteReactor<v1::ExportDocumentResponse>* StartExportCall(
    Runtime& runtime, engine::Engine& engine, grpc::CallbackServerContext* context,
    const v1::ExportDocumentRequest& request);

grpc::ServerBidiReactor<v1::ImportDocumentRequest, v1::ImportDocumentResponse>* StartImportCall(
    Runtime& runtime, engine::Engine& engine, grpc::CallbackServerContext* context);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_TRANSFER_CALL_H_
