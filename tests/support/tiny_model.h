// Small random models on disk, for tests that need a model but not a trained one.
//
//   const std::string directory = ::testing::TempDir() + "/tiny";
//   recollect::WriteTinyModel(directory, recollect::TinyConfig(), /*seed=*/1);
//   auto model = recollect::model::CpuModel::Load(directory);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/config/config.h"

namespace recollect {

// Two lower layers, two groups (the second of two layers), d = 32, two heads, vocabulary of
// tests/support/tiny_tokenizer.model (320). Window 127, dilation 16, span 256, and dilations 8, 16,
// 32 allowed.
model::ModelConfig TinyConfig();

// RAT+: three layers, no landmarks. Window 0, dilation 16, initial 4; requests may ask for
// dilations 1, 4, 64 and none, windows 8 to 512, 0 to 8 initial positions, contexts 256 to 1024 and
// up to 8 blocks of 16 by their bounds.
model::ModelConfig TinyRatPlusConfig();

// RAT in layers 0 and 2, attention over a window of 9 + 1 positions in layer 1: chunks of 5, four
// heads with two shared q and k, two key-value heads in attention.
model::ModelConfig TinyRatSwaConfig();

// RAttention with a window of 11 + 1 positions, q/k norms, scales and learned tokens in layers 0
// and 2, attention without window or positions in layer 1; four heads over two, interleaved RoPE,
// GEGLU.
model::ModelConfig TinyRattentionConfig();

// DRT as published: two lower layers, two groups (the second of two layers), d = d_r = 32, two
// heads, ALiBi over a window of 80 + 1 positions, chunks of 63.
model::ModelConfig TinyDrtPaperConfig();

// The config as the text of config.json.
std::string ConfigJson(const model::ModelConfig& config);

// Writes config.json, model.safetensors (random fp32, the same for equal seeds) and, when
// vocab_size fits it, a copy of the tiny tokenizer into `directory`, which is created. Aborts the
// test on an I/O error. `sublayers` scales what attention and FFN add to the residual stream: at 1
// the next token of a greedy generation is often the last one again, whatever came before.
void WriteTinyModel(const std::string& directory, const model::ModelConfig& config, uint64_t seed,
                    float sublayers = 1);

// The folder whose files tests read: the sources', or, of tests that were carried to another
// machine (tools/gpu-check), the one they came with.
std::string SourceDir();

// An fp32 tensor for WriteSafetensors.
struct FloatTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
void WriteSafetensors(const std::string& path, const std::map<std::string, FloatTensor>& tensors);

// Whole files, for tests that damage them. ReadFile and WriteFile abort on an I/O error.
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& contents);

}  // namespace recollect
