// Converts between recollect.v1 messages and the engine's types. What a message cannot say
// (service/limits.h) is INVALID_ARGUMENT here; values are the engine's to check
// (engine/step/limits.h). Encoding cannot fail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/stats.h"
#include "engine/types.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"
#include "service/rpc_metrics.h"
#include "store/document_store.h"

namespace recollect::model {
class Model;
}

namespace recollect::service {

// --- documents
absl::StatusOr<int64_t> DecodePageSize(int32_t page_size);
absl::Status CheckReadText(const v1::ReadTextRequest& request);
absl::Status CheckPiece(const v1::IngestPiece& piece, bool from_tokens);
engine::SessionOptions Decode(const v1::SessionOptions& session);
engine::Prompt Decode(const v1::Prompt& prompt);
engine::RetrieveRequest Decode(const v1::RetrieveRequest& request);

v1::Document Encode(const store::DocumentInfo& info);
v1::UnfinishedIngest Encode(const store::IngestProgress& progress);
v1::IngestProgress Encode(const engine::IngestStatus& status);
v1::Hit Encode(const engine::Hit& hit);
v1::Retrieval Encode(const engine::Retrieval& retrieval);

// --- generation
// INVALID_ARGUMENT: options beside an open session.
absl::StatusOr<engine::GenerateRequest> Decode(const v1::GenerateRequest& request);
absl::StatusOr<engine::ScoreRequest> Decode(const v1::ScoreRequest& request);

v1::GenerateResponse EncodeDone(engine::FinishReason reason, const engine::Usage& usage);
v1::Saved Encode(const absl::StatusOr<store::DocumentInfo>& saved);
v1::TokenLogprobs Encode(const engine::ChosenLogprob& token);
v1::Candidates Encode(const engine::JudgedCandidates& judged);
v1::Session Encode(const engine::SessionInfo& info);
v1::ScoreResponse Encode(const engine::ScoreResult& result);

// --- admin
v1::ModelInfo Encode(const model::Model& model, const std::string& name);
v1::Stats Encode(const engine::EngineStats& stats);
v1::Backup Encode(const store::BackupInfo& info);
v1::RpcStats Encode(const std::string& method, const MethodMetrics& metrics);

// Proto strings must be UTF-8: drops bytes of characters cut at either end, and replaces other
// invalid bytes by U+FFFD.
std::string ValidUtf8(std::string_view bytes);

}  // namespace recollect::service
