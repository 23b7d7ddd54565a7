// What a caller needs for each request of recollect.v1. There is one overload for each, so that a
// new RPC, which service/call.h passes through here, does not compile without one.
#ifndef RECOLLECT_SERVICE_AUTHORIZE_H_
#define RECOLLECT_SERVICE_AUTHORIZE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "access/caller.h"
#include "engine/engine.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"

namespace recollect::service {

// PERMISSION_DENIED naming the right, or the document and the prefix. Lists are cut to what the
// caller may see where they are made.
absl::Status Authorize(const access::Caller& caller, const v1::IngestHeader& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetDocumentRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ListDocumentsRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ListIngestsRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::DeleteDocumentRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::RefreshDocumentRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ReadTextRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ExportDocumentRequest& request);
// Only the id that the header gives: without one the document has that of its file, which is
// checked when it is known.
absl::Status Authorize(const access::Caller& caller, const v1::ImportHeader& request);
absl::Status Authorize(const access::Caller& caller, const v1::RetrieveRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GenerateRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::OpenSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::CloseSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ScoreRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetModelRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetStatsRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::CreateBackupRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ListBackupsRequest& request);

// Ids of sessions can be guessed: that of somebody else is NOT_FOUND, as one that is not open.
absl::StatusOr<engine::SessionInfo> GetOwnSession(engine::Engine& engine,
                                                  const access::Caller& caller, uint64_t id);
// The same for a request that names an open session, or none: 0.
absl::Status CheckOwnSession(engine::Engine& engine, const access::Caller& caller, uint64_t id);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_AUTHORIZE_H_
