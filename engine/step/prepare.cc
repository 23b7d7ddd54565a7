#include "engine/step/prepare.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/step/limits.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

absl::Status CheckLayerNumbers(const model::ModelConfig& config, const char* name,
                               const model::LayerNumbers& numbers) {
  if (static_cast<int>(numbers.size()) != config.layers()) {
    return absl::InvalidArgumentError(absl::StrCat("layer_", name, "s: ", numbers.size(),
                                                   " entries, expected one for each of ",
                                                   config.layers(), " layers"));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t count = numbers[i].size();
    if (count == 1 || count == static_cast<size_t>(config.heads)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("layer_", name, "s: ", count, " numbers for layer ", i,
                     ", expected 1 or one for each of ", config.heads, " heads"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> TokensOf(const model::Model& model, const Prompt& prompt,
                                              bool continues) {
  if (prompt.text.empty()) {
    RETURN_IF_ERROR(CheckTokenIds(model.config(), prompt.tokens));
    return prompt.tokens;
  }
  if (model.tokenizer() == nullptr) {
    return absl::FailedPreconditionError("text, but the model has no tokenizer");
  }
  if (!continues) return model.tokenizer()->Encode(prompt.text);
  if (const int64_t bad = model::FindInvalidUtf8(prompt.text, /*allow_partial_end=*/false);
      bad >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("not valid UTF-8 at byte ", bad));
  }
  // Anywhere but at 0 there is no space to put.
  ASSIGN_OR_RETURN(model::Tokenizer::Encoded encoded,
                   model.tokenizer()->EncodePrefix(prompt.text, /*final=*/true, /*base_offset=*/1));
  return std::move(encoded.ids);
}

constexpr const char* kMountAsNames[] = {"default", "memory", "text", "both"};  // by MountAs

absl::Status CheckMountAs(const model::ModelConfig& config, MountAs mount_as) {
  const MountAs built =
      config.documents() == DocumentKind::kText ? MountAs::kText : MountAs::kMemory;
  if (mount_as == MountAs::kDefault || mount_as == built) return absl::OkStatus();
  if (config.has_adapter()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("mount_as: \"", kMountAsNames[static_cast<size_t>(mount_as)],
                   "\", but documents of a model of family ", config.architecture,
                   " are mounted as \"", kMountAsNames[static_cast<size_t>(built)], "\""));
}

}  // namespace

absl::Status CheckTokenIds(const model::ModelConfig& config, std::span<const int32_t> tokens,
                           int64_t before) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t id = tokens[i];
    const bool known = id >= 0 && id < config.vocab_size;
    // All that a generation may emit is taken, the end of text too: its output can be input again.
    if (known && id != config.lmk_id && id != config.unk_id) continue;
    return absl::InvalidArgumentError(absl::StrCat("token ", before + static_cast<int64_t>(i),
                                                   ": id ", id, " is ",
                                                   known ? "reserved" : "unknown"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> PromptTokens(const model::Model& model, const Prompt& prompt,
                                                  absl::string_view field, bool continues) {
  absl::StatusOr<std::vector<int32_t>> tokens = TokensOf(model, prompt, continues);
  if (!tokens.ok()) return Annotate(tokens.status(), field);
  return tokens;
}

absl::StatusOr<model::LocalPatterns> SessionPatterns(const model::Model& model,
                                                     const SessionOptions& options) {
  model::LocalPatterns patterns = model.config().local;
  struct Number {
    const char* name;
    int64_t model::LocalPattern::*field;
    std::optional<int64_t> everywhere;
    const model::LayerNumbers& by_layer;
  };
  const Number numbers[] = {
      {"dilation", &model::LocalPattern::dilation, options.dilation, options.layer_dilations},
      {"window", &model::LocalPattern::window, options.window, options.layer_windows},
      {"initial", &model::LocalPattern::initial, options.initial, options.layer_initials}};
  for (const Number& number : numbers) {
    if (number.everywhere.has_value()) patterns = patterns.With(number.field, *number.everywhere);
    if (number.by_layer.empty()) continue;
    if (number.everywhere.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(number.name, " and layer_", number.name,
                                                     "s: both set, expected one of them"));
    }
    RETURN_IF_ERROR(CheckLayerNumbers(model.config(), number.name, number.by_layer));
    patterns = patterns.With(number.field, number.by_layer);
  }
  if (options.context.has_value()) patterns = patterns.WithContext(*options.context);
  if (options.top_k_blocks != 0) {
    patterns = patterns.WithBlocks(model.config().top_k.With(options.top_k_blocks));
  }
  RETURN_IF_ERROR(model::ValidatePatterns(model.config(), patterns));
  return patterns;
}

absl::StatusOr<model::LocalPatterns> IngestPatterns(const model::Model& model,
                                                    const SessionOptions& options) {
  if (!options.mounts.empty() || options.random_chunks) {
    return absl::InvalidArgumentError("mounts, random_chunks: set, but an ingest has neither");
  }
  if (model.config().documents() != DocumentKind::kPrefix && !(options == SessionOptions())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model of family ", model.config().architecture,
                     " ingests under its own pattern, expected none in the request"));
  }
  return SessionPatterns(model, options);
}

std::optional<int32_t> TokenBefore(const model::Model& model, const Session& session,
                                   bool is_text) {
  if (session.carry.has_value()) return session.carry;
  return is_text && session.positions() == 0 ? model.begin_token() : std::nullopt;
}

absl::Status RequireLandmarks(const model::Model& model) {
  if (model.config().landmarks()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "a model of family ", model.config().architecture,
      model.config().has_adapter() ? " with a memory adapter has keys that no vector holds"
                                   : " has no landmarks: its layers retrieve nothing"));
}

