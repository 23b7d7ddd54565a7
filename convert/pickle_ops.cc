// The opcodes that take more than a line.
#include <bit>
#include <string>

#include "convert/pickle_globals.h"
#include "convert/pickle_machine.h"
#include "model/text/tokenizer.h"

namespace recollect::convert {

absl::Status PickleMachine::PushText(size_t length_bytes) {
  uint64_t length = 0;
  std::string_view bytes;
  RETURN_IF_ERROR(ReadUint(length_bytes, length));
  RETURN_IF_ERROR(Take(length, bytes));
  // Texts end up in messages and in JSON.
  if (model::FindInvalidUtf8(bytes, false) >= 0) return Wrong("a text is not valid UTF-8");
  return Push(std::string(bytes));
}

// Two's complement of any length; longer than 8 bytes is no number of a checkpoint.
absl::Status PickleMachine::PushLong() {
  uint64_t size = 0;
  uint64_t number = 0;
  RETURN_IF_ERROR(ReadUint(1, size));
  if (size > 8) return Wrong(absl::StrCat("an int of ", size, " bytes, limit 8"));
  RETURN_IF_ERROR(ReadUint(size, number));
  const int unused = static_cast<int>(64 - 8 * size);
  // The shift up and the arithmetic one back extend the sign.
  return Push(size == 0 ? int64_t{0} : static_cast<int64_t>(number << unused) >> unused);
}

absl::Status PickleMachine::PushFloat() {
  std::string_view bytes;
  RETURN_IF_ERROR(Take(8, bytes));
  uint64_t bits = 0;
  for (const char c : bytes) bits = bits << 8 | static_cast<uint8_t>(c);  // big-endian
  return Push(std::bit_cast<double>(bits));
}

absl::Status PickleMachine::PushTuple(size_t count) {
  Tuple tuple;
  tuple.items.resize(count);
  for (size_t i = count; i-- > 0;) RETURN_IF_ERROR(Pop(tuple.items[i]));
  return Push(std::move(tuple));
}

absl::Status PickleMachine::Append(const std::vector<ValueId>& items) {
  List* list = nullptr;
  RETURN_IF_ERROR(Top(list));
  list->items.insert(list->items.end(), items.begin(), items.end());
  return absl::OkStatus();
}

absl::Status PickleMachine::SetItems(const std::vector<ValueId>& keys_and_values) {
  Dict* dict = nullptr;
  RETURN_IF_ERROR(Top(dict));
  if (keys_and_values.size() % 2 != 0) return Wrong("a key without a value");
  for (size_t i = 0; i < keys_and_values.size(); i += 2) {
    const Value& key = tree_.at(keys_and_values[i]);
    if (std::holds_alternative<Dict>(key) || std::holds_alternative<List>(key))
      return Wrong(absl::StrCat(KindName(key), " as a key"));
    dict->entries.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
  }
  return absl::OkStatus();
}

absl::Status PickleMachine::Put(uint64_t index) {
  if (stack_.empty() || stack_.back() == kMark) return Wrong("nothing to put into the memo");
  memo_[index] = stack_.back();
  return absl::OkStatus();
}

absl::Status PickleMachine::Get(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) return Wrong(absl::StrCat("memo ", index, " was never set"));
  return PushId(found->second);
}

absl::Status PickleMachine::PushGlobal(std::string_view module, std::string_view name) {
  ASSIGN_OR_RETURN(const int index, FindGlobal(module, name));
  return Push(GlobalRef{index});
}

// REDUCE and NEWOBJ: the only calls there are, an empty dict and a tensor.
absl::Status PickleMachine::Call(bool reduce) {
  const char* const opcode = reduce ? "REDUCE" : "NEWOBJ";
  ValueId arguments = 0;
  ValueId callee = 0;
  RETURN_IF_ERROR(Pop(arguments));
  RETURN_IF_ERROR(Pop(callee));
  const GlobalRef* global = std::get_if<GlobalRef>(&tree_.at(callee));
  const Tuple* tuple = std::get_if<Tuple>(&tree_.at(arguments));
  if (global == nullptr) return Wrong(absl::StrCat(opcode, " of ", KindName(tree_.at(callee))));
  if (tuple == nullptr) return Wrong(absl::StrCat(opcode, " with ", KindName(tree_.at(arguments))));
  const Global& target = AllowedGlobals()[static_cast<size_t>(global->index)];
  const std::string name(target.name);
  switch (target.kind) {
    case GlobalKind::kDictClass:
      if (tuple->items.empty()) return Push(Dict{});
      return Wrong(absl::StrCat(opcode, " of ", name, " with arguments"));
    case GlobalKind::kRebuildTensor:
      if (reduce) {
        ASSIGN_OR_RETURN(TensorRef tensor, RebuildTensor(tree_, *tuple));
        return Push(std::move(tensor));
      }
      break;
    case GlobalKind::kStorageClass:
      break;
  }
  return Wrong(absl::StrCat(opcode, " of ", name));
}

// The attributes of an object. OrderedDict keeps a state dict's versions there and EasyDict a copy
// of its entries: neither is needed.
absl::Status PickleMachine::Build() {
  ValueId state = 0;
  RETURN_IF_ERROR(Pop(state));
  if (!std::holds_alternative<Dict>(tree_.at(state)))
    return Wrong(absl::StrCat("BUILD with ", KindName(tree_.at(state))));
  Dict* object = nullptr;
  return Top(object);
}

absl::Status PickleMachine::Stop() {
  RETURN_IF_ERROR(Pop(tree_.root_));
  if (!stack_.empty()) return Wrong("STOP with values left on the stack");
  if (!rest_.empty()) return Wrong(absl::StrCat(rest_.size(), " bytes after STOP"));
  done_ = true;
  return absl::OkStatus();
}

}  // namespace recollect::convert
