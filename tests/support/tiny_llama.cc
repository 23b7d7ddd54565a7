#include "tests/support/tiny_llama.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/numeric/bf16.h"
#include "model/config/llama_config.h"
#include "model/weights/safetensors.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_pieces.h"

namespace recollect {
namespace {

using nlohmann::json;

constexpr char kChatMl[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}";

constexpr char kZephyr[] =
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
    "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ "
    "'<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' "
    "%}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last "
    "and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}";

std::map<std::string, std::vector<int64_t>> HubShapes(const json& config) {
  const int64_t d = config["hidden_size"], ffn = config["intermediate_size"];
  const int64_t heads = config["num_attention_heads"], kv = config["num_key_value_heads"];
  const int64_t width = config.value("head_dim", d / heads), vocab = config["vocab_size"];
  std::map<std::string, std::vector<int64_t>> shapes = {{"model.embed_tokens.weight", {vocab, d}},
                                                        {"model.norm.weight", {d}}};
  if (!config["tie_word_embeddings"].get<bool>()) shapes["lm_head.weight"] = {vocab, d};
  for (int layer = 0; layer < config["num_hidden_layers"].get<int>(); ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    shapes[prefix + "input_layernorm.weight"] = {d};
    shapes[prefix + "self_attn.q_proj.weight"] = {heads * width, d};
    shapes[prefix + "self_attn.k_proj.weight"] = {kv * width, d};
    shapes[prefix + "self_attn.v_proj.weight"] = {kv * width, d};
    shapes[prefix + "self_attn.o_proj.weight"] = {d, heads * width};
    shapes[prefix + "post_attention_layernorm.weight"] = {d};
    shapes[prefix + "mlp.gate_proj.weight"] = {ffn, d};
    shapes[prefix + "mlp.up_proj.weight"] = {ffn, d};
    shapes[prefix + "mlp.down_proj.weight"] = {d, ffn};
  }
  return shapes;
}

// Uniform, with the variance that keeps a product's rows near unit size.
FloatTensor RandomTensor(const std::vector<int64_t>& shape, std::mt19937_64& bits) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  FloatTensor tensor{shape, std::vector<float>(static_cast<size_t>(count))};
  const bool gain = shape.size() == 1;
  const double spread = gain ? 0.2 : std::sqrt(3.0 / static_cast<double>(shape[1]));
  for (float& value : tensor.values) {
    const double uniform = static_cast<double>(bits() >> 11) * 0x1p-52 - 1;
    value = static_cast<float>((gain ? 1 : 0) + spread * uniform);
  }
  return tensor;
}

// A power of two as fp16.
uint16_t HalfPower(int exponent) {
  RECOLLECT_CHECK(exponent >= -14 && exponent <= 15);
  return static_cast<uint16_t>((exponent + 15) << 10);
}

// The least exponent with 2^exponent * steps >= range.
int ExponentFor(float range, int steps) {
  return std::max(-14, static_cast<int>(std::ceil(std::log2(std::max(range, 1e-4f) / steps))));
}

void AppendQ8(const float* x, std::string& bytes) {
  float most = 0;
  for (int i = 0; i < 32; ++i) most = std::max(most, std::abs(x[i]));
  const int exponent = ExponentFor(most, 127);
  AppendGguf(bytes, HalfPower(exponent));
  for (int i = 0; i < 32; ++i) {
    AppendGguf(bytes, static_cast<int8_t>(std::lround(std::ldexp(x[i], -exponent))));
  }
}

// With a minimum that is the nearest power of two below, which any block has room for.
void AppendQ4(const float* x, std::string& bytes) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float depth = std::max(-*least, 1e-4f);
  const int below = static_cast<int>(std::ceil(std::log2(depth)));
  const float minimum = -std::ldexp(1.0f, below);
  const int exponent = ExponentFor(*most - minimum, 15);
  AppendGguf(bytes, HalfPower(exponent));
  AppendGguf(bytes, static_cast<uint16_t>(HalfPower(below) | 0x8000));
  const auto quant = [&](int i) {
    return static_cast<uint8_t>(std::lround(std::ldexp(x[i] - minimum, -exponent)));
  };
  for (int i = 0; i < 16; ++i) {
    bytes.push_back(static_cast<char>(quant(i) | quant(i + 16) << 4));
  }
}

