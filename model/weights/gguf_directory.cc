// Reads the part of a GGUF file that says which tensors there are.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "kernels/quant/quant_blocks.h"
#include "model/weights/gguf_cursor.h"
#include "model/weights/gguf_part.h"

namespace recollect::model {
namespace {

// Of the specification.
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint32_t kMaxExtents = 4;
// A name's length, the number of extents, a type, an offset.
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;

// Types by their numbers in files; removed ones have no name.
constexpr const char* kTypeNames[] = {
    "F32",     "F16",    "Q4_0",    "Q4_1",  "",       "",      "Q5_0",  "Q5_1",
    "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
    "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  "",
    "",        "",       "TQ1_0",   "TQ2_0", "",       "",      "",      "MXFP4"};

// Numbers that are stored together, and in how many bytes.
struct Unit {
  int64_t numbers = 1;
  int64_t bytes = 0;
};

std::optional<Unit> UnitOf(const std::string& dtype) {
  if (dtype == "F32") return Unit{1, 4};
  if (dtype == "F16" || dtype == "BF16") return Unit{1, 2};
  const auto format = kernels::QuantFormatNamed(dtype);
  if (!format) return std::nullopt;
  return Unit{kernels::TraitsOf(*format).block, kernels::TraitsOf(*format).block_bytes};
}

// The type's name and its unit, or why it is not read.
absl::StatusOr<Unit> ReadType(GgufCursor& cursor, TensorInfo& info) {
  ASSIGN_OR_RETURN(const uint32_t type, cursor.Read<uint32_t>());
  info.dtype = type < std::size(kTypeNames) ? kTypeNames[type] : "";
  if (const std::optional<Unit> unit = UnitOf(info.dtype)) return *unit;
  std::string expected = "F32, F16, BF16";
  for (const kernels::QuantFormat format : kernels::kQuantFormats) {
    absl::StrAppend(&expected, ", ", kernels::TraitsOf(format).name);
  }
  const std::string name = info.dtype.empty() ? "" : absl::StrCat(" (", info.dtype, ")");
  return absl::InvalidArgumentError(
      absl::StrCat("type ", type, name, " is not read, expected one of ", expected));
}

// Extents of the file, the first that of neighbours; row-major in `info`.
absl::Status ReadShape(GgufCursor& cursor, TensorInfo& info) {
  ASSIGN_OR_RETURN(const uint32_t extents, cursor.Read<uint32_t>());
  if (extents > kMaxExtents) {
    return absl::InvalidArgumentError(
        absl::StrCat(extents, " extents, expected at most ", kMaxExtents));
  }
  for (uint32_t i = 0; i < extents; ++i) {
    ASSIGN_OR_RETURN(const uint64_t extent, cursor.Read<uint64_t>());
    if (!std::in_range<int64_t>(extent)) {
      return absl::InvalidArgumentError(absl::StrCat("an extent of ", extent));
    }
    info.shape.insert(info.shape.begin(), static_cast<int64_t>(extent));
  }
  return absl::OkStatus();
}

absl::Status SetBytes(const Unit& unit, TensorInfo& info) {
  const int64_t columns = info.shape.empty() ? 1 : info.shape.back();
  if (columns % unit.numbers != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rows of ", columns, " numbers, and blocks of ",
                                                   info.dtype, " have ", unit.numbers));
  }
  // The bytes as fp32, which no type exceeds. An extent of 0 counts as 1, so that the product of
  // extents overflows in no order.
  int64_t most_bytes = sizeof(float);
  bool good = true;
  for (const int64_t extent : info.shape) {
    good = good && !__builtin_mul_overflow(most_bytes, std::max<int64_t>(extent, 1), &most_bytes);
  }
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(info.shape), " of ",
                                                   info.dtype, ": more bytes than 64 bits count"));
  }
  info.bytes = columns / unit.numbers * unit.bytes;
  for (size_t i = 0; i + 1 < info.shape.size(); ++i) info.bytes *= info.shape[i];
  return absl::OkStatus();
}

absl::Status ReadTensor(GgufCursor& cursor, GgufTensor& tensor) {
  RETURN_IF_ERROR(ReadShape(cursor, tensor.info));
  ASSIGN_OR_RETURN(const Unit unit, ReadType(cursor, tensor.info));
  RETURN_IF_ERROR(SetBytes(unit, tensor.info));
  ASSIGN_OR_RETURN(tensor.offset, cursor.Read<uint64_t>());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<GgufTensor>> ReadGgufDirectory(GgufCursor& cursor, uint64_t count) {
  if (count > cursor.left() / kLeastTensorBytes) {
    return absl::InvalidArgumentError(absl::StrCat(count, " tensors, and ", cursor.left(),
                                                   " bytes are left; it may be truncated"));
  }
  std::vector<GgufTensor> tensors;
  for (uint64_t i = 0; i < count; ++i) {
    const absl::StatusOr<std::string_view> name = cursor.ReadString();
    RETURN_IF_ERROR(Annotate(name.status(), absl::StrCat("tensor ", i, " of ", count)));
    if (name->empty() || name->size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the name of tensor ", i, " has ",
                                                     name->size(), " bytes, expected 1 to ",
                                                     kMaxNameBytes));
    }
    GgufTensor& tensor = tensors.emplace_back();
    tensor.name = std::string(*name);
    RETURN_IF_ERROR(
        Annotate(ReadTensor(cursor, tensor), absl::StrCat("tensor ", GgufQuoted(*name))));
  }
  return tensors;
}

}  // namespace recollect::model
