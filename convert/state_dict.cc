#include "convert/state_dict.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace recollect::convert {
namespace {

constexpr int64_t kMaxLayerNames = 4096;
// Of a parameter's name; the longest published ones have some fifty.
constexpr size_t kMaxNameBytes = 512;
// Entries of a dict that is not one of weights; a file of some megabytes can hold millions.
constexpr size_t kMaxProblems = 1000;

bool HasShape(const TensorRef& tensor, const std::vector<int64_t>& shape) {
  return tensor.shape.size() == shape.size() &&
         std::equal(shape.begin(), shape.end(), tensor.shape.begin(),
                    [](int64_t want, int64_t have) { return want == kAnyExtent || want == have; });
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  const std::string text = absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  return absl::StrReplaceAll(text, {{absl::StrCat(kAnyExtent), "*"}});
}

bool IsWeight(ItemType type) {
  return type == ItemType::kF32 || type == ItemType::kBf16 || type == ItemType::kF16;
}

}  // namespace

StateDict::StateDict(const TorchCheckpoint& checkpoint, std::vector<std::string>& problems)
    : checkpoint_(checkpoint), problems_(problems) {
  const PickleTree& tree = checkpoint.tree();
  const Value* task = tree.Find(tree.root(), "task");
  const Value& root = tree.at(tree.root());
  if (task != nullptr && std::holds_alternative<Dict>(*task)) {
    Collect(std::get<Dict>(*task));
  } else if (task == nullptr && std::holds_alternative<Dict>(root)) {
    Collect(std::get<Dict>(root));
  } else {
    problems_.push_back(absl::StrCat("the file holds ", KindName(task == nullptr ? root : *task),
                                     task == nullptr ? "" : " under \"task\"",
                                     ", expected a dict of weights, or one under \"task\""));
  }
}

void StateDict::Collect(const Dict& dict) {
  const PickleTree& tree = checkpoint_.tree();
  for (const auto& [key, value] : dict.entries) {
    const std::string* text = std::get_if<std::string>(&tree.at(key));
    const TensorRef* tensor = std::get_if<TensorRef>(&tree.at(value));
    if (problems_.size() >= kMaxProblems) {
      problems_.push_back("and so on");
      return;
    }
    if (text != nullptr && text->size() > kMaxNameBytes) {
      problems_.push_back(
          absl::StrCat("a name of ", text->size(), " bytes, expected at most ", kMaxNameBytes));
      continue;
    }
    const std::string name = text == nullptr
                                 ? absl::StrCat("(", KindName(tree.at(key)), " as a name)")
                                 : Printable(absl::StrReplaceAll(*text, {{"_orig_mod.", ""}}));
    if (text == nullptr || tensor == nullptr) {
      problems_.push_back(
          absl::StrCat(name, " is ", KindName(tree.at(value)), ", expected a tensor"));
    } else if (!tensors_.emplace(name, *tensor).second) {
      problems_.push_back(absl::StrCat(name, " appears twice"));
    }
  }
}

const TensorRef* StateDict::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

int64_t StateDict::Extent(const std::string& name, size_t axis, int64_t otherwise) const {
  const TensorRef* tensor = Find(name);
  return tensor != nullptr && axis < tensor->shape.size() ? tensor->shape[axis] : otherwise;
}

TensorRef StateDict::Take(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorRef* tensor = Find(name);
  if (tensor == nullptr) {
    problems_.push_back(absl::StrCat(name, " is missing, expected shape ", ShapeText(shape)));
    return {};
  }
  taken_.insert(name);
  const size_t before = problems_.size();
  if (!HasShape(*tensor, shape)) {
    problems_.push_back(
        absl::StrCat(name, " has shape ", tensor->ShapeText(), ", expected ", ShapeText(shape)));
  } else if (!tensor->contiguous()) {
    problems_.push_back(absl::StrCat(name, " is not contiguous: strides [",
                                     absl::StrJoin(tensor->strides, ", "), "]"));
  }
  if (!IsWeight(tensor->storage.type)) {
    problems_.push_back(absl::StrCat(name, " is ", ItemName(tensor->storage.type),
                                     ", expected float32, bfloat16 or float16"));
  }
  if (const absl::Status status = checkpoint_.CheckStorage(*tensor); !status.ok()) {
    problems_.push_back(absl::StrCat(name, ": ", status.message()));
  }
  return problems_.size() == before ? *tensor : TensorRef{};
}

void StateDict::ReportLeftOver() const {
  for (const auto& [name, tensor] : tensors_) {
    if (!taken_.contains(name)) {
      problems_.push_back(absl::StrCat(name, " ", tensor.ShapeText(), " is left over"));
    }
  }
}

int64_t StateDict::CountLayers(const std::string& prefix) const {
  int64_t count = 0;
  for (auto at = tensors_.lower_bound(prefix);
       at != tensors_.end() && absl::StartsWith(at->first, prefix); ++at) {
    const std::string rest = at->first.substr(prefix.size());
    int64_t index = 0;
    // A number out of range is no layer; its tensor is left over.
    if (absl::SimpleAtoi(rest.substr(0, rest.find('.')), &index) && index >= 0 &&
        index < kMaxLayerNames) {
      count = std::max(count, index + 1);
    }
  }
  return count;
}

}  // namespace recollect::convert