std::string Encoded(const std::vector<float>& values, GgufTensorType type) {
  std::string bytes;
  switch (type) {
    case GgufTensorType::kBF16:
      for (const float value : values) AppendGguf(bytes, Bf16::FromFloat(value).bits);
      break;
    case GgufTensorType::kQ8_0:
      for (size_t i = 0; i < values.size(); i += 32) AppendQ8(values.data() + i, bytes);
      break;
    case GgufTensorType::kQ4_1:
      for (size_t i = 0; i < values.size(); i += 32) AppendQ4(values.data() + i, bytes);
      break;
    default:
      RECOLLECT_CHECK(type == GgufTensorType::kF32);
      for (const float value : values) AppendGguf(bytes, value);
  }
  return bytes;
}

std::string GgufName(const std::string& name) {
  return absl::StrReplaceAll(name, {{"model.embed_tokens", "token_embd"},
                                    {"model.norm", "output_norm"},
                                    {"lm_head", "output"},
                                    {"model.layers", "blk"},
                                    {"input_layernorm", "attn_norm"},
                                    {"self_attn.o_proj", "attn_output"},
                                    {"self_attn.q_proj", "attn_q"},
                                    {"self_attn.k_proj", "attn_k"},
                                    {"self_attn.v_proj", "attn_v"},
                                    {"post_attention_layernorm", "ffn_norm"},
                                    {"mlp.gate_proj", "ffn_gate"},
                                    {"mlp.up_proj", "ffn_up"},
                                    {"mlp.down_proj", "ffn_down"}});
}

// Rows j and j + width/2 of each head become rows 2j and 2j + 1.
std::vector<float> Interleaved(const std::vector<float>& rows, int64_t columns, int64_t width) {
  std::vector<float> result(rows.size());
  const auto count = static_cast<int64_t>(rows.size()) / columns;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t j = row % width, half = width / 2;
    const int64_t to = row - j + 2 * (j % half) + j / half;
    std::copy_n(rows.begin() + row * columns, columns, result.begin() + to * columns);
  }
  return result;
}

void SetTokenizer(const std::string& directory, int64_t vocab_size, GgufWriter& writer) {
  if (std::filesystem::exists(directory + "/tokenizer.model")) {
    SetPieces(TinyPieces().pieces, writer);
    writer.Set("tokenizer.ggml.bos_token_id", uint32_t{1})
        .Set("tokenizer.ggml.eos_token_id", uint32_t{2})
        .Set("tokenizer.chat_template", kZephyr);
    return;
  }
  std::vector<std::string> tokens(static_cast<size_t>(vocab_size)), merges;
  std::vector<int32_t> types(tokens.size(), 1);
  std::set<int64_t> control = {0, 1, 2};
  if (std::filesystem::exists(directory + "/tokenizer.json")) {
    const json root = json::parse(ReadFile(directory + "/tokenizer.json"));
    for (const auto& [text, id] : root["model"]["vocab"].items()) {
      tokens[id.get<size_t>()] = text;
    }
    for (const json& merge : root["model"]["merges"]) {
      merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : absl::StrCat(merge[0].get<std::string>(), " ",
                                                        merge[1].get<std::string>()));
    }
  } else {
    for (size_t id = 0; id < tokens.size(); ++id) {
      tokens[id] = control.contains(static_cast<int64_t>(id))
                       ? absl::StrCat("<|", id, "|>")
                       : std::string(1, static_cast<char>('A' + id));
    }
  }
  for (const int64_t id : control) types[static_cast<size_t>(id)] = 3;
  writer.Set("tokenizer.ggml.model", "gpt2")
      .Set("tokenizer.ggml.pre", "smollm")
      .SetArray("tokenizer.ggml.tokens", tokens)
      .SetArray("tokenizer.ggml.token_type", types)
      .SetArray("tokenizer.ggml.merges", merges)
      .Set("tokenizer.ggml.bos_token_id", uint32_t{1})
      .Set("tokenizer.ggml.eos_token_id", uint32_t{2})
      .Set("tokenizer.ggml.add_bos_token", false)
      .Set("tokenizer.chat_template", kChatMl);
}

}  // namespace

