// The input is the pickle of a checkpoint. One that is read becomes a checkpoint with all the
// storages it names: what a broken file cannot show, because its checksums are wrong.
#include <filesystem>
#include <map>
#include <utility>

#include "tests/convert/convert_testing.h"
#include "tests/fuzz/checkpoint_checks.h"
#include "tests/fuzz/pickle_values.h"

namespace {

using namespace recollect;           // NOLINT
using namespace recollect::convert;  // NOLINT

// The last item of a tensor lies in its storage.
void CheckTensor(const TensorRef& tensor) {
  RECOLLECT_CHECK(tensor.shape.size() == tensor.strides.size());
  RECOLLECT_CHECK(tensor.offset >= 0 && tensor.size() >= 0);
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  RECOLLECT_CHECK(tensor.size() == 0 || last < tensor.storage.items);
  if (tensor.contiguous()) RECOLLECT_CHECK(tensor.size() <= tensor.storage.items);
}

using Entries = std::vector<std::pair<std::string, std::string>>;

// Storages of up to some kilobytes, each once; others are missing.
Entries Container(const PickleTree& tree, std::string_view pickle) {
  std::map<std::string, size_t> storages;
  const auto add = [&](const StorageRef& storage) {
    const int64_t bytes = storage.items * ItemBytes(storage.type);
    const bool is_file = !storage.key.empty() && storage.key.back() != '/';
    if (bytes <= 1 << 14 && is_file) storages.emplace(storage.key, static_cast<size_t>(bytes));
  };
  fuzz::VisitValues(tree, [&](const Value& value) {
    if (const auto* storage = std::get_if<StorageRef>(&value)) add(*storage);
    if (const auto* tensor = std::get_if<TensorRef>(&value)) {
      CheckTensor(*tensor);
      add(tensor->storage);
    }
  });
  Entries entries = {{"archive/data.pkl", std::string(pickle)}};
  for (const auto& [key, bytes] : storages) {
    entries.emplace_back("archive/data/" + key, std::string(bytes, '\x01'));
  }
  return entries;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view pickle = fuzz::AsText(data, size);
  const auto tree = PickleTree::Parse(pickle);
  if (!tree.ok()) {
    fuzz::CheckRefusal(tree.status(),
                       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kDataLoss});
    return 0;
  }
  const Entries entries = Container(*tree, pickle);
  if (!std::holds_alternative<Dict>(tree->at(tree->root()))) return 0;
  static const std::string& path = *new std::string(
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/fuzz_", getpid(), ".pt"));
  WriteZip(path, entries);
  const auto checkpoint = TorchCheckpoint::Open(path);
  std::filesystem::remove(path);
  RECOLLECT_CHECK(checkpoint.ok());
  fuzz::CheckPlans(**checkpoint);
  return 0;
}
