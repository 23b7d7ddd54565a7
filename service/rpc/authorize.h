// Checks whether a caller may send a request of recollect.v1. kMethods has a row for each request,
// so that a new RPC, which service/rpc/call.h passes through here, does not compile without one.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "access/caller.h"
#include "base/status.h"
#include "engine/engine.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"

namespace recollect::service {

// The method that takes a request (of a stream of requests: its header), and what it needs.
template <typename Request>
struct Method {
  const char* name;  // "Documents/GetDocument"
  access::Right right = access::Right::kRead;
  bool all_documents = false;  // concerns them all at once

  constexpr absl::string_view call() const {  // "GetDocument"
    const absl::string_view whole = name;
    return whole.substr(whole.find('/') + 1);
  }
};
inline constexpr std::tuple kMethods = {
    Method<v1::IngestHeader>{"Documents/Ingest", access::Right::kFull},
    Method<v1::GetDocumentRequest>{"Documents/GetDocument"},
    Method<v1::ListDocumentsRequest>{"Documents/ListDocuments"},
    Method<v1::ListIngestsRequest>{"Documents/ListIngests"},
    Method<v1::SetMetadataRequest>{"Documents/SetMetadata", access::Right::kFull},
    Method<v1::DeleteDocumentRequest>{"Documents/DeleteDocument", access::Right::kFull},
    Method<v1::RefreshDocumentRequest>{"Documents/RefreshDocument", access::Right::kFull},
    Method<v1::ReadTextRequest>{"Documents/ReadText"},
    Method<v1::ExportDocumentRequest>{"Documents/ExportDocument"},
    Method<v1::ImportHeader>{"Documents/ImportDocument", access::Right::kFull},
    Method<v1::RetrieveRequest>{"Documents/Retrieve"},
    Method<v1::GenerateRequest>{"Generation/Generate"},
    Method<v1::OpenSessionRequest>{"Generation/OpenSession"},
    Method<v1::GetSessionRequest>{"Generation/GetSession"},
    Method<v1::CloseSessionRequest>{"Generation/CloseSession"},
    Method<v1::SaveSessionRequest>{"Generation/SaveSession", access::Right::kFull},
    Method<v1::ScoreRequest>{"Generation/Score"},
    Method<v1::GetModelRequest>{"Admin/GetModel"},
    Method<v1::GetStatsRequest>{"Admin/GetStats"},
    Method<v1::CreateBackupRequest>{"Admin/CreateBackup", access::Right::kFull, true},
    Method<v1::ListBackupsRequest>{"Admin/ListBackups", access::Right::kRead, true},
};
template <typename Request>
inline constexpr const Method<Request>& kMethod = std::get<Method<Request>>(kMethods);

// Returns an open session of the caller. Ids can be guessed: another caller's session is NOT_FOUND,
// like one that is not open.
absl::StatusOr<engine::SessionInfo> GetOwnSession(engine::Engine& engine,
                                                  const access::Caller& caller, uint64_t id);
// Checks the same for a request with the id of an open session, or with 0 for none.
absl::Status CheckOwnSession(engine::Engine& engine, const access::Caller& caller, uint64_t id);

// Checks the right, and every document and session that the request names in its fields.
// PERMISSION_DENIED names the right, or the document and the prefix; NOT_FOUND: as GetOwnSession.
// The code that makes lists restricts them to documents that the caller may see.
template <typename Request>
absl::Status Authorize(engine::Engine& engine, const access::Caller& caller,
                       const Request& request) {
  constexpr const Method<Request>& kAsked = kMethod<Request>;
  RETURN_IF_ERROR(caller.CheckRight(kAsked.right, kAsked.call()));
  if constexpr (kAsked.all_documents) RETURN_IF_ERROR(caller.CheckAllDocuments(kAsked.call()));
  if constexpr (requires { request.session().mounts(); })
    RETURN_IF_ERROR(caller.CheckDocuments(request.session().mounts()));
  if constexpr (requires { request.id().empty(); }) {  // a document's: sessions have numbers
    // Without an id in the header a document has that in its file, which is checked once it is
    // known.
    const bool in_file = std::is_same_v<Request, v1::ImportHeader> && request.id().empty();
    if (!in_file) RETURN_IF_ERROR(caller.CheckDocument(request.id()));
  }
  if constexpr (requires { request.document_id(); })
    RETURN_IF_ERROR(caller.CheckDocument(request.document_id()));
  if constexpr (requires { request.save_as(); }) {
    if (request.has_save_as()) {
      RETURN_IF_ERROR(caller.CheckRight(access::Right::kFull, "save_as"));
      RETURN_IF_ERROR(caller.CheckDocument(request.save_as().document_id()));
    }
  }
  if constexpr (requires { request.session_id(); })
    RETURN_IF_ERROR(CheckOwnSession(engine, caller, request.session_id()));
  return absl::OkStatus();
}

}  // namespace recollect::service