json TinyLlamaConfig() {
  return {{"model_type", "llama"},    {"vocab_size", 4096},
          {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},
          {"hidden_act", "silu"},     {"tie_word_embeddings", false},
          {"eos_token_id", 2}};
}

void WriteTinyLlama(const std::string& directory, const json& config, uint64_t seed) {
  std::filesystem::create_directories(directory);
  std::mt19937_64 bits(seed);
  std::map<std::string, FloatTensor> tensors;
  for (const auto& [name, shape] : HubShapes(config)) tensors[name] = RandomTensor(shape, bits);
  WriteSafetensors(directory + "/model.safetensors", tensors);
  WriteFile(directory + "/config.json", config.dump(2));
  WriteFile(directory + "/tokenizer.json",
            ReadFile(SourceDir() + "/tests/support/tiny_bpe_tokenizer.json"));
  const json settings = {{"bos_token", "<|im_start|>"},
                         {"eos_token", "<|im_end|>"},
                         {"add_bos_token", false},
                         {"chat_template", kChatMl}};
  WriteFile(directory + "/tokenizer_config.json", settings.dump(2));
}

void WriteTinyLlamaOfPieces(const std::string& directory, json config) {
  config["vocab_size"] = 400;
  WriteTinyLlama(directory, config);
  std::filesystem::remove(directory + "/tokenizer.json");
  WriteFile(directory + "/tokenizer.model",
            ReadFile(SourceDir() + "/tests/support/llama_tokenizer.model"));
  const json settings = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", kZephyr}};
  WriteFile(directory + "/tokenizer_config.json", settings.dump(2));
}

GgufWriter GgufOf(const std::string& directory, GgufTensorType type) {
  const json root = json::parse(ReadFile(directory + "/config.json"));
  const auto config = model::LlamaConfigFromHub(root);
  RECOLLECT_CHECK(config.ok());
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  GgufWriter writer;
  writer.Set("general.architecture", "llama")
      .Set("llama.block_count", number(config->n_low))
      .Set("llama.context_length", number(config->context))
      .Set("llama.embedding_length", number(config->d))
      .Set("llama.feed_forward_length", number(config->ffn))
      .Set("llama.attention.head_count", number(config->heads))
      .Set("llama.attention.head_count_kv", number(config->kv_heads))
      .Set("llama.attention.key_length", number(config->head_dim))
      .Set("llama.attention.layer_norm_rms_epsilon", config->norm_eps)
      .Set("llama.rope.freq_base", static_cast<float>(config->rope_base))
      .Set("llama.rope.dimension_count", number(config->head_dim))
      .Set("llama.vocab_size", number(config->vocab_size));
  SetTokenizer(directory, config->vocab_size, writer);
  const auto file = model::SafetensorsFile::Open(directory + "/model.safetensors");
  RECOLLECT_CHECK(file.ok());
  for (const auto& [name, info] : file->tensors()) {
    std::vector<float> values = *file->ReadFloats(name);
    if (absl::EndsWith(name, "q_proj.weight") || absl::EndsWith(name, "k_proj.weight")) {
      values = Interleaved(values, info.shape[1], config->head_dim);
    }
    const GgufTensorType as = info.shape.size() == 2 ? type : GgufTensorType::kF32;
    writer.Add(GgufName(name), info.shape, as, Encoded(values, as));
  }
  if (!config->rope_divisors.empty()) {
    const std::vector<float> divisors(config->rope_divisors.begin(), config->rope_divisors.end());
    writer.AddFloats("rope_freqs.weight", {std::ssize(divisors)}, divisors);
  }
  return writer;
}

void WriteGguf(const std::string& directory, const std::string& path, GgufTensorType type) {
  WriteFile(path, GgufOf(directory, type).Bytes());
}

}  // namespace recollect
