// The stack machine behind PickleTree::Parse. Opcodes do what Python's pickletools documents,
// without anything that could run code. Private to convert/.
#ifndef RECOLLECT_CONVERT_PICKLE_MACHINE_H_
#define RECOLLECT_CONVERT_PICKLE_MACHINE_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "convert/pickle.h"

namespace recollect::convert {

// Marks a place on the stack instead of a value.
inline constexpr ValueId kMark = -1;

inline absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// A machine for one pass over a pickle. A method that fails leaves the machine unusable.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view pickle) : rest_(pickle), total_(pickle.size()) {}

  absl::StatusOr<PickleTree> Run();

 private:
  absl::Status Take(size_t size, std::string_view& bytes);

  // Reads a little-endian number of `size` bytes.
  template <typename T>
  absl::Status ReadUint(size_t size, T& number) {
    std::string_view bytes;
    RETURN_IF_ERROR(Take(size, bytes));
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    number = static_cast<T>(value);
    return absl::OkStatus();
  }

  absl::Status ReadLine(std::string_view& line);

  absl::Status Push(Value value);

  // Pushes a reference to an existing value. Their number is bounded, too, since a memo makes
  // references cheap.
  absl::Status PushId(ValueId id);

  absl::Status Pop(ValueId& id);

  // Pops all values above the topmost mark, and the mark.
  absl::Status PopToMark(std::vector<ValueId>& ids);

  // Sets `value` to the topmost value, which must be of this kind and stays on the stack.
  template <typename T>
  absl::Status Top(T*& value) {
    if (stack_.empty() || stack_.back() == kMark) return Wrong("the stack has too few values");
    value = std::get_if<T>(&tree_.values_[static_cast<size_t>(stack_.back())]);
    if (value != nullptr) return absl::OkStatus();
    return Wrong(absl::StrCat("cannot add to ", KindName(tree_.at(stack_.back()))));
  }

  absl::Status Step(uint8_t opcode);
  absl::Status StepRest(uint8_t opcode);
  absl::Status PushText(size_t length_bytes);
  absl::Status PushLong();
  absl::Status PushFloat();
  absl::Status PushTuple(size_t count);
  absl::Status Append(const std::vector<ValueId>& items);
  absl::Status SetItems(const std::vector<ValueId>& keys_and_values);
  absl::Status Put(uint64_t index);
  absl::Status Get(uint64_t index);
  absl::Status PushGlobal(std::string_view module, std::string_view name);
  absl::Status Call(bool reduce);
  absl::Status Build();
  absl::Status Stop();

  PickleTree tree_;
  std::string_view rest_;
  const size_t total_;
  size_t opcode_at_ = 0;
  std::vector<ValueId> stack_;
  std::unordered_map<uint64_t, ValueId> memo_;
  bool done_ = false;
};

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_PICKLE_MACHINE_H_
