// The settings that the library gets for the database and for each column family.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace recollect::store::rocks {

// Column families, in the order of kFamilyNames.
enum class Family : size_t {
  kMeta,
  kCatalog,
  kText,
  kTokens,
  kChunks,
  kLandmarks,
  kIngests,
  kSessions,
};
inline constexpr size_t kFamilies = 8;
inline constexpr std::array<const char*, kFamilies> kFamilyNames = {
    "default", "catalog", "text", "tokens", "chunks", "landmarks", "ingests", "sessions"};

rocksdb::DBOptions DatabaseOptions(rocksdb::Env* env, bool accept_data_loss);

// Returns a descriptor for each family, with a block cache that all share.
std::vector<rocksdb::ColumnFamilyDescriptor> Families();

}  // namespace recollect::store::rocks
