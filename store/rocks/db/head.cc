#include "store/rocks/db/head.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "store/crc32c.h"
#include "store/rocks/db/status.h"
#include "store/store_errors.h"

namespace recollect::store::rocks {
namespace {

std::string ManifestName(uint64_t number) { return absl::StrFormat("MANIFEST-%06d", number); }

// The number of the MANIFEST that the text of CURRENT names; 0: none.
uint64_t ManifestNumber(absl::string_view current) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&current, "MANIFEST-") || !absl::ConsumeSuffix(&current, "\n") ||
      !absl::SimpleAtoi(current, &number)) {
    return 0;
  }
  return number;
}

// Makes what was read of the file durable, so that power loss cannot take it back.
void Sync(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)fdatasync(file);
  (void)close(file);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Head>> Head::Open(const RocksOptions& options, rocksdb::Env* env) {
  std::shared_ptr<Head> head(new Head(options.directory, env, options.sync_commits));
  const std::string path = head->PathOf(kHeadFile);
  std::string bytes;
  const rocksdb::Status read = rocksdb::ReadFileToString(env, path, &bytes);
  if (read.IsPathNotFound() || read.IsNotFound()) return head;
  RETURN_IF_ERROR(FromRocks(read, path));
  const auto record = DecodeHead(HeadKey(), bytes, path);
  if (record.ok()) {
    MutexLock lock(head->mutex_);
    head->record_ = *record;
  } else if (options.accept_data_loss && absl::IsDataLoss(record.status())) {
    LogIfFailed(record.status());
  } else {
    return record.status();
  }
  return head;
}

CatalogRecord Head::catalog() const {
  MutexLock lock(mutex_);
  return record_.catalog;
}

absl::Status Head::CheckManifest() const {
  MutexLock lock(mutex_);
  if (record_.manifest == 0) return absl::OkStatus();
  const std::string expected = ManifestName(record_.manifest);
  std::string current;
  const std::string current_path = PathOf("CURRENT");
  RETURN_IF_ERROR(FromRocks(rocksdb::ReadFileToString(env_, current_path, &current),
                            absl::StrCat(current_path, ", which named ", expected)));
  const uint64_t number = ManifestNumber(current);
  if (number < record_.manifest) {
    return absl::DataLossError(absl::StrCat(current_path, ": names ",
                                            number == 0 ? "no MANIFEST" : ManifestName(number),
                                            ", expected ", expected, " or a later one"));
  }
  // A later one was begun after the record was written.
  if (number > record_.manifest) return absl::OkStatus();
  std::string manifest;
  const std::string path = PathOf(expected);
  RETURN_IF_ERROR(FromRocks(rocksdb::ReadFileToString(env_, path, &manifest), path));
  if (manifest.size() < record_.manifest_bytes) {
    return absl::DataLossError(absl::StrCat(path, ": ", manifest.size(),
                                            " bytes, expected at least ", record_.manifest_bytes));
  }
  const uint32_t crc = Crc32c(absl::string_view(manifest).substr(0, record_.manifest_bytes));
  if (crc != record_.manifest_crc) {
    return absl::DataLossError(
        absl::StrFormat("%s: checksum %08x, expected %08x", path, crc, record_.manifest_crc));
  }
  return absl::OkStatus();
}

absl::Status Head::Create() {
  MutexLock lock(mutex_);
  return Write();
}

void Head::SetCatalog(const CatalogRecord& catalog) {
  MutexLock lock(mutex_);
  record_.catalog = catalog;
  LogIfFailed(Write());
}

void Head::SetManifest() {
  MutexLock lock(mutex_);
  std::string current, manifest;
  rocksdb::Status read = rocksdb::ReadFileToString(env_, PathOf("CURRENT"), &current);
  const uint64_t number = ManifestNumber(current);
  const std::string path = PathOf(ManifestName(number));
  if (read.ok()) read = rocksdb::ReadFileToString(env_, path, &manifest);
  if (sync_) Sync(path);
  absl::Status status = FromRocks(read, path);
  if (status.ok()) {
    record_.manifest = number;
    record_.manifest_bytes = manifest.size();
    record_.manifest_crc = Crc32c(manifest);
    status = Write();
  }
  LogIfFailed(status);
}

absl::Status Head::Write() const {
  const std::string path = PathOf(kHeadFile), next = path + ".new";
  rocksdb::Status status =
      rocksdb::WriteStringToFile(env_, EncodeHead(HeadKey(), record_), next, sync_);
  if (status.ok()) status = env_->RenameFile(next, path);
  if (status.ok() && sync_) {
    std::unique_ptr<rocksdb::Directory> directory;
    status = env_->NewDirectory(directory_, &directory);
    if (status.ok()) status = directory->Fsync();
  }
  return FromRocks(status, path);
}

}  // namespace recollect::store::rocks
