// Names what answers the requests of each route (http/api/routes.cc), now or later, also from other
// threads. Handlers of streams are for routes that take a stream.
#ifndef RECOLLECT_HTTP_API_HANDLERS_H_
#define RECOLLECT_HTTP_API_HANDLERS_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

using Handler = void(Runtime& runtime, const Request& request,
                     const std::shared_ptr<Answer>& answer);

Handler Chat;      // POST /v1/chat/completions
Handler Complete;  // POST /v1/completions
Handler Retrieve;  // POST /v1/retrieve: the chunks that the model would read for a query
Handler Score;     // POST /v1/score: the log probability of each token of a given text
Handler Embed;     // POST /v1/embeddings: texts as retrieval compares them

// POST /tokenize and /detokenize, GET /tokenizer_info: with the names of vLLM, which clients of it
// (lm_eval's remote tokenizer) use.
Handler Tokenize, Detokenize, TokenizerInfo;

// GET /v1/documents?after=ID&limit=N&filter=F: documents and unfinished ingests in byte order of
// their ids; with a filter (store/metadata_filter.h) documents alone.
Handler ListDocuments;
// GET /v1/documents/{}: a document, or how far its unfinished ingest has come.
Handler GetDocument;
// GET /v1/documents/{}/text?begin=B&end=E: bytes of its text; of these the ones that the header
// Range asks for (http/net/ranges.h).
Handler GetText;
Handler DeleteDocument;  // DELETE /v1/documents/{}: also of an unfinished ingest
// PUT /v1/documents/{}/metadata: the body in place of its metadata. PATCH: the keys of the body in
// theirs, without those that are null. Both answer with the document.
Handler PutMetadata, PatchMetadata;
// PUT /v1/documents/{}/refresh: the document, once the model has read it again.
Handler RefreshDocument;
// PUT /v1/documents/{}: a text of any length, read piece by piece as the engine takes it, whole or
// in parts that follow each other. POST /v1/documents/{}/append: likewise what goes on with a
// document, whole. Streams.
Handler PutDocument, AppendToDocument;
// GET /v1/documents/{}/export and PUT /v1/documents/{}/import, a stream: a document as the file of
// `recollect docs export`, piece by piece.
Handler ExportDocument, ImportDocument;

Handler Stats;    // GET /v1/stats: the engine's statistics, and what the model is, as JSON
Handler Metrics;  // GET /metrics: everything that is measured (docs/metrics.md)
Handler OpenApi;  // GET /openapi.json

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_HANDLERS_H_
