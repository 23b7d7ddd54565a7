#include "service/admin_service.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "base/clock.h"
#include "base/status.h"
#include "service/codec.h"

namespace recollect::service {
namespace {

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return statm ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetModel(grpc::CallbackServerContext* context,
                                                 const v1::GetModelRequest* request,
                                                 v1::ModelInfo* response) {
  return RunOnPool(runtime_, "Admin/GetModel", context, request,
                   [this, response](const access::Caller&) {
                     *response = Encode(engine_.model(), model_name_);
                     return absl::OkStatus();
                   });
}

grpc::ServerUnaryReactor* AdminService::GetStats(grpc::CallbackServerContext* context,
                                                 const v1::GetStatsRequest* request,
                                                 v1::Stats* response) {
  return RunOnPool(runtime_, "Admin/GetStats", context, request,
                   [this, response](const access::Caller&) {
                     *response = Encode(engine_.stats());
                     response->set_resident_bytes(ResidentBytes());
                     response->set_uptime_s(absl::ToDoubleSeconds(SteadyNow() - runtime_.start));
                     for (const auto& [method, metrics] : runtime_.metrics.Snapshot())
                       *response->add_rpcs() = Encode(method, metrics);
                     return absl::OkStatus();
                   });
}

grpc::ServerUnaryReactor* AdminService::CreateBackup(grpc::CallbackServerContext* context,
                                                     const v1::CreateBackupRequest* request,
                                                     v1::Backup* response) {
  return RunOnPool(runtime_, "Admin/CreateBackup", context, request,
                   [this, request, response](const access::Caller&) -> absl::Status {
                     if (backup_dir_.empty()) {
                       return absl::FailedPreconditionError(
                           "the server has no directory for backups; start it with --backup-dir");
                     }
                     ASSIGN_OR_RETURN(const store::BackupInfo info,
                                      engine_.CreateBackup(backup_dir_, request->keep()));
                     *response = Encode(info);
                     return absl::OkStatus();
                   });
}

}  // namespace recollect::service
