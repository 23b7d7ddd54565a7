#include "model/weights/sharded_safetensors.h"

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/json.h"
#include "base/status.h"

namespace recollect::model {
namespace {

using nlohmann::json;

// Whether it names something in the index's own directory, and nothing else.
bool IsFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\0", 2)) == std::string::npos;
}

// The file of each tensor.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const absl::StatusOr<json> index = ParseJson(text, EqualKeys::kRefused);
  if (!index.ok()) return Annotate(index.status(), path);
  const auto weight_map = index->find("weight_map");
  if (!index->is_object() || weight_map == index->end() || !weight_map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no object weight_map"));
  }
  std::map<std::string, std::string> places;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string() || !IsFileName(shard.get<std::string>())) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor, " is in ",
                                                     shard.dump(),
                                                     ", expected a file of this directory"));
    }
    places.emplace(tensor, shard.get<std::string>());
  }
  return places;
}

}  // namespace

absl::Status ShardedSafetensors::Add(const std::string& directory, const std::string& shard,
                                     const std::map<std::string, std::string>& places) {
  paths_.push_back(directory + shard);
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(paths_.back()));
  for (const auto& [name, info] : file.tensors()) {
    const auto place = places.find(name);
    if (place == places.end() || place->second != shard) {
      const std::string expected =
          place == places.end() ? "which the index does not have" : "not in " + place->second;
      return absl::InvalidArgumentError(
          absl::StrCat(paths_.back(), ": has tensor ", name, ", ", expected));
    }
    tensors_.emplace(name, info);
  }
  shards_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::StatusOr<ShardedSafetensors> ShardedSafetensors::Open(const std::string& index) {
  using Places = std::map<std::string, std::string>;
  ASSIGN_OR_RETURN(const Places places, ReadIndex(index));
  std::set<std::string> shards;
  for (const auto& [name, shard] : places) shards.insert(shard);
  const std::string directory = std::filesystem::path(index).replace_filename("").string();
  ShardedSafetensors file;
  for (const std::string& shard : shards) RETURN_IF_ERROR(file.Add(directory, shard, places));
  for (const auto& [name, shard] : places) {
    if (!file.tensors_.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(index, ": tensor ", name, " is not in ", directory, shard));
    }
  }
  return file;
}

}  // namespace recollect::model
