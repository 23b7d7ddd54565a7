// The RPC groups Documents, Generation and Admin, and the calls of them that are classes of their
// own.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "service/codec/codec.h"
#include "service/rpc/call.h"

namespace recollect::service {

// Stateless. They borrow runtime and engine for their lives.
std::unique_ptr<grpc::Service> MakeDocumentsService(Runtime& runtime, engine::Engine& engine);
std::unique_ptr<grpc::Service> MakeGenerationService(Runtime& runtime, engine::Engine& engine);
std::unique_ptr<grpc::Service> MakeAdminService(Runtime& runtime, engine::Engine& engine,
                                                std::string model_name, std::string backup_dir);

// Encodes what the engine has answered into the call's response; an error is returned.
template <typename T, typename Message>
absl::Status Put(const absl::StatusOr<T>& answer, Message* response) {
  if (answer.ok()) *response = Encode(*answer);
  return answer.status();
}

// A reactor deletes itself when gRPC is done with it.
grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse>* StartIngestCall(
    Runtime& runtime, engine::Engine& engine, Context* context);
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(
    Runtime& runtime, engine::Engine& engine, Context* context, const v1::GenerateRequest& request);
grpc::ServerWriteReactor<v1::RefreshDocumentResponse>* StartRefreshCall(
    Runtime& runtime, engine::Engine& engine, Context* context,
    const v1::RefreshDocumentRequest& request);
grpc::ServerWriteReactor<v1::ExportDocumentResponse>* StartExportCall(
    Runtime& runtime, engine::Engine& engine, Context* context,
    const v1::ExportDocumentRequest& request);
grpc::ServerBidiReactor<v1::ImportDocumentRequest, v1::ImportDocumentResponse>* StartImportCall(
    Runtime& runtime, engine::Engine& engine, Context* context);

}  // namespace recollect::service
