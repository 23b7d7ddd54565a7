// Checks whether a caller may send a request of recollect.v1. There is one overload for each
// request, so that a new RPC, which service/rpc/call.h passes through here, does not compile
// without one.
#ifndef RECOLLECT_SERVICE_RPC_AUTHORIZE_H_
#define RECOLLECT_SERVICE_RPC_AUTHORIZE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "access/caller.h"
#include "engine/engine.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"

namespace recollect::service {

// PERMISSION_DENIED names the right, or the document and the prefix. The code that makes lists
// restricts them to documents that the caller may see.
absl::Status Authorize(const access::Caller& caller, const v1::IngestHeader& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetDocumentRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ListDocumentsRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ListIngestsRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::SetMetadataRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::DeleteDocumentRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::RefreshDocumentRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ReadTextRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ExportDocumentRequest& request);
// Checks only the id in the header: without one the document has the id in its file, which is
// checked once it is known.
absl::Status Authorize(const access::Caller& caller, const v1::ImportHeader& request);
absl::Status Authorize(const access::Caller& caller, const v1::RetrieveRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GenerateRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::OpenSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::CloseSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::SaveSessionRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ScoreRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetModelRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::GetStatsRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::CreateBackupRequest& request);
absl::Status Authorize(const access::Caller& caller, const v1::ListBackupsRequest& request);

// Returns an open session of the caller. Ids can be guessed: another caller's session is NOT_FOUND,
// like one that is not open.
absl::StatusOr<engine::SessionInfo> GetOwnSession(engine::Engine& engine,
                                                  const access::Caller& caller, uint64_t id);
// Checks the same for a request with the id of an open session, or with 0 for none.
absl::Status CheckOwnSession(engine::Engine& engine, const access::Caller& caller, uint64_t id);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_AUTHORIZE_H_
