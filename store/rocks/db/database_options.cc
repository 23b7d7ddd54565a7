#include "store/rocks/db/database_options.h"

#include <climits>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "base/io/descriptors.h"
#include "base/io/log.h"
#include "rocksdb/cache.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"

namespace recollect::store::rocks {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

rocksdb::ColumnFamilyOptions FamilyOptions(Family f, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.write_buffer_size = 4 * kMiB;
  // Writes never wait for a compaction: one that meets a damaged block never ends.
  options.level0_stop_writes_trigger = INT_MAX;
  options.hard_pending_compaction_bytes_limit = 0;
  options.compression = rocksdb::kNoCompression;
  switch (f) {
    case Family::kChunks:
    case Family::kSessions:
      // Values lie in the tables, not in blob files, and uncompressed: both measured, see
      // docs/decisions/0010-chunk-records-inline.md.
      options.write_buffer_size = 32 * kMiB;
      options.target_file_size_base = 64 * kMiB;
      options.level_compaction_dynamic_level_bytes = true;
      break;
    case Family::kText:
    case Family::kTokens:
      options.compression = rocksdb::kZSTD;
      break;
    case Family::kLandmarks:
      options.write_buffer_size = 16 * kMiB;
      break;
    case Family::kMeta:
    case Family::kCatalog:
    case Family::kIngests:
      break;
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// The library's own messages, into our log. A file of its own in the data directory, the default,
// aborts the process when the disk is full: its writer asserts that no write follows a failed one,
// and Debian builds with assertions.
class ForwardingLogger final : public rocksdb::Logger {
 public:
  ForwardingLogger() : Logger(rocksdb::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1000];
    std::vsnprintf(line, sizeof(line), format, arguments);
    LogWarning("rocksdb: {}", std::string(absl::StripTrailingAsciiWhitespace(line)));
  }
};

}  // namespace

rocksdb::DBOptions DatabaseOptions(rocksdb::Env* env, bool accept_data_loss) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_open_files = static_cast<int>(TableDescriptors(DescriptorLimit()));
  options.max_background_jobs = 2;
  // A family that is rarely written would otherwise keep every old log alive.
  options.max_total_wal_size = 96 * kMiB;
  // The head reads all of it after each flush.
  options.max_manifest_file_size = kMiB;
  options.bytes_per_sync = kMiB;
  options.info_log = std::make_shared<ForwardingLogger>();
  options.max_bgerror_resume_count = 0;         // see events.h
  options.avoid_flush_during_shutdown = true;   // after an error that would abort the process
  options.allow_fallocate = false;              // what the disk says is free should be free
  options.paranoid_checks = !accept_data_loss;  // else tables that cannot be opened are passed over
  // A log that ends within a record is what a crash leaves. Any other damage is an error, and so is
  // a log that is missing; the default would end there, and what follows would never have been.
  options.track_and_verify_wals_in_manifest = !accept_data_loss;
  options.wal_recovery_mode = accept_data_loss
                                  ? rocksdb::WALRecoveryMode::kPointInTimeRecovery
                                  : rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.env = env;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families() {
  // Chunk records bypass it: the engine's host tier caches them decoded.
  const auto cache = rocksdb::NewLRUCache(32 * kMiB);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilies; ++i) {
    families.emplace_back(kFamilyNames[i], FamilyOptions(static_cast<Family>(i), cache));
  }
  return families;
}

}  // namespace recollect::store::rocks
