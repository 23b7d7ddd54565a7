#include "model/weights/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/io/file.h"
#include "base/json.h"
#include "base/status.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

// The published readers refuse longer headers, too.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kLengthBytes = 8;

int64_t ItemBytes(const std::string& dtype) {
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "BF16" || dtype == "F16") return 2;
  if (dtype == "I64") return 8;
  return 0;
}

absl::Status ReadEntry(const json& entry, const std::byte* data, uint64_t data_bytes,
                       TensorInfo& info) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return absl::InvalidArgumentError("expected dtype, shape and data_offsets");
  }
  const json& dtype = entry["dtype"];
  const json& shape = entry["shape"];
  const json& offsets = entry["data_offsets"];
  if (!dtype.is_string() || ItemBytes(dtype.get<std::string>()) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", dtype.dump(), ", expected F32, BF16, F16, I32 or I64"));
  }
  info.dtype = dtype.get<std::string>();
  int64_t bytes = ItemBytes(info.dtype);
  bool good = shape.is_array();
  for (size_t i = 0; good && i < shape.size(); ++i) {
    good = shape[i].is_number_unsigned() &&
           shape[i].get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX) &&
           !__builtin_mul_overflow(bytes, shape[i].get<int64_t>(), &bytes);
    if (good) info.shape.push_back(shape[i].get<int64_t>());
  }
  if (!good) return absl::InvalidArgumentError(absl::StrCat("shape ", shape.dump()));
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return absl::InvalidArgumentError(absl::StrCat("data_offsets ", offsets.dump()));
  }
  const uint64_t begin = offsets[0].get<uint64_t>();
  const uint64_t end = offsets[1].get<uint64_t>();
  if (begin > end || end > data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("data_offsets ", offsets.dump(),
                                                   " in a file with ", data_bytes,
                                                   " bytes of data; it may be truncated"));
  }
  if (end - begin != static_cast<uint64_t>(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", shape.dump(), " of ", info.dtype,
                                                   " is ", bytes, " bytes, data_offsets span ",
                                                   end - begin));
  }
  info.data = data + begin;
  info.bytes = bytes;
  return absl::OkStatus();
}

using Tensors = std::map<std::string, TensorInfo>;

absl::StatusOr<Tensors> ReadHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes, expected at least ", kLengthBytes));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const uint64_t rest = bytes.size() - kLengthBytes;
  if (header_bytes > rest || header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a header of ", header_bytes,
                                                   " bytes in a file of ", bytes.size(),
                                                   " bytes; it may be truncated"));
  }
  const char* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  ASSIGN_OR_RETURN(const json header,
                   ParseJson(absl::string_view(text, header_bytes), EqualKeys::kRefused));
  if (!header.is_object()) return absl::InvalidArgumentError("the header is not a JSON object");
  const std::byte* data = reinterpret_cast<const std::byte*>(text + header_bytes);
  const uint64_t data_bytes = rest - header_bytes;
  // What the header promises, before any single tensor complains: a cut file is the common case.
  uint64_t promised = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || !entry.is_object()) continue;
    const auto offsets = entry.find("data_offsets");
    if (offsets != entry.end() && offsets->is_array() && offsets->size() == 2 &&
        (*offsets)[1].is_number_unsigned()) {
      promised = std::max(promised, (*offsets)[1].get<uint64_t>());
    }
  }
  if (promised > data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("truncated: the header describes ", promised,
                                                   " bytes of data, the file has ", data_bytes));
  }
  Tensors tensors;
  std::vector<std::string> problems;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    TensorInfo info;
    const absl::Status status = ReadEntry(entry, data, data_bytes, info);
    if (!status.ok()) {
      problems.push_back(absl::StrCat(name, ": ", status.message()));
      continue;
    }
    tensors.emplace(name, std::move(info));
  }
  if (!problems.empty()) return ProblemsError(problems);
  std::vector<TensorPlace> places;
  for (const auto& [name, info] : tensors) {
    places.push_back(
        {name, static_cast<uint64_t>(info.data - data), static_cast<uint64_t>(info.bytes)});
  }
  RETURN_IF_ERROR(CheckCoverage(std::move(places), data_bytes, /*alignment=*/1));
  return tensors;
}

// Whether it names something in the index's own directory, and nothing else.
bool IsFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\0", 2)) == std::string::npos;
}

using Places = std::map<std::string, std::string>;  // the file of each tensor

absl::StatusOr<Places> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const absl::StatusOr<json> index = ParseJson(text, EqualKeys::kRefused);
  if (!index.ok()) return Annotate(index.status(), path);
  const auto weight_map = index->find("weight_map");
  if (!index->is_object() || weight_map == index->end() || !weight_map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no object weight_map"));
  }
  Places places;
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

// Checks that the index has these tensors of `path`, and has them there.
absl::Status CheckPlaces(const Tensors& tensors, const std::string& path, const std::string& shard,
                         const Places& places) {
  for (const auto& [name, info] : tensors) {
    const auto place = places.find(name);
    if (place != places.end() && place->second == shard) continue;
    const std::string expected =
        place == places.end() ? "which the index does not have" : "not in " + place->second;
    return absl::InvalidArgumentError(absl::StrCat(path, ": has tensor ", name, ", ", expected));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensors> SafetensorsFile::Map(const std::string& path) {
  paths_.push_back(path);
  ASSIGN_OR_RETURN(files_.emplace_back(), MappedFile::Open(path));
  absl::StatusOr<Tensors> tensors = ReadHeader(files_.back().bytes());
  if (!tensors.ok()) return Annotate(tensors.status(), path);
  return tensors;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file;
  ASSIGN_OR_RETURN(file.tensors_, file.Map(path));
  return file;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::OpenIndex(const std::string& index) {
  ASSIGN_OR_RETURN(const Places places, ReadIndex(index));
  std::set<std::string> shards;
  for (const auto& [name, shard] : places) shards.insert(shard);
  const std::string directory = std::filesystem::path(index).replace_filename("").string();
  SafetensorsFile file;
  for (const std::string& shard : shards) {
    ASSIGN_OR_RETURN(Tensors tensors, file.Map(directory + shard));
    RETURN_IF_ERROR(CheckPlaces(tensors, directory + shard, shard, places));
    file.tensors_.merge(tensors);
  }
  for (const auto& [name, shard] : places) {
    if (!file.tensors_.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(index, ": tensor ", name, " is not in ", directory, shard));
    }
  }
  return file;
}

}  // namespace recollect::model
