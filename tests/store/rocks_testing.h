// Files of a data directory, for tests that damage them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/table_properties.h"

namespace recollect::store {

inline std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline void FlipByte(const std::string& path, int64_t offset) {
  std::string bytes = ReadFile(path);
  ASSERT_LT(static_cast<size_t>(offset), bytes.size()) << path;
  char& byte = bytes[static_cast<size_t>(offset)];
  byte = static_cast<char>(byte ^ 0x10);
  WriteFile(path, bytes);
}

// Returns the names and bytes of all files but the lock's.
inline std::map<std::string, std::string> Files(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    const std::string name = file.path().filename().string();
    if (name != "LOCK") files[name] = ReadFile(file.path().string());
  }
  return files;
}

// Returns the same for a directory that a store has open: as a crash would leave it, with no change
// half done.
inline std::map<std::string, std::string> FilesAtRest(const std::string& directory) {
  for (auto files = Files(directory);;) {
    auto again = Files(directory);
    if (again == files) return files;
    files = std::move(again);
  }
}

// Returns the paths of the tables of a column family, the oldest first.
inline std::vector<std::string> TablesOf(const std::string& directory, const std::string& family) {
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().extension() != ".sst") continue;
    rocksdb::SstFileReader reader{rocksdb::Options()};
    // A table that is being written does not open yet.
    if (!reader.Open(file.path().string()).ok()) continue;
    if (reader.GetTableProperties()->column_family_name == family) {
      paths.push_back(file.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace recollect::store
