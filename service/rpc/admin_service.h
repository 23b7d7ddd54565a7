// RPC group Admin.
#ifndef RECOLLECT_SERVICE_RPC_ADMIN_SERVICE_H_
#define RECOLLECT_SERVICE_RPC_ADMIN_SERVICE_H_

#include <string>
#include <utility>

#include "engine/engine.h"
#include "recollect/v1/admin.grpc.pb.h"
#include "service/rpc/call.h"

namespace recollect::service {

// Stateless. Borrows both for its life.
class AdminService final : public v1::Admin::CallbackService {
 public:
  AdminService(Runtime& runtime, engine::Engine& engine, std::string model_name,
               std::string backup_dir)
      : runtime_(runtime),
        engine_(engine),
        model_name_(std::move(model_name)),
        backup_dir_(std::move(backup_dir)) {}

  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::ModelInfo* response) override;
  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* context,
                                     const v1::GetStatsRequest* request,
                                     v1::Stats* response) override;
  grpc::ServerUnaryReactor* CreateBackup(grpc::CallbackServerContext* context,
                                         const v1::CreateBackupRequest* request,
                                         v1::Backup* response) override;
  grpc::ServerUnaryReactor* ListBackups(grpc::CallbackServerContext* context,
                                        const v1::ListBackupsRequest* request,
                                        v1::ListBackupsResponse* response) override;

 private:
  absl::Status CheckBackupDir() const;

  Runtime& runtime_;
  engine::Engine& engine_;
  const std::string model_name_;
  const std::string backup_dir_;
};

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_RPC_ADMIN_SERVICE_H_
