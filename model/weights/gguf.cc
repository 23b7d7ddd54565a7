#include "model/weights/gguf.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/gguf_parts.h"
#include "model/weights/gguf_cursor.h"

namespace recollect::model {
namespace {

constexpr char kSplitNumber[] = "split.no";  // from 0
constexpr char kSplitCount[] = "split.count";
constexpr char kSplitTensors[] = "split.tensors.count";  // of all parts
constexpr int64_t kMaxParts = 99999;                     // that names have digits for

absl::StatusOr<int64_t> NumberIn(const GgufPart& part, const char* key) {
  absl::StatusOr<int64_t> number = part.metadata.GetInt(key);
  if (number.ok()) return number;
  return absl::InvalidArgumentError(absl::StrCat(part.path, ": ", number.status().message()));
}

// Fails unless a part has this number under the key.
absl::Status Expect(const GgufPart& part, const char* key, int64_t expected) {
  ASSIGN_OR_RETURN(const int64_t value, NumberIn(part, key));
  if (value == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(part.path, ": ", key, " is ", value, ", expected ", expected));
}

// The number of parts that a file says there are, and whether it is the first one.
absl::StatusOr<int64_t> PartsOf(const GgufPart& first) {
  if (!first.metadata.Has(kSplitCount)) return 1;
  ASSIGN_OR_RETURN(const int64_t count, NumberIn(first, kSplitCount));
  if (count < 1 || count > kMaxParts) {
    return absl::InvalidArgumentError(
        absl::StrCat(first.path, ": ", kSplitCount, " is ", count, ", expected 1 to ", kMaxParts));
  }
  if (count == 1) return 1;
  ASSIGN_OR_RETURN(const int64_t number, NumberIn(first, kSplitNumber));
  if (number == 0) return count;
  const std::optional<GgufPartName> name = ParseGgufPartName(first.path);
  return absl::InvalidArgumentError(
      absl::StrCat(first.path, ": part ", number + 1, " of ", count, ", expected the first one",
                   name.has_value() ? ", " + GgufPartPath(name->stem, 1, count) : ""));
}

// A later part has no metadata of the model, as gguf-split writes it; what it has must agree.
absl::Status CheckSameModel(const GgufPart& first, const GgufPart& part) {
  for (const char* key : {"general.architecture", "general.name"}) {
    const auto value = part.metadata.GetString(key), expected = first.metadata.GetString(key);
    if (!value.ok() || !expected.ok() || *value == *expected) continue;
    return absl::InvalidArgumentError(absl::StrCat(part.path, ": ", key, " is \"",
                                                   GgufQuoted(*value), "\", that of ", first.path,
                                                   " is \"", GgufQuoted(*expected), "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GgufFile::Add(std::unique_ptr<GgufPart> part) {
  for (const auto& [name, info] : part->tensors) {
    if (tensors_.emplace(name, info).second) continue;
    const auto has = [&twice = name](const auto& other) { return other->tensors.contains(twice); };
    const auto& other = *std::find_if(parts_.begin(), parts_.end(), has);
    return absl::InvalidArgumentError(
        absl::StrCat(part->path, ": tensor ", GgufQuoted(name), " is in ", other->path, ", too"));
  }
  parts_.push_back(std::move(part));
  return absl::OkStatus();
}

absl::Status GgufFile::AddParts(int64_t count) {
  const std::string& path = parts_.front()->path;
  const std::optional<GgufPartName> name = ParseGgufPartName(path);
  if (!name.has_value() || name->part != 1 || name->count != count) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", kSplitCount, " is ", count,
                                                   ", expected a name that ends with ",
                                                   GgufPartPath("", 1, count)));
  }
  for (int64_t i = 1; i < count; ++i) {
    auto part = GgufPart::Open(GgufPartPath(name->stem, i + 1, count));
    if (!part.ok()) return Annotate(part.status(), absl::StrCat("part ", i + 1, " of ", count));
    RETURN_IF_ERROR(Expect(**part, kSplitNumber, i));
    RETURN_IF_ERROR(Expect(**part, kSplitCount, count));
    RETURN_IF_ERROR(CheckSameModel(*parts_.front(), **part));
    RETURN_IF_ERROR(Add(*std::move(part)));
  }
  return CheckTensorCount();
}

absl::Status GgufFile::CheckTensorCount() const {
  for (const auto& part : parts_) {
    ASSIGN_OR_RETURN(const int64_t said, NumberIn(*part, kSplitTensors));
    if (said == std::ssize(tensors_)) continue;
    return absl::InvalidArgumentError(absl::StrCat(part->path, ": ", kSplitTensors, " is ", said,
                                                   ", the ", parts_.size(), " parts have ",
                                                   tensors_.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile file;
  ASSIGN_OR_RETURN(std::unique_ptr<GgufPart> first, GgufPart::Open(path));
  ASSIGN_OR_RETURN(const int64_t count, PartsOf(*first));
  RETURN_IF_ERROR(file.Add(std::move(first)));
  if (count > 1) RETURN_IF_ERROR(file.AddParts(count));
  return file;
}

std::vector<std::string> GgufFile::paths() const {
  std::vector<std::string> paths;
  for (const auto& part : parts_) paths.push_back(part->path);
  return paths;
}

}  // namespace recollect::model
