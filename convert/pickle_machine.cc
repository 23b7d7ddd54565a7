// Reading, the stack, and one case an opcode; the longer ones are in pickle_ops.cc.
#include "convert/pickle_machine.h"

#include "absl/strings/str_format.h"
#include "convert/pickle_globals.h"

namespace recollect::convert {
namespace {

// A state dict of the largest model, with its optimizer, pickles to a few hundred kilobytes; these
// bounds keep what a hostile file can allocate to some hundred megabytes.
constexpr size_t kMaxPickleBytes = size_t{16} << 20;
constexpr size_t kMaxValues = 1'000'000;
constexpr int kMaxProtocol = 5;

enum Opcode : uint8_t {
  kMarkOp = '(',
  kStop = '.',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt4 = 'J',
  kInt1 = 'K',
  kInt2 = 'M',
  kLong1 = 0x8a,
  kFloat = 'G',
  kText4 = 'X',
  kText1 = 0x8c,
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kPut1 = 'q',
  kPut4 = 'r',
  kMemoize = 0x94,
  kGet1 = 'h',
  kGet4 = 'j',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kPersistentId = 'Q',
  kReduce = 'R',
  kNewObject = 0x81,
  kBuild = 'b',
  kProtocol = 0x80,
  kFrame = 0x95,
};

}  // namespace

absl::StatusOr<PickleTree> PickleMachine::Run() {
  if (total_ > kMaxPickleBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pickle of ", total_, " bytes, limit ", kMaxPickleBytes));
  }
  while (!done_) {
    opcode_at_ = total_ - rest_.size();
    uint8_t opcode = 0;
    absl::Status status = ReadUint(1, opcode);
    if (status.ok()) status = Step(opcode);
    if (!status.ok()) return Annotate(status, absl::StrCat("pickle byte ", opcode_at_));
  }
  return std::move(tree_);
}

absl::Status PickleMachine::Take(size_t size, std::string_view& bytes) {
  if (size > rest_.size()) {
    return absl::DataLossError(
        absl::StrCat("the pickle ends early: ", size, " bytes expected, ", rest_.size(), " left"));
  }
  bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return absl::OkStatus();
}

absl::Status PickleMachine::ReadLine(std::string_view& line) {
  const size_t end = rest_.find('\n');
  if (end == std::string_view::npos)
    return absl::DataLossError("the pickle ends early: a line without its end");
  line = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return absl::OkStatus();
}

absl::Status PickleMachine::Push(Value value) {
  if (tree_.values_.size() >= kMaxValues)
    return Wrong(absl::StrCat("more than ", kMaxValues, " values"));
  stack_.push_back(static_cast<ValueId>(tree_.values_.size()));
  tree_.values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status PickleMachine::PushId(ValueId id) {
  if (stack_.size() >= kMaxValues) return Wrong("the stack is too deep");
  stack_.push_back(id);
  return absl::OkStatus();
}

absl::Status PickleMachine::Pop(ValueId& id) {
  if (stack_.empty() || stack_.back() == kMark) return Wrong("the stack has too few values");
  id = stack_.back();
  stack_.pop_back();
  return absl::OkStatus();
}

absl::Status PickleMachine::PopToMark(std::vector<ValueId>& ids) {
  size_t mark = stack_.size();
  while (mark > 0 && stack_[mark - 1] != kMark) --mark;
  if (mark == 0) return Wrong("no mark on the stack");
  ids.assign(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
  stack_.resize(mark - 1);
  return absl::OkStatus();
}

absl::Status PickleMachine::Step(uint8_t opcode) {
  uint64_t number = 0;
  std::vector<ValueId> ids;
  switch (opcode) {
    case kProtocol:
      RETURN_IF_ERROR(ReadUint(1, number));
      if (number <= kMaxProtocol) return absl::OkStatus();
      return Wrong(absl::StrCat("protocol ", number, ", expected at most ", kMaxProtocol));
    case kFrame:  // only groups bytes for reading
      return ReadUint(8, number);
    case kMarkOp:
      return PushId(kMark);
    case kNone:
      return Push(None{});
    case kTrue:
      return Push(true);
    case kFalse:
      return Push(false);
    case kInt1:
      RETURN_IF_ERROR(ReadUint(1, number));
      return Push(static_cast<int64_t>(number));
    case kInt2:
      RETURN_IF_ERROR(ReadUint(2, number));
      return Push(static_cast<int64_t>(number));
    case kInt4:
      RETURN_IF_ERROR(ReadUint(4, number));
      return Push(int64_t{static_cast<int32_t>(number)});
    case kLong1:
      return PushLong();
    case kFloat:
      return PushFloat();
    case kText1:
      return PushText(1);
    case kText4:
      return PushText(4);
    case kEmptyTuple:
      return Push(Tuple{});
    case kTuple:
      RETURN_IF_ERROR(PopToMark(ids));
      return Push(Tuple{std::move(ids)});
    case kTuple1:
    case kTuple2:
    case kTuple3:
      return PushTuple(opcode - kTuple1 + 1u);
    case kEmptyList:
      return Push(List{});
    case kEmptyDict:
      return Push(Dict{});
    default:
      return StepRest(opcode);
  }
}

absl::Status PickleMachine::StepRest(uint8_t opcode) {
  uint64_t number = 0;
  std::vector<ValueId> ids;
  std::string_view module, name;
  switch (opcode) {
    case kAppend:
      ids.resize(1);
      RETURN_IF_ERROR(Pop(ids[0]));
      return Append(ids);
    case kAppends:
      RETURN_IF_ERROR(PopToMark(ids));
      return Append(ids);
    case kSetItem:
      ids.resize(2);
      RETURN_IF_ERROR(Pop(ids[1]));
      RETURN_IF_ERROR(Pop(ids[0]));
      return SetItems(ids);
    case kSetItems:
      RETURN_IF_ERROR(PopToMark(ids));
      return SetItems(ids);
    case kPut1:
    case kPut4:
      RETURN_IF_ERROR(ReadUint(opcode == kPut1 ? 1 : 4, number));
      return Put(number);
    case kMemoize:
      return Put(memo_.size());
    case kGet1:
    case kGet4:
      RETURN_IF_ERROR(ReadUint(opcode == kGet1 ? 1 : 4, number));
      return Get(number);
    case kGlobal:
      RETURN_IF_ERROR(ReadLine(module));
      RETURN_IF_ERROR(ReadLine(name));
      return PushGlobal(module, name);
    case kStackGlobal: {
      ids.resize(2);
      RETURN_IF_ERROR(Pop(ids[1]));
      RETURN_IF_ERROR(Pop(ids[0]));
      const std::string* first = std::get_if<std::string>(&tree_.at(ids[0]));
      const std::string* second = std::get_if<std::string>(&tree_.at(ids[1]));
      if (first == nullptr || second == nullptr) return Wrong("STACK_GLOBAL: expected two texts");
      // Copies: pushing moves the values.
      return PushGlobal(std::string(*first), std::string(*second));
    }
    case kPersistentId: {
      ids.resize(1);
      RETURN_IF_ERROR(Pop(ids[0]));
      ASSIGN_OR_RETURN(StorageRef storage, LoadStorage(tree_, tree_.at(ids[0])));
      return Push(std::move(storage));
    }
    case kReduce:
    case kNewObject:
      return Call(opcode == kReduce);
    case kBuild:
      return Build();
    case kStop:
      return Stop();
    default:
      return Wrong(absl::StrFormat("opcode 0x%02x is not among those a state dict needs", opcode));
  }
}

absl::StatusOr<PickleTree> PickleTree::Parse(std::string_view pickle) {
  return PickleMachine(pickle).Run();
}

}  // namespace recollect::convert
