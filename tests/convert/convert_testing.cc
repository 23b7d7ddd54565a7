#include "tests/convert/convert_testing.h"

#include <zip.h>

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/golden/hub_weights.h"

namespace recollect::convert {
namespace {

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

int64_t Size(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  return size;
}

std::string Key(const TestTensor& tensor, size_t index) {
  return tensor.storage.empty() ? std::to_string(index) : tensor.storage;
}

}  // namespace

std::string PickleText(const std::string& text) {
  return absl::StrCat("X", LittleEndian(text.size(), 4), text);
}
std::string PickleInt(int64_t value) {
  return value == static_cast<int32_t>(value)
             ? absl::StrCat("J", LittleEndian(static_cast<uint64_t>(value), 4))
             : absl::StrCat("\x8a\x08", LittleEndian(static_cast<uint64_t>(value), 8));
}
std::string PickleTuple(const std::vector<int64_t>& values) {
  std::string text = "(";
  for (const int64_t value : values) text += PickleInt(value);
  return text + "t";
}
std::string PickleGlobal(const std::string& module, const std::string& name) {
  return absl::StrCat("c", module, "\n", name, "\n");
}

std::string PickleTensor(const TestTensor& tensor, const std::string& key) {
  std::vector<int64_t> strides = tensor.strides;
  if (strides.empty()) {
    strides.resize(tensor.shape.size(), 1);
    for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * tensor.shape[i];
  }
  return PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "((" + PickleText("storage") +
         PickleGlobal("torch", tensor.storage_class) + PickleText(key) + PickleText("cpu") +
         PickleInt(Size(tensor.shape)) + "tQ" + PickleInt(0) + PickleTuple(tensor.shape) +
         PickleTuple(strides) + "\x89" + PickleGlobal("collections", "OrderedDict") + ")RtR";
}

std::string PickleCheckpoint(const std::vector<TestTensor>& tensors, const std::string& config) {
  std::string text =
      "\x80\x02}(" + PickleText("task") + PickleGlobal("collections", "OrderedDict") + ")R(";
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += PickleText(tensors[i].name) + PickleTensor(tensors[i], Key(tensors[i], i));
  }
  text += "u";
  if (!config.empty()) text += PickleText("config") + config;
  return text + "u.";
}

void WriteZip(const std::string& path,
              const std::vector<std::pair<std::string, std::string>>& entries, bool compressed) {
  int error = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  RECOLLECT_CHECK(archive != nullptr);
  for (const auto& [name, bytes] : entries) {
    zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    RECOLLECT_CHECK(index >= 0);
    RECOLLECT_CHECK(zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                                             compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) == 0);
  }
  RECOLLECT_CHECK(zip_close(archive) == 0);
}

void WriteCheckpoint(const std::string& path, const std::vector<TestTensor>& tensors,
                     const std::string& config) {
  std::vector<std::pair<std::string, std::string>> entries = {
      {"archive/data.pkl", PickleCheckpoint(tensors, config)}, {"archive/byteorder", "little"}};
  std::set<std::string> written;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string key = Key(tensors[i], i);
    if (!written.insert(key).second) continue;
    std::string bytes(tensors[i].values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), tensors[i].values.data(), bytes.size());
    entries.emplace_back("archive/data/" + key, bytes);
  }
  WriteZip(path, entries);
}

std::vector<TestTensor> TinyRatPlus() {
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    tensors.push_back({name, shape, HubWeights(name, Size(shape)), "", "FloatStorage", {}});
  };
  add("embedding.wte.weight", {400, 4});
  tensors.back().storage = "embedding";
  for (const std::string layer : {"backbone.layers.0.", "backbone.layers.1."}) {
    add(layer + "seq_layer.input_norm.weight", {4});
    add(layer + "seq_layer.in_proj.weight", {20, 4});
    add(layer + "seq_layer.out_proj.weight", {4, 4});
    add(layer + "hidden_layer.ln.weight", {4});
    add(layer + "hidden_layer.fc1.weight", {16, 4});
    add(layer + "hidden_layer.fc2.weight", {4, 16});
  }
  add("backbone.ln.weight", {4});
  tensors.push_back(tensors.front());
  tensors.back().name = "head.lm_head.weight";
  return tensors;
}

}  // namespace recollect::convert