bool MountsText(const model::ModelConfig& config, MountAs mount_as) {
  if (config.documents() == DocumentKind::kText) return true;
  return config.has_adapter() && (mount_as == MountAs::kText || mount_as == MountAs::kBoth);
}

bool MountsMemory(const model::ModelConfig& config, MountAs mount_as) {
  return config.documents() != DocumentKind::kText && mount_as != MountAs::kText;
}

absl::Status ValidateSession(const model::Model& model, const SessionOptions& options) {
  RETURN_IF_ERROR(CheckMountAs(model.config(), options.mount_as));
  if (model.config().documents() == DocumentKind::kPrefix && options.mounts.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("mounts: \"", options.mounts[1], "\" cannot follow \"", options.mounts[0],
                     "\", which the session begins with: a model of family ",
                     model.config().architecture, " mounts one prefix"));
  }
  if (options.random_chunks && !model.config().has_adapter()) {
    RETURN_IF_ERROR(Annotate(RequireLandmarks(model), "random_chunks"));
  }
  return absl::OkStatus();
}

absl::Status ValidateScore(const ScoreRequest& request, int64_t tokens) {
  if (tokens > kMaxScoreTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: ", tokens, " tokens, at most ", kMaxScoreTokens, " can be scored"));
  }
  if (tokens * request.top_logprobs > kMaxTopLogprobsInAll) {
    return absl::InvalidArgumentError(absl::StrCat("top_logprobs: ", request.top_logprobs,
                                                   " for each of ", tokens, " tokens, at most ",
                                                   kMaxTopLogprobsInAll, " in all"));
  }
  if (request.session.has_value() && tokens == 0) {
    return absl::InvalidArgumentError("prompt: no tokens, an open session needs at least one");
  }
  const int64_t run = request.session.has_value() ? tokens - 1 : tokens;
  for (const int64_t after : request.flush_after) {
    if (after <= run) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("flush_after: ", after, ", expected ascending counts from 1 to ", run));
  }
  return absl::OkStatus();
}

}  // namespace recollect::engine
