#include "convert/pickle.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace recollect::convert {

int64_t ItemBytes(ItemType type) {
  switch (type) {
    case ItemType::kF64:
    case ItemType::kI64:
      return 8;
    case ItemType::kF32:
    case ItemType::kI32:
      return 4;
    case ItemType::kBf16:
    case ItemType::kF16:
    case ItemType::kI16:
      return 2;
    case ItemType::kI8:
    case ItemType::kU8:
    case ItemType::kBool:
      break;
  }
  return 1;
}

const char* ItemName(ItemType type) {
  switch (type) {
    case ItemType::kF32:
      return "float32";
    case ItemType::kBf16:
      return "bfloat16";
    case ItemType::kF16:
      return "float16";
    case ItemType::kF64:
      return "float64";
    case ItemType::kI64:
      return "int64";
    case ItemType::kI32:
      return "int32";
    case ItemType::kI16:
      return "int16";
    case ItemType::kI8:
      return "int8";
    case ItemType::kU8:
      return "uint8";
    case ItemType::kBool:
      break;
  }
  return "bool";
}

int64_t TensorRef::size() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

bool TensorRef::contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::string TensorRef::ShapeText() const {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

const char* KindName(const Value& value) {
  static constexpr const char* kNames[] = {"None",    "a bool",    "an int",  "a float",
                                           "text",    "a tuple",   "a list",  "a dict",
                                           "a class", "a storage", "a tensor"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

std::string Printable(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  return absl::CHexEscape(absl::string_view(text.data(), std::min(text.size(), kMaxBytes)));
}

const Value* PickleTree::Find(const Value& dict, std::string_view key) const {
  const Dict* found = std::get_if<Dict>(&dict);
  if (found == nullptr) return nullptr;
  for (auto entry = found->entries.rbegin(); entry != found->entries.rend(); ++entry) {
    const std::string* name = std::get_if<std::string>(&at(entry->first));
    if (name != nullptr && *name == key) return &at(entry->second);
  }
  return nullptr;
}

}  // namespace recollect::convert
