#include <algorithm>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/status.h"
#include "engine/block_texts.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "service/limits.h"
#include "service/rpc/services.h"

namespace recollect::service {
namespace {

// Encodes up to `size` of `entries`; returns the token of the page behind them, which is the last
// id of this one, or nothing when they are all. Patterns by head are long: a page ends early before
// it fills a message.
template <typename Entries, typename Messages>
std::string FillPage(const Entries& entries, int64_t size, Messages& page) {
  size_t bytes = 0;
  for (const auto& entry : entries) {
    if (page.size() == size || bytes > kMaxMessageBytes / 2) return page.rbegin()->id();
    auto& message = *page.Add();
    message = Encode(entry);
    bytes += message.ByteSizeLong();
  }
  return "";
}

class DocumentsService final : public v1::Documents::CallbackService {
 public:
  DocumentsService(Runtime& runtime, engine::Engine& engine) : runtime_(runtime), engine_(engine) {}

  grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse>* Ingest(
      Context* context) override {
    return StartIngestCall(runtime_, engine_, context);
  }

  Unary* GetDocument(Context* context, const v1::GetDocumentRequest* request,
                     v1::Document* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) {
      const absl::Status got = Put(engine_.GetDocument(request->id()), response);
      return absl::IsNotFound(got) ? ExplainMissing(got, request->id()) : got;
    });
  }

  Unary* ListDocuments(Context* context, const v1::ListDocumentsRequest* request,
                       v1::ListDocumentsResponse* response) override {
    return RunOnPool(
        runtime_, context, request, [=, this](const access::Caller& caller) -> absl::Status {
          ASSIGN_OR_RETURN(const int64_t size, DecodePageSize(request->page_size()));
          // One more than asked tells whether another page follows.
          ASSIGN_OR_RETURN(
              auto documents,
              engine_.ListDocuments(caller.ListFrom(request->page_token()), size + 1,
                                    {.beginning = caller.prefix(), .filter = request->filter()}));
          std::erase_if(documents, [&](const auto& d) { return !caller.MaySee(d.id); });
          response->set_next_page_token(FillPage(documents, size, *response->mutable_documents()));
          return absl::OkStatus();
        });
  }

  Unary* SetMetadata(Context* context, const v1::SetMetadataRequest* request,
                     v1::Document* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) {
      const auto change =
          request->patch() ? engine::MetadataChange::kPatch : engine::MetadataChange::kReplace;
      return Put(engine_.SetMetadata(request->id(), request->metadata(), change), response);
    });
  }

  Unary* ListIngests(Context* context, const v1::ListIngestsRequest* request,
                     v1::ListIngestsResponse* response) override {
    return RunOnPool(
        runtime_, context, request, [=, this](const access::Caller& caller) -> absl::Status {
          ASSIGN_OR_RETURN(const int64_t size, DecodePageSize(request->page_size()));
          ASSIGN_OR_RETURN(auto ingests, engine_.ListIngests());
          std::erase_if(ingests, [&](const auto& i) {
            return i.id <= request->page_token() || !caller.MaySee(i.id);
          });
          std::sort(ingests.begin(), ingests.end(),
                    [](const auto& a, const auto& b) { return a.id < b.id; });
          response->set_next_page_token(FillPage(ingests, size, *response->mutable_ingests()));
          return absl::OkStatus();
        });
  }

  Unary* DeleteDocument(Context* context, const v1::DeleteDocumentRequest* request,
                        v1::DeleteDocumentResponse*) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) {
      return engine_.DeleteDocument(request->id());
    });
  }

  Unary* ReadText(Context* context, const v1::ReadTextRequest* request,
                  v1::ReadTextResponse* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) -> absl::Status {
      RETURN_IF_ERROR(CheckReadText(*request));
      ASSIGN_OR_RETURN(*response->mutable_text(),
                       engine_.ReadText(request->id(), request->begin(), request->end()));
      return absl::OkStatus();
    });
  }

  grpc::ServerWriteReactor<v1::RefreshDocumentResponse>* RefreshDocument(
      Context* context, const v1::RefreshDocumentRequest* request) override {
    return StartRefreshCall(runtime_, engine_, context, *request);
  }

  grpc::ServerWriteReactor<v1::ExportDocumentResponse>* ExportDocument(
      Context* context, const v1::ExportDocumentRequest* request) override {
    return StartExportCall(runtime_, engine_, context, *request);
  }

  grpc::ServerBidiReactor<v1::ImportDocumentRequest, v1::ImportDocumentResponse>* ImportDocument(
      Context* context) override {
    return StartImportCall(runtime_, engine_, context);
  }

  Unary* Retrieve(Context* context, const v1::RetrieveRequest* request,
                  v1::RetrieveResponse* response) override {
    const auto start = [=, this](const Call& call,
                                 Done done) -> std::shared_ptr<engine::RequestHandle> {
      engine::RetrieveRequest decoded = Decode(*request);
      decoded.deadline = call.deadline();
      decoded.account = call.caller().account();
      const bool with_text = request->with_text();
      return engine_.Retrieve(
          std::move(decoded), [=, this](absl::StatusOr<std::vector<engine::Retrieval>> retrievals) {
            std::vector<engine::Hit> hits;
            const absl::Status answered = OrExhausted("an answer", [&] {
              if (!retrievals.ok()) return retrievals.status();
              for (const engine::Retrieval& retrieval : *retrievals) {
                *response->add_retrievals() = Encode(retrieval);
                hits.insert(hits.end(), retrieval.hits.begin(), retrieval.hits.end());
              }
              return absl::OkStatus();
            });
            if (!answered.ok() || !with_text) return done(answered);
            // Reading text waits for the disk, and this is a thread of the engine.
            const absl::Status posted = runtime_.Post([=, this] {
              done(OrExhausted("texts", [&] { return AddTexts(hits, response); }));
            });
            if (!posted.ok()) done(posted);
          });
    };
    return RunAsync(runtime_, context, request, start);
  }

 private:
  // `hits`: those of the response's retrievals, one after the other.
  absl::Status AddTexts(const std::vector<engine::Hit>& hits, v1::RetrieveResponse* response) {
    ASSIGN_OR_RETURN(std::vector<std::string> texts, engine::ReadBlockTexts(engine_, hits));
    auto text = texts.begin();
    for (v1::Retrieval& retrieval : *response->mutable_retrievals()) {
      for (v1::Hit& hit : *retrieval.mutable_hits()) {
        if (!text->empty()) hit.set_text(std::move(*text));
        ++text;
      }
    }
    return absl::OkStatus();
  }

  // Returns `missing`, with the progress of the document's ingest if one has begun.
  absl::Status ExplainMissing(const absl::Status& missing, const std::string& id) {
    const auto ingests = engine_.ListIngests();
    if (!ingests.ok()) return missing;
    for (const store::IngestProgress& ingest : *ingests) {
      if (ingest.id != id) continue;
      return absl::NotFoundError(absl::StrCat(missing.message(),
                                              ": its ingest is unfinished, committed up to offset ",
                                              ingest.input_offset));
    }
    return missing;
  }

  Runtime& runtime_;
  engine::Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeDocumentsService(Runtime& runtime, engine::Engine& engine) {
  return std::make_unique<DocumentsService>(runtime, engine);
}

}  // namespace recollect::service
