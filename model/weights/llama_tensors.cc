#include "model/weights/llama_tensors.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/config/problems.h"
#include "model/weights/weights.h"

namespace recollect::model {
namespace {

struct Part {
  std::string name;  // in the file
  int64_t rows = 0;
};

// One tensor of ours: its parts, each of `rows` rows of `width`, or without a width vectors.
struct Stack {
  std::string name;
  int64_t width = 0;
  std::vector<Part> parts;
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
  const auto add = [&](const std::string& name, int64_t width, std::vector<Part> parts) {
    for (Part& part : parts) part.name += ".weight";
    stacks.push_back({name + ".weight", width, std::move(parts)});
  };
  add("embed", d, {{names.embed, config.vocab_size}});
  for (int layer = 0; layer < config.layers(); ++layer) {
    const std::string ours = absl::StrCat("layers.", layer, ".");
    const std::string theirs = absl::StrCat(names.layer, layer, ".");
    add(ours + "mixer_norm", 0, {{theirs + names.mixer_norm, d}});
    add(ours + "mixer.in_proj", d,
        {{theirs + names.q, inner}, {theirs + names.k, kv}, {theirs + names.v, kv}});
    add(ours + "mixer.out_proj", inner, {{theirs + names.out, d}});
    add(ours + "ffn_norm", 0, {{theirs + names.ffn_norm, d}});
    add(ours + "ffn.in_proj", d, {{theirs + names.gate, ffn}, {theirs + names.up, ffn}});
    add(ours + "ffn.out_proj", ffn, {{theirs + names.down, d}});
  }
  add("final_norm", 0, {{names.final_norm, d}});
  if (!config.tied_head) add("head", d, {{names.head, config.vocab_size}});
  return stacks;
}

// Tensors that say again what the config or another tensor says: the angles' frequencies, and the
// head of a file that ties it and has it nevertheless.
bool IsRedundant(const std::string& name, const ModelConfig& config, const Names& names) {
  return absl::EndsWith(name, ".rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
         (config.tied_head && name == absl::StrCat(names.head, ".weight"));
}

void CheckPart(const TensorFile& file, const Part& part, int64_t width,
               std::vector<std::string>& problems) {
  const std::vector<int64_t> shape =
      width > 0 ? std::vector{part.rows, width} : std::vector{part.rows};
  const auto found = file.tensors().find(part.name);
  if (found == file.tensors().end()) {
    problems.push_back(absl::StrCat(part.name, " is missing, expected ", ShapeText(shape)));
  } else if (found->second.shape != shape) {
    problems.push_back(absl::StrCat(part.name, " is ", ShapeText(found->second.shape),
                                    ", the config expects ", ShapeText(shape)));
  } else if (found->second.integers()) {
    problems.push_back(
        absl::StrCat(part.name, " is ", found->second.dtype, ", expected floating-point numbers"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LlamaTensors>> LlamaTensors::Create(std::unique_ptr<TensorFile> file,
                                                                   const ModelConfig& config,
                                                                   LlamaNames names) {
  std::unique_ptr<LlamaTensors> result(new LlamaTensors(std::move(file)));
  const Names& theirs = names == LlamaNames::kHub ? kHubNames : kGgufNames;
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const Stack& stack : StacksOf(config, theirs)) {
    int64_t rows = 0, bytes = 0;
    std::string dtype;
    for (const Part& part : stack.parts) {
      CheckPart(*result->file_, part, stack.width, problems);
      known.insert(part.name);
      rows += part.rows;
      if (const auto found = result->file_->tensors().find(part.name);
          found != result->file_->tensors().end()) {
        dtype = found->second.dtype;
        bytes += found->second.bytes;
      }
      result->parts_[stack.name].push_back(part.name);
    }
    result->tensors_[stack.name] = {
        .dtype = dtype,
        .shape = stack.width > 0 ? std::vector{rows, stack.width} : std::vector{rows},
        .bytes = bytes};
  }
  for (const auto& [name, info] : result->file_->tensors()) {
    if (known.contains(name) || IsRedundant(name, config, theirs)) continue;
    problems.push_back(
        absl::StrCat(name, " ", ShapeText(info.shape), " is not a tensor of this config"));
  }
  if (!problems.empty()) return ProblemsError(problems);
  return result;
}

absl::StatusOr<std::vector<float>> LlamaTensors::ReadFloats(const std::string& name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) return absl::NotFoundError(absl::StrCat("no tensor ", name));
  if (found->second.size() == 1) return file_->ReadFloats(found->second.front());
  std::vector<float> all;
  for (const std::string& part : found->second) {
    ASSIGN_OR_RETURN(const std::vector<float> values, file_->ReadFloats(part));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<TensorInfo> LlamaTensors::Parts(const std::string& name) const {
  std::vector<TensorInfo> parts;
  const auto found = parts_.find(name);
  if (found == parts_.end()) return parts;
  for (const std::string& part : found->second) parts.push_back(file_->tensors().at(part));
  return parts;
}

}  // namespace recollect::model
