#include "convert/pickle_globals.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_join.h"
#include "base/status.h"

namespace recollect::convert {
namespace {

constexpr Global kGlobals[] = {
    {"collections.OrderedDict", GlobalKind::kDictClass},
    {"easydict.EasyDict", GlobalKind::kDictClass},
    {"torch._utils._rebuild_tensor_v2", GlobalKind::kRebuildTensor},
    {"torch.FloatStorage", GlobalKind::kStorageClass, ItemType::kF32},
    {"torch.BFloat16Storage", GlobalKind::kStorageClass, ItemType::kBf16},
    {"torch.HalfStorage", GlobalKind::kStorageClass, ItemType::kF16},
    {"torch.DoubleStorage", GlobalKind::kStorageClass, ItemType::kF64},
    {"torch.LongStorage", GlobalKind::kStorageClass, ItemType::kI64},
    {"torch.IntStorage", GlobalKind::kStorageClass, ItemType::kI32},
    {"torch.ShortStorage", GlobalKind::kStorageClass, ItemType::kI16},
    {"torch.CharStorage", GlobalKind::kStorageClass, ItemType::kI8},
    {"torch.ByteStorage", GlobalKind::kStorageClass, ItemType::kU8},
    {"torch.BoolStorage", GlobalKind::kStorageClass, ItemType::kBool},
};
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxKeyBytes = 64;

// A list of sizes: ints of 0 and above.
bool ReadSizes(const PickleTree& tree, const Value& value, std::vector<int64_t>& sizes) {
  const Tuple* tuple = std::get_if<Tuple>(&value);
  if (tuple == nullptr || tuple->items.size() > kMaxRank) return false;
  for (const ValueId id : tuple->items) {
    const int64_t* size = std::get_if<int64_t>(&tree.at(id));
    if (size == nullptr || *size < 0) return false;
    sizes.push_back(*size);
  }
  return true;
}

// The last item of the view lies inside the storage; an empty view needs none.
bool FitsStorage(const TensorRef& tensor) {
  int64_t size = 1;
  int64_t last = tensor.offset;
  bool empty = false;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const int64_t extent = tensor.shape[i];
    empty = empty || extent == 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(size, std::max<int64_t>(extent, 1), &size) ||
        __builtin_mul_overflow(std::max<int64_t>(extent, 1) - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  return empty ? tensor.offset <= tensor.storage.items : last < tensor.storage.items;
}

}  // namespace

std::span<const Global> AllowedGlobals() { return kGlobals; }

absl::StatusOr<int> FindGlobal(std::string_view module, std::string_view name) {
  const std::string full = absl::StrCat(absl::string_view(module.data(), module.size()), ".",
                                        absl::string_view(name.data(), name.size()));
  for (size_t i = 0; i < std::size(kGlobals); ++i) {
    if (kGlobals[i].name == full) return static_cast<int>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "global ", Printable(full), " is not among those a state dict needs; nothing was executed"));
}

absl::StatusOr<TensorRef> RebuildTensor(const PickleTree& tree, const Tuple& arguments) {
  const auto wrong = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("_rebuild_tensor_v2: ", what));
  };
  const std::vector<ValueId>& items = arguments.items;
  if (items.size() != 6 && items.size() != 7) return wrong("expected 6 or 7 arguments");
  const StorageRef* storage = std::get_if<StorageRef>(&tree.at(items[0]));
  const int64_t* offset = std::get_if<int64_t>(&tree.at(items[1]));
  if (storage == nullptr) return wrong("the first argument is no storage");
  if (offset == nullptr || *offset < 0) return wrong("the offset is no int of 0 or above");
  TensorRef tensor{*storage, *offset, {}, {}};
  if (!ReadSizes(tree, tree.at(items[2]), tensor.shape) ||
      !ReadSizes(tree, tree.at(items[3]), tensor.strides) ||
      tensor.shape.size() != tensor.strides.size()) {
    return wrong("shape and strides are not two tuples of as many ints of 0 and above");
  }
  if (!std::holds_alternative<bool>(tree.at(items[4]))) return wrong("requires_grad is no bool");
  const Dict* hooks = std::get_if<Dict>(&tree.at(items[5]));
  if (hooks == nullptr || !hooks->entries.empty()) return wrong("expected no hooks");
  if (!FitsStorage(tensor)) {
    return absl::InvalidArgumentError(
        absl::StrCat("_rebuild_tensor_v2: shape ", tensor.ShapeText(), " with strides [",
                     absl::StrJoin(tensor.strides, ", "), "] at item ", tensor.offset,
                     " leaves its storage of ", tensor.storage.items, " items"));
  }
  return tensor;
}

absl::StatusOr<StorageRef> LoadStorage(const PickleTree& tree, const Value& id) {
  const auto wrong = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("persistent id: ", what));
  };
  const Tuple* tuple = std::get_if<Tuple>(&id);
  if (tuple == nullptr || tuple->items.size() != 5) return wrong("expected a tuple of 5");
  const auto item = [&](size_t i) -> const Value& { return tree.at(tuple->items[i]); };
  const std::string* kind = std::get_if<std::string>(&item(0));
  const GlobalRef* type = std::get_if<GlobalRef>(&item(1));
  const std::string* key = std::get_if<std::string>(&item(2));
  const int64_t* items = std::get_if<int64_t>(&item(4));
  if (kind == nullptr || *kind != "storage") return wrong("expected \"storage\" first");
  if (type == nullptr || kGlobals[type->index].kind != GlobalKind::kStorageClass)
    return wrong("expected a storage class");
  if (key == nullptr || !std::holds_alternative<std::string>(item(3)))
    return wrong("expected key and location as text");
  if (key->size() > kMaxKeyBytes || Printable(*key) != *key)
    return wrong("the key is no ordinary name");
  const ItemType item_type = kGlobals[type->index].type;
  int64_t bytes = 0;
  if (items == nullptr || *items < 0 ||
      __builtin_mul_overflow(*items, ItemBytes(item_type), &bytes))
    return wrong("the number of items is out of range");
  return StorageRef{*key, item_type, *items};
}

}  // namespace recollect::convert
