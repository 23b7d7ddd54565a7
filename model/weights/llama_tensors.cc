#include "model/weights/llama_tensors.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/weights/weights.h"

namespace recollect::model {
namespace {

// One tensor of ours, of tensors of the file stacked by rows.
struct Stack {
  std::string name;
  std::vector<TensorSpec> parts;
};

// What stands between the prefix of a layer and ".weight".
struct Names {
  const char *embed, *final_norm, *head, *layer;
  const char *mixer_norm, *q, *k, *v, *out, *ffn_norm, *gate, *up, *down;
};
constexpr Names kHubNames = {.embed = "model.embed_tokens",
                             .final_norm = "model.norm",
                             .head = "lm_head",
                             .layer = "model.layers.",
                             .mixer_norm = "input_layernorm",
                             .q = "self_attn.q_proj",
                             .k = "self_attn.k_proj",
                             .v = "self_attn.v_proj",
                             .out = "self_attn.o_proj",
                             .ffn_norm = "post_attention_layernorm",
                             .gate = "mlp.gate_proj",
                             .up = "mlp.up_proj",
                             .down = "mlp.down_proj"};
constexpr Names kGgufNames = {.embed = "token_embd",
                              .final_norm = "output_norm",
                              .head = "output",
                              .layer = "blk.",
                              .mixer_norm = "attn_norm",
                              .q = "attn_q",
                              .k = "attn_k",
                              .v = "attn_v",
                              .out = "attn_output",
                              .ffn_norm = "ffn_norm",
                              .gate = "ffn_gate",
                              .up = "ffn_up",
                              .down = "ffn_down"};

std::vector<Stack> StacksOf(const ModelConfig& config, const Names& names) {
  const int64_t d = config.d, inner = config.inner(), kv = config.kv_width(), ffn = config.ffn;
  std::vector<Stack> stacks;
  const auto add = [&](const std::string& name, std::vector<TensorSpec> parts) {
    for (TensorSpec& part : parts) part.name += ".weight";
    stacks.push_back({name + ".weight", std::move(parts)});
  };
  add("embed", {{names.embed, {config.vocab_size, d}}});
  for (int layer = 0; layer < config.layers(); ++layer) {
    const std::string ours = absl::StrCat("layers.", layer, ".");
    const std::string theirs = absl::StrCat(names.layer, layer, ".");
    add(ours + "mixer_norm", {{theirs + names.mixer_norm, {d}}});
    add(ours + "mixer.in_proj",
        {{theirs + names.q, {inner, d}}, {theirs + names.k, {kv, d}}, {theirs + names.v, {kv, d}}});
    add(ours + "mixer.out_proj", {{theirs + names.out, {d, inner}}});
    add(ours + "ffn_norm", {{theirs + names.ffn_norm, {d}}});
    add(ours + "ffn.in_proj", {{theirs + names.gate, {ffn, d}}, {theirs + names.up, {ffn, d}}});
    add(ours + "ffn.out_proj", {{theirs + names.down, {d, ffn}}});
  }
  add("final_norm", {{names.final_norm, {d}}});
  if (!config.tied_head) add("head", {{names.head, {config.vocab_size, d}}});
  return stacks;
}

// Tensors that say again what the config or another tensor says: the angles' frequencies, and the
// head of a file that ties it and has it nevertheless.
bool IsRedundant(const std::string& name, const ModelConfig& config, const Names& names) {
  return absl::EndsWith(name, ".rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
         (config.tied_head && name == absl::StrCat(names.head, ".weight"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LlamaTensors>> LlamaTensors::Create(std::unique_ptr<TensorFile> file,
                                                                   const ModelConfig& config,
                                                                   LlamaNames names) {
  std::unique_ptr<LlamaTensors> result(new LlamaTensors(std::move(file)));
  const Names& theirs = names == LlamaNames::kHub ? kHubNames : kGgufNames;
  const std::vector<Stack> stacks = StacksOf(config, theirs);
  std::vector<TensorSpec> expected;
  for (const Stack& stack : stacks) {
    expected.insert(expected.end(), stack.parts.begin(), stack.parts.end());
  }
  RETURN_IF_ERROR(CheckTensors(*result->file_, expected, [&](const std::string& name) {
    return IsRedundant(name, config, theirs);
  }));
  for (const Stack& stack : stacks) {
    TensorInfo whole = {.dtype = "", .shape = stack.parts.front().shape};
    whole.shape[0] = 0;
    for (const TensorSpec& part : stack.parts) {
      const TensorInfo& info = result->file_->tensors().at(part.name);
      whole.dtype = info.dtype;
      whole.shape[0] += info.shape[0];
      whole.bytes += info.bytes;
      result->parts_[stack.name].push_back(part.name);
    }
    result->tensors_[stack.name] = std::move(whole);
  }
  return result;
}

std::vector<TensorInfo> LlamaTensors::Parts(const std::string& name) const {
  std::vector<TensorInfo> parts;
  for (const std::string& part : parts_.at(name)) parts.push_back(file_->tensors().at(part));
  return parts;
}

}  // namespace recollect::model
