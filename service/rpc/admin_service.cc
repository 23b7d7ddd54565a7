#include <utility>

#include "base/clock.h"
#include "base/io/process.h"
#include "base/status.h"
#include "recollect/v1/admin.grpc.pb.h"
#include "service/rpc/services.h"

namespace recollect::service {
namespace {

class AdminService final : public v1::Admin::CallbackService {
 public:
  AdminService(Runtime& runtime, engine::Engine& engine, std::string model_name,
               std::string backup_dir)
      : runtime_(runtime),
        engine_(engine),
        model_name_(std::move(model_name)),
        backup_dir_(std::move(backup_dir)) {}

  Unary* GetModel(Context* context, const v1::GetModelRequest* request,
                  v1::ModelInfo* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) {
      *response = Encode(engine_.model(), model_name_);
      response->set_index(engine_.stats().index);
      return absl::OkStatus();
    });
  }

  Unary* GetStats(Context* context, const v1::GetStatsRequest* request,
                  v1::Stats* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) {
      *response = Encode(engine_.stats());
      response->set_resident_bytes(ReadProcess().resident_bytes);
      response->set_uptime_s(absl::ToDoubleSeconds(SteadyNow() - runtime_.start));
      for (const auto& [method, metrics] : runtime_.metrics.Snapshot())
        *response->add_rpcs() = Encode(method, metrics);
      return absl::OkStatus();
    });
  }

  Unary* CreateBackup(Context* context, const v1::CreateBackupRequest* request,
                      v1::Backup* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) -> absl::Status {
      RETURN_IF_ERROR(CheckBackupDir());
      return Put(engine_.CreateBackup(backup_dir_, request->keep()), response);
    });
  }

  Unary* ListBackups(Context* context, const v1::ListBackupsRequest* request,
                     v1::ListBackupsResponse* response) override {
    return RunOnPool(runtime_, context, request, [=, this](const access::Caller&) -> absl::Status {
      RETURN_IF_ERROR(CheckBackupDir());
      const auto backups = engine_.ListBackups(backup_dir_);
      if (absl::IsNotFound(backups.status())) return absl::OkStatus();  // none was made yet
      RETURN_IF_ERROR(backups.status());
      for (const store::BackupInfo& info : *backups) *response->add_backups() = Encode(info);
      return absl::OkStatus();
    });
  }

 private:
  absl::Status CheckBackupDir() const {
    if (!backup_dir_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the server has no directory for backups; start it with --backup-dir");
  }

  Runtime& runtime_;
  engine::Engine& engine_;
  const std::string model_name_;
  const std::string backup_dir_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminService(Runtime& runtime, engine::Engine& engine,
                                                std::string model_name, std::string backup_dir) {
  return std::make_unique<AdminService>(runtime, engine, std::move(model_name),
                                        std::move(backup_dir));
}

}  // namespace recollect::service
