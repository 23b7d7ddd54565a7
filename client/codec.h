// Converts between the client's structs and recollect.v1 messages; the inverse of service/codec.h.
// Internal to the library.
#ifndef RECOLLECT_CLIENT_CODEC_H_
#define RECOLLECT_CLIENT_CODEC_H_

#include "absl/status/status.h"
#include "client/types.h"
#include "grpcpp/support/status.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"

namespace recollect::client {

absl::Status FromGrpc(const grpc::Status& status);

v1::SessionOptions Encode(const SessionOptions& options);
v1::Prompt Encode(const Prompt& prompt);
v1::GenerateRequest Encode(const GenerateRequest& request);
v1::RetrieveRequest Encode(const RetrieveRequest& request);
v1::ScoreRequest Encode(const ScoreRequest& request);

Document Decode(const v1::Document& message);
UnfinishedIngest Decode(const v1::UnfinishedIngest& message);
IngestProgress Decode(const v1::IngestProgress& message);
Retrieval Decode(const v1::Retrieval& message);
Session Decode(const v1::Session& message);
ScoreResult Decode(const v1::ScoreResponse& message);
ModelInfo Decode(const v1::ModelInfo& message);
Stats Decode(const v1::Stats& message);
// Sets finish_reason and usage.
void DecodeDone(const v1::GenerateDone& message, GenerateResult* result);

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_CODEC_H_
