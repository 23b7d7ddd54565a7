// The globals that a pickle may name, and their meanings here. Private to convert/.
#ifndef RECOLLECT_CONVERT_PICKLE_GLOBALS_H_
#define RECOLLECT_CONVERT_PICKLE_GLOBALS_H_

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "convert/pickle.h"

namespace recollect::convert {

enum class GlobalKind { kDictClass, kRebuildTensor, kStorageClass };

struct Global {
  std::string_view name;  // "collections.OrderedDict"
  GlobalKind kind;
  ItemType type = ItemType::kF32;  // of a storage class
};

// All allowed globals.
std::span<const Global> AllowedGlobals();

// Index into AllowedGlobals. INVALID_ARGUMENT quotes the name, which may be any bytes.
absl::StatusOr<int> FindGlobal(std::string_view module, std::string_view name);

// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks[,
// metadata]) INVALID_ARGUMENT: other arguments, or a view that leaves its storage.
absl::StatusOr<TensorRef> RebuildTensor(const PickleTree& tree, const Tuple& arguments);

// Persistent id ("storage", class, key, location, items). INVALID_ARGUMENT: anything else.
absl::StatusOr<StorageRef> LoadStorage(const PickleTree& tree, const Value& id);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_PICKLE_GLOBALS_H_
