// Verb backup: create, list, verify, restore.
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/verbs/verbs.h"
#include "service/codec/codec.h"
#ifdef RECOLLECT_WITH_ROCKSDB
#include "store/rocks/backup/backup.h"
#endif

namespace recollect::cli {

#ifndef RECOLLECT_WITH_ROCKSDB
void AddBackup(CLI::App&, Command&) {}  // nothing is kept that could be saved
#else
namespace {

struct BackupOptions {
  uint32_t number = 0;
  std::string into;
  v1::CreateBackupRequest create;
};

Json BackupJson(const v1::Backup& backup) {
  if (backup.has_damage()) return {{"number", backup.number()}, {"damage", backup.damage()}};
  return ToJson(static_cast<const google::protobuf::Message&>(backup));
}

void PrintRow(const v1::Backup& backup) {
  if (backup.has_damage()) {
    absl::PrintF("%6u  DAMAGED  %s\n", backup.number(), backup.damage());
    return;
  }
  absl::PrintF("%6u  %s  %9d documents  %10.1f MiB\n", backup.number(),
               absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixSeconds(backup.created_unix_s()),
                                absl::LocalTimeZone()),
               backup.documents(), static_cast<double>(backup.bytes()) / (1 << 20));
}

absl::Status Print(const Options& common, const v1::Backup& backup) {
  common.json ? PrintJson(BackupJson(backup)) : PrintRow(backup);
  return absl::OkStatus();
}

absl::Status CheckBackupDir(const Options& common) {
  if (!common.backup_dir.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("name the directory of the backups: --backup-dir DIR");
}

absl::Status Create(const Options& common, const BackupOptions& options) {
  if (common.server.empty()) RETURN_IF_ERROR(CheckBackupDir(common));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(const v1::Backup backup, connection->client().CreateBackup(options.create));
  return Print(common, backup);
}

// Of the server's directory, or of one that is named.
absl::StatusOr<v1::ListBackupsResponse> ListAll(const Options& common) {
  if (!common.server.empty()) {
    ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
    return connection->client().ListBackups();
  }
  RETURN_IF_ERROR(CheckBackupDir(common));
  ASSIGN_OR_RETURN(const auto backups, store::ListBackups(common.backup_dir));
  v1::ListBackupsResponse all;
  for (const store::BackupInfo& info : backups) *all.add_backups() = service::Encode(info);
  return all;
}

absl::Status ListBackups(const Options& common, const BackupOptions&) {
  ASSIGN_OR_RETURN(const v1::ListBackupsResponse response, ListAll(common));
  Json all = Json::array();
  for (const v1::Backup& backup : response.backups()) {
    common.json ? all.push_back(BackupJson(backup)) : PrintRow(backup);
  }
  if (common.json) PrintJson({{"backups", all}});
  return absl::OkStatus();
}

absl::Status Verify(const Options& common, const BackupOptions& options) {
  RETURN_IF_ERROR(CheckBackupDir(common));
  ASSIGN_OR_RETURN(const auto info, store::VerifyBackup(common.backup_dir, options.number));
  return Print(common, service::Encode(info));
}

absl::Status Restore(const Options& common, const BackupOptions& options) {
  RETURN_IF_ERROR(CheckBackupDir(common));
  umask(077);  // as any data directory
  ASSIGN_OR_RETURN(const auto info,
                   store::RestoreBackup(common.backup_dir, options.number, options.into));
  return Print(common, service::Encode(info));
}

}  // namespace

void AddBackup(CLI::App& app, Command& command) {
  VerbGroup group(app, command, "backup", "Make, list, verify and restore backups");
  auto options = std::make_shared<BackupOptions>();
  const auto add = [&](const char* name, const char* what, const std::vector<std::string>& examples,
                       absl::Status (*run)(const Options&, const BackupOptions&)) {
    CLI::App* verb = group.Add(name, what, examples, options, run);
    AddBackupDir(*verb, command.options);
    return verb;
  };
  const auto add_number = [&](CLI::App* verb) {
    verb->add_option("NUMBER", options->number, "Backup (default: the latest)")
        ->check(Fits<uint32_t>());
  };
  CLI::App* create = add(
      "create", "Make a backup; with --server, in the directory that server was started with",
      {"serve --backup-dir /backup/recollect &", "backup create --server 127.0.0.1:50051 --keep 7"},
      &Create);
  AddOption(*create, "--keep", options->create, &v1::CreateBackupRequest::set_keep,
            "Afterwards remove all but the latest so many (default: none is removed)");
  add("list", "All backups of a directory, or of a server's, oldest first",
      {"backup list --backup-dir /backup/recollect"}, &ListBackups);
  add_number(add("verify", "Compare the checksums of all files of a backup",
                 {"backup verify 3 --backup-dir /backup/recollect"}, &Verify));
  CLI::App* restore =
      add("restore", "Restore a backup into a directory that is new or empty",
          {"backup restore 3 --backup-dir /backup/recollect --into /var/lib/recollect"}, &Restore);
  add_number(restore);
  restore->add_option("--into", options->into, "The new data directory")
      ->type_name("DIR")
      ->required();
}
#endif

}  // namespace recollect::cli
