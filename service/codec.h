// Converts between recollect.v1 messages and the engine's types. Decoding validates: each problem
// of a request is INVALID_ARGUMENT naming the field, its value and the limit (service/limits.h).
// Encoding cannot fail.
#ifndef RECOLLECT_SERVICE_CODEC_H_
#define RECOLLECT_SERVICE_CODEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/engine.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"
#include "service/rpc_metrics.h"

namespace recollect::service {

// INVALID_ARGUMENT "field: value, limit low to high" unless low <= value <= high.
template <typename T>
absl::Status CheckRange(absl::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();  // NaN fails both
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, ", limit ", low, " to ", high));
}

// --- documents
absl::Status CheckDocumentId(const std::string& id);
// For a document to be ingested: also refuses characters that are separators in commands and logs.
absl::Status CheckNewDocumentId(const std::string& id);
absl::StatusOr<int64_t> DecodePageSize(int32_t page_size);
absl::Status CheckReadText(const v1::ReadTextRequest& request);
absl::Status CheckPiece(const v1::IngestPiece& piece, bool from_tokens);
absl::StatusOr<engine::SessionOptions> DecodeSessionOptions(const v1::SessionOptions& session);
absl::StatusOr<engine::Prompt> DecodePrompt(const v1::Prompt& prompt, absl::string_view field,
                                            int64_t max_tokens);
absl::StatusOr<engine::RetrieveRequest> DecodeRetrieve(const v1::RetrieveRequest& request);

v1::Document Encode(const store::DocumentInfo& info);
v1::UnfinishedIngest Encode(const store::IngestProgress& progress);
v1::IngestProgress Encode(const engine::IngestStatus& status);
v1::Retrieval Encode(const engine::Retrieval& retrieval);

// --- generation
absl::StatusOr<engine::GenerateRequest> DecodeGenerate(const v1::GenerateRequest& request);
absl::StatusOr<engine::ScoreRequest> DecodeScore(const v1::ScoreRequest& request);

v1::GenerateResponse EncodeDone(engine::FinishReason reason, const engine::Usage& usage);
v1::Session Encode(const engine::SessionInfo& info);
v1::ScoreResponse Encode(const engine::ScoreResult& result);

// --- admin
v1::ModelInfo Encode(const model::Model& model, const std::string& name);
v1::Stats Encode(const engine::EngineStats& stats);
v1::RpcStats Encode(const std::string& method, const MethodMetrics& metrics);

// Proto strings must be UTF-8: drops bytes of characters cut at either end, and replaces other
// invalid bytes by U+FFFD.
std::string ValidUtf8(std::string_view bytes);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_CODEC_H_
