// A case that the oracle of a family with landmarks wrote (tests/golden/README.md).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/chunk.h"
#include "model/config/config.h"
#include "model/cpu/cpu_model.h"
#include "model/weights/safetensors.h"
#include "tests/support/inner_product.h"

namespace recollect::model {

class OracleCase {
 public:
  OracleCase(const ModelConfig& config, SafetensorsFile file)
      : config_(config), file_(std::move(file)) {}

  std::vector<int32_t> Integers(const std::string& name) const {
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end() || found->second.dtype != "I32") {
      ADD_FAILURE() << "no int32 tensor " << name;
      return {};
    }
    std::vector<int32_t> values(static_cast<size_t>(found->second.bytes) / sizeof(int32_t));
    std::memcpy(values.data(), found->second.data, values.size() * sizeof(int32_t));
    return values;
  }

  std::vector<float> Floats(const std::string& name) const {
    const auto values = file_.ReadFloats(name);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : std::vector<float>();
  }

  // Returns the stored chunks under `prefix`.
  std::vector<EncodedChunk> Chunks(const std::string& prefix) const {
    const std::vector<int32_t> rows = Integers(prefix + ".rows");
    const std::vector<float> keys = Floats(prefix + ".keys");
    const std::vector<float> states = Floats(prefix + ".states");
    const size_t d = static_cast<size_t>(config_.d);
    const size_t width = static_cast<size_t>(config_.key_width());
    const size_t chunk = static_cast<size_t>(config_.chunk_tokens) * d;
    if (keys.size() != rows.size() * width || states.size() != rows.size() * chunk) {
      ADD_FAILURE() << prefix << ": tensors of different lengths";
      return {};
    }
    std::vector<EncodedChunk> chunks(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      chunks[i].rows = rows[i];
      chunks[i].landmark_key = Bf16s(std::span(keys).subspan(i * width, width));
      const size_t size = static_cast<size_t>(rows[i]) * d;
      chunks[i].states = Bf16s(std::span(states).subspan(i * chunk, size));
    }
    return chunks;
  }

  void ReadProjections(const std::string& folder) {
    const auto weights = SafetensorsFile::Open(folder + "/model.safetensors");
    ASSERT_TRUE(weights.ok()) << weights.status();
    k_proj_ = *weights->ReadFloats("memory.k_proj.weight");
    v_proj_ = *weights->ReadFloats("memory.v_proj.weight");
    if (config_.memory_key_recurrence) {
      gate_proj_ = *weights->ReadFloats("memory.gate_proj.weight");
    }
  }

  // Computes the memory of a chunk in double, as the oracle does: the same bits once they are
  // rounded.
  Memory MemoryOf(const EncodedChunk& chunk) const {
    const auto d = static_cast<size_t>(config_.d);
    const auto width = static_cast<size_t>(config_.memory_width());
    const auto rows = static_cast<size_t>(chunk.rows);
    Memory memory{.keys = std::vector<Bf16>(rows * width),
                  .values = std::vector<Bf16>(rows * width),
                  .rows = chunk.rows};
    std::vector<double> states(rows * d);
    for (size_t i = 0; i < states.size(); ++i) states[i] = chunk.states[i].ToFloat();
    for (size_t channel = 0; channel < width; ++channel) {
      double key = 0;
      for (size_t row = 0; row < rows; ++row) {
        const auto product = [&](const std::vector<float>& weights) {
          return InnerProduct({&weights[channel * d], d}, {&states[row * d], d});
        };
        const double gate = gate_proj_.empty() ? 0 : 1 / (1 + std::exp(-product(gate_proj_)));
        key = gate * key + (1 - gate) * product(k_proj_);
        memory.keys[row * width + channel] = Bf16::FromFloat(static_cast<float>(key));
        memory.values[row * width + channel] =
            Bf16::FromFloat(static_cast<float>(product(v_proj_)));
      }
    }
    return memory;
  }

 private:
  static std::vector<Bf16> Bf16s(std::span<const float> values) {
    std::vector<Bf16> converted;
    for (const float value : values) converted.push_back(Bf16::FromFloat(value));
    return converted;
  }

  const ModelConfig config_;
  const SafetensorsFile file_;
  std::vector<float> k_proj_, v_proj_, gate_proj_;  // of memory; the last may be empty
};

}  // namespace recollect::model
