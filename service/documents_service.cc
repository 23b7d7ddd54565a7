#include "service/documents_service.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "service/codec.h"
#include "service/ingest_call.h"
#include "service/limits.h"

namespace recollect::service {

grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse>* DocumentsService::Ingest(
    grpc::CallbackServerContext* context) {
  return StartIngestCall(runtime_, engine_, context);
}

grpc::ServerUnaryReactor* DocumentsService::GetDocument(grpc::CallbackServerContext* context,
                                                        const v1::GetDocumentRequest* request,
                                                        v1::Document* response) {
  return RunOnPool(
      runtime_, "Documents/GetDocument", context, [this, request, response]() -> absl::Status {
        RETURN_IF_ERROR(CheckDocumentId(request->id()));
        ASSIGN_OR_RETURN(const store::DocumentInfo info, engine_.GetDocument(request->id()));
        *response = Encode(info);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* DocumentsService::ListDocuments(grpc::CallbackServerContext* context,
                                                          const v1::ListDocumentsRequest* request,
                                                          v1::ListDocumentsResponse* response) {
  return RunOnPool(
      runtime_, "Documents/ListDocuments", context, [this, request, response]() -> absl::Status {
        ASSIGN_OR_RETURN(const int64_t size, DecodePageSize(request->page_size()));
        // One more than asked tells whether another page follows. The token of a page is the last
        // id before it. Patterns by head are long: a page ends early before it fills a message.
        ASSIGN_OR_RETURN(auto documents, engine_.ListDocuments(request->page_token(), size + 1));
        size_t bytes = 0;
        for (const store::DocumentInfo& info : documents) {
          if (response->documents_size() == size || bytes > kMaxMessageBytes / 2) {
            response->set_next_page_token(response->documents().rbegin()->id());
            break;
          }
          v1::Document& document = *response->add_documents();
          document = Encode(info);
          bytes += document.ByteSizeLong();
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* DocumentsService::ListIngests(grpc::CallbackServerContext* context,
                                                        const v1::ListIngestsRequest*,
                                                        v1::ListIngestsResponse* response) {
  return RunOnPool(runtime_, "Documents/ListIngests", context, [this, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto ingests, engine_.ListIngests());
    for (const store::IngestProgress& ingest : ingests) *response->add_ingests() = Encode(ingest);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* DocumentsService::DeleteDocument(grpc::CallbackServerContext* context,
                                                           const v1::DeleteDocumentRequest* request,
                                                           v1::DeleteDocumentResponse*) {
  return RunOnPool(runtime_, "Documents/DeleteDocument", context,
                   [this, request]() -> absl::Status {
                     RETURN_IF_ERROR(CheckDocumentId(request->id()));
                     return engine_.DeleteDocument(request->id());
                   });
}

grpc::ServerUnaryReactor* DocumentsService::ReadText(grpc::CallbackServerContext* context,
                                                     const v1::ReadTextRequest* request,
                                                     v1::ReadTextResponse* response) {
  return RunOnPool(
      runtime_, "Documents/ReadText", context, [this, request, response]() -> absl::Status {
        RETURN_IF_ERROR(CheckReadText(*request));
        ASSIGN_OR_RETURN(*response->mutable_text(),
                         engine_.ReadText(request->id(), request->begin(), request->end()));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* DocumentsService::Retrieve(grpc::CallbackServerContext* context,
                                                     const v1::RetrieveRequest* request,
                                                     v1::RetrieveResponse* response) {
  const auto start = [=, this](absl::Time deadline,
                               Done done) -> std::shared_ptr<engine::RequestHandle> {
    absl::StatusOr<engine::RetrieveRequest> decoded = DecodeRetrieve(*request);
    if (!decoded.ok()) {
      done(decoded.status());
      return nullptr;
    }
    decoded->deadline = deadline;
    const bool with_text = request->with_text();
    return engine_.Retrieve(
        *std::move(decoded), [=, this](absl::StatusOr<std::vector<engine::Retrieval>> retrievals) {
          if (!retrievals.ok()) return done(retrievals.status());
          for (const engine::Retrieval& retrieval : *retrievals)
            *response->add_retrievals() = Encode(retrieval);
          if (!with_text) return done(absl::OkStatus());
          // Reading text waits for the disk, and this is a thread of the engine.
          const absl::Status posted = runtime_.pool.Post([=, this] { done(AddTexts(response)); });
          if (!posted.ok()) done(posted);
        });
  };
  return RunAsync(runtime_, "Documents/Retrieve", context, start);
}

absl::Status DocumentsService::AddTexts(v1::RetrieveResponse* response) {
  for (v1::Retrieval& retrieval : *response->mutable_retrievals()) {
    for (v1::Hit& hit : *retrieval.mutable_hits()) {
      if (hit.document().empty()) continue;  // the query's own past
      const absl::StatusOr<std::string> text =
          engine_.ReadText(hit.document(), hit.text_begin(), hit.text_end());
      if (absl::IsNotFound(text.status())) continue;  // deleted since it was retrieved
      RETURN_IF_ERROR(text.status());
      hit.set_text(ValidUtf8(*text));
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::service
