// Writes GGUF files, for tests that need a small model in one, or a broken one.
//
//   GgufWriter writer;
//   writer.Set("general.architecture", "llama").Set("llama.block_count", uint32_t{2});
//   writer.SetArray("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
//   writer.AddFloats("output_norm.weight", {32}, values);
//   WriteFile(path, writer.Bytes());
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace recollect {

// The numbers that a file has for types of tensors and of values.
enum class GgufTensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

template <typename T>
constexpr uint32_t GgufValueType() {
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  if constexpr (std::is_same_v<T, int8_t>) return 1;
  if constexpr (std::is_same_v<T, uint16_t>) return 2;
  if constexpr (std::is_same_v<T, int16_t>) return 3;
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, uint64_t>) return 10;
  if constexpr (std::is_same_v<T, int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}

// Appends the bytes of one item as files have it.
template <typename T>
void AppendGguf(std::string& bytes, const T& item) {
  if constexpr (std::is_same_v<T, std::string>) {
    AppendGguf(bytes, uint64_t{item.size()});
    bytes += item;
  } else {
    bytes.append(reinterpret_cast<const char*>(&item), sizeof(item));
  }
}

struct GgufWriterTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major, as TensorInfo has it
  uint32_t type = 0;
  std::string data;
  std::optional<uint64_t> offset;  // instead of the right one
};

// Collects keys and tensors. What a test makes wrong, it sets in the public members, or changes in
// the bytes.
class GgufWriter {
 public:
  template <typename T>
  GgufWriter& Set(const std::string& key, const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      return Append(key, GgufValueType<std::string>(), [&](std::string& bytes) {
        AppendGguf(bytes, std::string(std::string_view(value)));
      });
    } else {
      return Append(key, GgufValueType<T>(), [&](std::string& bytes) { AppendGguf(bytes, value); });
    }
  }

  template <typename T>
  GgufWriter& SetArray(const std::string& key, const std::vector<T>& values) {
    return Append(key, kArrayType, [&](std::string& bytes) {
      AppendGguf(bytes, GgufValueType<T>());
      AppendGguf(bytes, uint64_t{values.size()});
      for (const T& value : values) AppendGguf(bytes, value);
    });
  }

  // A value of these bytes, whatever they are.
  GgufWriter& SetRaw(const std::string& key, uint32_t type, const std::string& value) {
    return Append(key, type, [&](std::string& bytes) { bytes += value; });
  }

  GgufWriter& Add(const std::string& name, const std::vector<int64_t>& shape, GgufTensorType type,
                  const std::string& data) {
    tensors.push_back({name, shape, static_cast<uint32_t>(type), data, std::nullopt});
    return *this;
  }

  GgufWriter& AddFloats(const std::string& name, const std::vector<int64_t>& shape,
                        const std::vector<float>& values) {
    return Add(
        name, shape, GgufTensorType::kF32,
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }

  // Everything up to the data, unpadded.
  std::string Header() const {
    std::string bytes = "GGUF";
    AppendGguf(bytes, version);
    AppendGguf(bytes, tensor_count.value_or(tensors.size()));
    AppendGguf(bytes, key_count.value_or(keys_));
    bytes += metadata_;
    uint64_t offset = 0;
    for (const GgufWriterTensor& tensor : tensors) {
      AppendGguf(bytes, tensor.name);
      AppendGguf(bytes, static_cast<uint32_t>(tensor.shape.size()));
      for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) {
        AppendGguf(bytes, *extent);
      }
      AppendGguf(bytes, tensor.type);
      AppendGguf(bytes, tensor.offset.value_or(offset));
      offset = Padded(offset + tensor.data.size());
    }
    return bytes;
  }

  std::string Bytes() const {
    std::string bytes = Header();
    bytes.resize(Padded(bytes.size()));
    for (const GgufWriterTensor& tensor : tensors) {
      bytes += tensor.data;
      bytes.resize(Padded(bytes.size()));
    }
    return bytes;
  }

  uint32_t version = 3;
  uint64_t alignment = 32;  // of the data; the key general.alignment is a Set of its own
  std::optional<uint64_t> tensor_count;  // instead of the right ones
  std::optional<uint64_t> key_count;
  std::vector<GgufWriterTensor> tensors;

 private:
  static constexpr uint32_t kArrayType = 9;

  template <typename Write>
  GgufWriter& Append(const std::string& key, uint32_t type, Write write) {
    AppendGguf(metadata_, key);
    AppendGguf(metadata_, type);
    write(metadata_);
    ++keys_;
    return *this;
  }
  uint64_t Padded(uint64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }

  std::string metadata_;
  uint64_t keys_ = 0;
};

}  // namespace recollect
