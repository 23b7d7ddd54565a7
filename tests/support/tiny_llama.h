// A small random model of the family llama as published checkpoints come: in the Hugging Face
// layout, or as a GGUF file with tokenizer and chat template.
//
//   recollect::WriteTinyLlama(directory);                         // config.json, …, tokenizer.json
//   recollect::WriteGguf(directory, path, GgufTensorType::kQ8_0);  // the same in one file
//   auto model = recollect::model::CpuModel::Load(path);
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/support/gguf_writer.h"

namespace recollect {

// config.json: two layers, d 64, four heads over two, an untied head, a context of 128, the
// vocabulary of tests/support/tiny_bpe_tokenizer.json (4096), which ends at 2.
nlohmann::json TinyLlamaConfig();

// Writes config.json, model.safetensors (random fp32, the same for equal seeds), tokenizer.json and
// tokenizer_config.json (ChatML) into `directory`, which is created. Aborts the test on an I/O
// error, as the next.
void WriteTinyLlama(const std::string& directory, const nlohmann::json& config = TinyLlamaConfig(),
                    uint64_t seed = 1);

// The same with the 400 pieces of tests/support/llama_tokenizer.model in place of tokenizer.json,
// and the conversation of Zephyr, as TinyLlama has it: `<s>` is 1, `</s>` is 2.
void WriteTinyLlamaOfPieces(const std::string& directory,
                            nlohmann::json config = TinyLlamaConfig());

// Everything of a directory in the Hugging Face layout as a GGUF file, which has matrices as
// `type`: kF32, kBF16, kQ8_0 or kQ4_1 (rows of a multiple of 32 then). The rows of Q and K are in
// the order in which their pairs for RoPE are neighbours; LLaMA 3's scaling becomes divisors.
// The vocabulary is that of tokenizer.model or of tokenizer.json; without either it is of single
// characters.
GgufWriter GgufOf(const std::string& directory, GgufTensorType type = GgufTensorType::kF32);
void WriteGguf(const std::string& directory, const std::string& path,
               GgufTensorType type = GgufTensorType::kF32);

}  // namespace recollect
