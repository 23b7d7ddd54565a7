// RPC group Documents.
#ifndef RECOLLECT_SERVICE_RPC_DOCUMENTS_SERVICE_H_
#define RECOLLECT_SERVICE_RPC_DOCUMENTS_SERVICE_H_

#include <string>
#include <vector>

#include "engine/engine.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

// Stateless. Borrows both for its life.
class DocumentsService final : public v1::Documents::CallbackService {
 public:
  DocumentsService(Runtime& runtime, engine::Engine& engine) : runtime_(runtime), engine_(engine) {}

  grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse>* Ingest(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetDocument(grpc::CallbackServerContext* context,
                                        const v1::GetDocumentRequest* request,
                                        v1::Document* response) override;
  grpc::ServerUnaryReactor* ListDocuments(grpc::CallbackServerContext* context,
                                          const v1::ListDocumentsRequest* request,
                                          v1::ListDocumentsResponse* response) override;
  grpc::ServerUnaryReactor* ListIngests(grpc::CallbackServerContext* context,
                                        const v1::ListIngestsRequest* request,
                                        v1::ListIngestsResponse* response) override;
  grpc::ServerUnaryReactor* SetMetadata(grpc::CallbackServerContext* context,
                                        const v1::SetMetadataRequest* request,
                                        v1::Document* response) override;
  grpc::ServerUnaryReactor* DeleteDocument(grpc::CallbackServerContext* context,
                                           const v1::DeleteDocumentRequest* request,
                                           v1::DeleteDocumentResponse* response) override;
  grpc::ServerUnaryReactor* ReadText(grpc::CallbackServerContext* context,
                                     const v1::ReadTextRequest* request,
                                     v1::ReadTextResponse* response) override;
  grpc::ServerWriteReactor<v1::RefreshDocumentResponse>* RefreshDocument(
      grpc::CallbackServerContext* context, const v1::RefreshDocumentRequest* request) override;
  grpc::ServerWriteReactor<v1::ExportDocumentResponse>* ExportDocument(
      grpc::CallbackServerContext* context, const v1::ExportDocumentRequest* request) override;
  grpc::ServerBidiReactor<v1::ImportDocumentRequest, v1::ImportDocumentResponse>* ImportDocument(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Retrieve(grpc::CallbackServerContext* context,
                                     const v1::RetrieveRequest* request,
                                     v1::RetrieveResponse* response) override;

 private:
  // `hits`: those of the response's retrievals, one after the other.
  absl::Status AddTexts(const std::vector<engine::Hit>& hits, v1::RetrieveResponse* response);
  // Returns `missing`, with the progress of the document's ingest if one has begun.
  absl::Status ExplainMissing(const absl::Status& missing, const std::string& id);

  Runtime& runtime_;
  engine::Engine& engine_;
};

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_DOCUMENTS_SERVICE_H_
