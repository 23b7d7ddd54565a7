#include "service/rpc/authorize.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::service {
namespace {

using access::Caller;
using access::Right;

absl::Status CheckRead(const Caller& caller, const char* what) {
  return caller.CheckRight(Right::kRead, what);
}

absl::Status CheckSession(const Caller& caller, const char* what,
                          const v1::SessionOptions& session) {
  RETURN_IF_ERROR(CheckRead(caller, what));
  return caller.CheckDocuments(session.mounts());
}

}  // namespace

absl::Status Authorize(const Caller& caller, const v1::IngestHeader& request) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "Ingest"));
  RETURN_IF_ERROR(caller.CheckDocument(request.id()));
  return caller.CheckDocuments(request.session().mounts());
}

absl::Status Authorize(const Caller& caller, const v1::GetDocumentRequest& request) {
  RETURN_IF_ERROR(CheckRead(caller, "GetDocument"));
  return caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::ListDocumentsRequest&) {
  return CheckRead(caller, "ListDocuments");
}

absl::Status Authorize(const Caller& caller, const v1::ListIngestsRequest&) {
  return CheckRead(caller, "ListIngests");
}

absl::Status Authorize(const Caller& caller, const v1::SetMetadataRequest& request) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "SetMetadata"));
  return caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::DeleteDocumentRequest& request) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "DeleteDocument"));
  return caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::RefreshDocumentRequest& request) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "RefreshDocument"));
  return caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::ReadTextRequest& request) {
  RETURN_IF_ERROR(CheckRead(caller, "ReadText"));
  return caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::ExportDocumentRequest& request) {
  RETURN_IF_ERROR(CheckRead(caller, "ExportDocument"));
  return caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::ImportHeader& request) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "ImportDocument"));
  return request.id().empty() ? absl::OkStatus() : caller.CheckDocument(request.id());
}

absl::Status Authorize(const Caller& caller, const v1::RetrieveRequest& request) {
  return CheckSession(caller, "Retrieve", request.session());
}

absl::Status Authorize(const Caller& caller, const v1::GenerateRequest& request) {
  RETURN_IF_ERROR(CheckSession(caller, "Generate", request.session()));
  if (!request.has_save_as()) return absl::OkStatus();
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "save_as"));
  return caller.CheckDocument(request.save_as().document_id());
}

absl::Status Authorize(const Caller& caller, const v1::OpenSessionRequest& request) {
  return CheckSession(caller, "OpenSession", request.session());
}

absl::Status Authorize(const Caller& caller, const v1::GetSessionRequest&) {
  return CheckRead(caller, "GetSession");
}

absl::Status Authorize(const Caller& caller, const v1::CloseSessionRequest&) {
  return CheckRead(caller, "CloseSession");
}

absl::Status Authorize(const Caller& caller, const v1::SaveSessionRequest& request) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "SaveSession"));
  return caller.CheckDocument(request.document_id());
}

absl::Status Authorize(const Caller& caller, const v1::ScoreRequest& request) {
  return CheckSession(caller, "Score", request.session());
}

absl::Status Authorize(const Caller& caller, const v1::GetModelRequest&) {
  return CheckRead(caller, "GetModel");
}

absl::Status Authorize(const Caller& caller, const v1::GetStatsRequest&) {
  return CheckRead(caller, "GetStats");
}

absl::Status Authorize(const Caller& caller, const v1::CreateBackupRequest&) {
  RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "CreateBackup"));
  return caller.CheckAllDocuments("CreateBackup");
}

absl::Status Authorize(const Caller& caller, const v1::ListBackupsRequest&) {
  RETURN_IF_ERROR(CheckRead(caller, "ListBackups"));
  return caller.CheckAllDocuments("ListBackups");
}

absl::StatusOr<engine::SessionInfo> GetOwnSession(engine::Engine& engine, const Caller& caller,
                                                  uint64_t id) {
  ASSIGN_OR_RETURN(engine::SessionInfo info, engine.GetSession(engine::SessionId{id}));
  if (info.owner != caller.name()) return absl::NotFoundError(absl::StrCat("no open session ", id));
  // The key may be for other documents than when it was opened.
  RETURN_IF_ERROR(caller.CheckDocuments(info.mounts));
  return info;
}

absl::Status CheckOwnSession(engine::Engine& engine, const Caller& caller, uint64_t id) {
  if (id == 0 || caller.key() == nullptr) return absl::OkStatus();
  return GetOwnSession(engine, caller, id).status();
}

}  // namespace recollect::service
