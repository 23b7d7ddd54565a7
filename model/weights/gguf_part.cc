#include "model/weights/gguf_part.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numeric/round_up.h"
#include "base/status.h"
#include "model/weights/gguf_cursor.h"

namespace recollect::model {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr char kMagic[] = "GGUF";
constexpr uint64_t kMagicBytes = sizeof(kMagic) - 1;
constexpr uint32_t kLeastVersion = 2;
constexpr uint32_t kMaxVersion = 3;
constexpr char kAlignmentKey[] = "general.alignment";
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kLeastAlignment = 8;  // of the specification

absl::Status CheckVersion(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> magic, cursor.Take(kMagicBytes));
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat(
        "begins with \"", GgufQuoted(found), "\", expected \"", kMagic, "\": not a GGUF file"));
  }
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Read<uint32_t>());
  if (version >= kLeastVersion && version <= kMaxVersion) return absl::OkStatus();
  const uint32_t swapped = __builtin_bswap32(version);
  return absl::InvalidArgumentError(
      absl::StrCat("GGUF version ", std::min(version, swapped),
                   swapped < version ? " of a big-endian machine" : "", ", expected ",
                   kLeastVersion, " or ", kMaxVersion, ", little-endian"));
}

absl::StatusOr<uint64_t> ReadAlignment(const GgufMetadata& metadata) {
  if (!metadata.Has(kAlignmentKey)) return uint64_t{kDefaultAlignment};
  ASSIGN_OR_RETURN(const int64_t alignment, metadata.GetInt(kAlignmentKey));
  if (alignment < kLeastAlignment || !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    return absl::InvalidArgumentError(absl::StrCat(kAlignmentKey, ": ", alignment,
                                                   ", expected a power of two, ", kLeastAlignment,
                                                   " or more"));
  }
  return static_cast<uint64_t>(alignment);
}

absl::Status CheckPlace(const GgufTensor& tensor, uint64_t data_bytes, uint64_t alignment) {
  const auto bytes = static_cast<uint64_t>(tensor.info.bytes);
  if (tensor.offset > data_bytes || bytes > data_bytes - tensor.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", GgufQuoted(tensor.name), ": ", bytes, " bytes from byte ", tensor.offset,
        " of the data, and the file has ", data_bytes, " bytes of data; it may be truncated"));
  }
  if (tensor.offset % alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", GgufQuoted(tensor.name), ": offset ",
                                                   tensor.offset, ", expected a multiple of ",
                                                   alignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GgufPart::Read() {
  GgufCursor cursor(file.bytes());
  RETURN_IF_ERROR(CheckVersion(cursor));
  ASSIGN_OR_RETURN(const uint64_t tensor_count, cursor.Read<uint64_t>());
  ASSIGN_OR_RETURN(const uint64_t key_count, cursor.Read<uint64_t>());
  RETURN_IF_ERROR(metadata.Read(cursor, key_count));
  ASSIGN_OR_RETURN(const std::vector<GgufTensor> directory,
                   ReadGgufDirectory(cursor, tensor_count));
  return Place(directory, cursor.at());
}

// Finds the data of each tensor.
absl::Status GgufPart::Place(const std::vector<GgufTensor>& directory, uint64_t header_bytes) {
  ASSIGN_OR_RETURN(const uint64_t alignment, ReadAlignment(metadata));
  const uint64_t size = file.bytes().size();
  // A file without data need not have what would align it.
  const uint64_t data_begin = std::min(RoundUp(header_bytes, alignment), size);
  const uint64_t data_bytes = size - data_begin;
  std::vector<TensorPlace> places;
  for (const GgufTensor& tensor : directory) {
    RETURN_IF_ERROR(CheckPlace(tensor, data_bytes, alignment));
    places.push_back(
        {GgufQuoted(tensor.name), tensor.offset, static_cast<uint64_t>(tensor.info.bytes)});
  }
  // Of two tensors with one name, that is what the message says, not that they overlap.
  for (const GgufTensor& tensor : directory) {
    const auto [entry, is_new] = tensors.emplace(tensor.name, tensor.info);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", GgufQuoted(tensor.name), " is there twice"));
    }
    entry->second.data = file.bytes().data() + data_begin + tensor.offset;
  }
  return CheckCoverage(std::move(places), data_bytes, alignment);
}

absl::StatusOr<std::unique_ptr<GgufPart>> GgufPart::Open(const std::string& path) {
  auto part = std::make_unique<GgufPart>();
  part->path = path;
  ASSIGN_OR_RETURN(part->file, MappedFile::Open(path));
  RETURN_IF_ERROR(Annotate(part->Read(), path));
  return part;
}

}  // namespace recollect::model
