#include "service/rpc/admin_service.h"

#include "base/clock.h"
#include "base/io/process.h"
#include "base/status.h"
#include "service/codec/codec.h"

namespace recollect::service {

grpc::ServerUnaryReactor* AdminService::GetModel(grpc::CallbackServerContext* context,
                                                 const v1::GetModelRequest* request,
                                                 v1::ModelInfo* response) {
  return RunOnPool(runtime_, "Admin/GetModel", context, request,
                   [this, response](const access::Caller&) {
                     *response = Encode(engine_.model(), model_name_);
                     response->set_index(engine_.stats().index);
                     return absl::OkStatus();
                   });
}

grpc::ServerUnaryReactor* AdminService::GetStats(grpc::CallbackServerContext* context,
                                                 const v1::GetStatsRequest* request,
                                                 v1::Stats* response) {
  return RunOnPool(runtime_, "Admin/GetStats", context, request,
                   [this, response](const access::Caller&) {
                     *response = Encode(engine_.stats());
                     response->set_resident_bytes(ReadProcess().resident_bytes);
                     response->set_uptime_s(absl::ToDoubleSeconds(SteadyNow() - runtime_.start));
                     for (const auto& [method, metrics] : runtime_.metrics.Snapshot())
                       *response->add_rpcs() = Encode(method, metrics);
                     return absl::OkStatus();
                   });
}

absl::Status AdminService::CheckBackupDir() const {
  if (!backup_dir_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the server has no directory for backups; start it with --backup-dir");
}

grpc::ServerUnaryReactor* AdminService::CreateBackup(grpc::CallbackServerContext* context,
                                                     const v1::CreateBackupRequest* request,
                                                     v1::Backup* response) {
  return RunOnPool(runtime_, "Admin/CreateBackup", context, request,
                   [this, request, response](const access::Caller&) -> absl::Status {
                     RETURN_IF_ERROR(CheckBackupDir());
                     ASSIGN_OR_RETURN(const store::BackupInfo info,
                                      engine_.CreateBackup(backup_dir_, request->keep()));
                     *response = Encode(info);
                     return absl::OkStatus();
                   });
}

grpc::ServerUnaryReactor* AdminService::ListBackups(grpc::CallbackServerContext* context,
                                                    const v1::ListBackupsRequest* request,
                                                    v1::ListBackupsResponse* response) {
  return RunOnPool(runtime_, "Admin/ListBackups", context, request,
                   [this, response](const access::Caller&) -> absl::Status {
                     RETURN_IF_ERROR(CheckBackupDir());
                     const auto backups = engine_.ListBackups(backup_dir_);
                     if (absl::IsNotFound(backups.status()))
                       return absl::OkStatus();  // none was made yet
                     RETURN_IF_ERROR(backups.status());
                     for (const store::BackupInfo& info : *backups)
                       *response->add_backups() = Encode(info);
                     return absl::OkStatus();
                   });
}

}  // namespace recollect::service
