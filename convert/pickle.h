// Reads Python's pickle format as data: the values of which a PyTorch checkpoint consists, and
// nothing else. Nothing is imported, called or executed.
//
// A pickle is a program for a stack machine that may name any Python function and call it. This
// interpreter knows the opcodes that a state dict and a plain configuration need, and a closed list
// of globals, each with one fixed meaning (pickle_globals.h). Everything else is an error that
// names the opcode or global and its offset.
//
//   ASSIGN_OR_RETURN(const PickleTree tree, PickleTree::Parse(bytes));
//   const Value* step = tree.Find(tree.root(), "step");
#ifndef RECOLLECT_CONVERT_PICKLE_H_
#define RECOLLECT_CONVERT_PICKLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect::convert {

// Number format of a storage's items. Only the first three can be weights of a model.
enum class ItemType { kF32, kBf16, kF16, kF64, kI64, kI32, kI16, kI8, kU8, kBool };
int64_t ItemBytes(ItemType type);
const char* ItemName(ItemType type);  // "float32"

// Names a run of `items` items in the container.
struct StorageRef {
  std::string key;
  ItemType type = ItemType::kF32;
  int64_t items = 0;
};

// A strided view of a storage, in items. It lies within the storage, which is checked on reading.
struct TensorRef {
  StorageRef storage;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  int64_t size() const;           // product of `shape`
  bool contiguous() const;        // row-major without gaps
  std::string ShapeText() const;  // "[2, 3]"
};

// Index of a value in its tree. Values may refer to each other in cycles; walk them by known depth.
using ValueId = int32_t;

struct None {};
struct Tuple {
  std::vector<ValueId> items;
};
struct List {
  std::vector<ValueId> items;
};
// A dict, OrderedDict or EasyDict, in the order of insertion; the last entry of a key counts.
struct Dict {
  std::vector<std::pair<ValueId, ValueId>> entries;
};
struct GlobalRef {
  int index = 0;  // into the table of pickle_globals.h
};
using Value = std::variant<None, bool, int64_t, double, std::string, Tuple, List, Dict, GlobalRef,
                           StorageRef, TensorRef>;

const char* KindName(const Value& value);  // "a dict", "an int" …

// Text of a file, made safe for a message: at most 200 bytes, with characters that a terminal would
// act on escaped. Ordinary names are unchanged.
std::string Printable(std::string_view text);

// Immutable.
class PickleTree {
 public:
  // INVALID_ARGUMENT: an opcode or global that is not on the list, misuse of stack or memo, wrong
  // arguments, a tensor outside its storage, more values or bytes than any checkpoint needs.
  // DATA_LOSS: the pickle ends early. Both name the byte.
  static absl::StatusOr<PickleTree> Parse(std::string_view pickle);

  ValueId root() const { return root_; }
  const Value& at(ValueId id) const { return values_[static_cast<size_t>(id)]; }

  // The value of a text key, or nullptr if there is none or `dict` is not a Dict.
  const Value* Find(const Value& dict, std::string_view key) const;
  const Value* Find(ValueId dict, std::string_view key) const { return Find(at(dict), key); }

 private:
  friend class PickleMachine;
  std::vector<Value> values_;
  ValueId root_ = 0;
};

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_PICKLE_H_
