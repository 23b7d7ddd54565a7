// Names what answers the requests of each route (http/api/routes.cc), now or later, also from other
// threads. An error that a handler returns is the answer, and is for its caller to send. Handlers
// of streams are for routes that take a stream.
#pragma once

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

using Handler = absl::Status(Runtime& runtime, const Request& request,
                             const std::shared_ptr<Answer>& answer);

Handler Chat, Complete;
Handler Retrieve;  // the chunks that the model would read for a query
Handler Score;     // the log probability of each token of a given text
Handler Embed;     // texts as retrieval compares them
// With the names of vLLM, which clients of it (lm_eval's remote tokenizer) use.
Handler Tokenize, Detokenize, TokenizerInfo;

// Documents and unfinished ingests in byte order of their ids; with a filter
// (store/metadata_filter.h) documents alone.
Handler ListDocuments;
Handler GetDocument;      // or how far its unfinished ingest has come
Handler GetText;          // of the bytes asked for the ones in the header Range (http/net/ranges.h)
Handler DeleteDocument;   // also of an unfinished ingest
Handler PutMetadata;      // in place of what it has
Handler PatchMetadata;    // key by key; null removes one
Handler RefreshDocument;  // has the model read it again
// A text of any length, read piece by piece as the engine takes it. Streams.
Handler PutDocument, AppendToDocument;
Handler ExportDocument, ImportDocument;  // as the file of `recollect docs export`; import: a stream

Handler Stats;    // the engine's statistics, and what the model is
Handler Metrics;  // everything that is measured (docs/metrics.md)
Handler OpenApi;

}  // namespace recollect::http
