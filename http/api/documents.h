// Documents: list, one, its text, delete. Uploads are in http/api/upload.h.
#ifndef RECOLLECT_HTTP_API_DOCUMENTS_H_
#define RECOLLECT_HTTP_API_DOCUMENTS_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"
#include "nlohmann/json.hpp"
#include "store/document_store.h"

namespace recollect::http {

// A published document as answers show it.
nlohmann::json EncodeDocument(const store::DocumentInfo& info);

// GET /v1/documents?after=ID&limit=N&filter=F: documents and unfinished ingests in byte order of
// their ids; with a filter (store/metadata_filter.h) documents alone.
void ListDocuments(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
// GET /v1/documents/{}: a document, or how far its unfinished ingest has come.
void GetDocument(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
// GET /v1/documents/{}/text?begin=B&end=E: bytes of its text; of these the ones that the header
// Range asks for (http/net/range.h).
void GetText(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
// DELETE /v1/documents/{}: also of an unfinished ingest.
void DeleteDocument(Runtime& runtime, const Request& request,
                    const std::shared_ptr<Answer>& answer);
// PUT /v1/documents/{}/metadata: the body in place of its metadata. PATCH: the keys of the body in
// theirs, without those that are null. Both answer with the document.
void PutMetadata(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
void PatchMetadata(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
// PUT /v1/documents/{}/refresh: the document, once the model has read it again.
void RefreshDocument(Runtime& runtime, const Request& request,
                     const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_DOCUMENTS_H_
