#include "engine/step/prepare.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/backend/sampler.h"
#include "engine/ingest/ingest_input.h"
#include "model/text/printable.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

constexpr int64_t kMaxHits = 1024;
constexpr int64_t kMaxScoreTokens = 1 << 16;  // the answer has three numbers for each
constexpr size_t kMaxStops = 16;
constexpr size_t kLongestStop = 256;
constexpr size_t kLongestId = 256;

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

}  // namespace

absl::Status ValidateDocumentId(const std::string& id) {
  if (id.empty() || id.size() > kLongestId) {
    return absl::InvalidArgumentError(
        absl::StrCat("document id: ", id.size(), " bytes, expected 1 to ", kLongestId));
  }
  if (!model::IsPrintable(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "document id: \"", model::EscapeInvisible(id),
        "\", expected UTF-8 without control, bidirectional and zero-width characters"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> PromptTokens(const model::Model& model, const Prompt& prompt,
                                                  bool continues) {
  if (!prompt.text.empty() && !prompt.tokens.empty()) {
    return absl::InvalidArgumentError("prompt: text and token ids, expected one of them");
  }
  if (prompt.text.empty()) {
    InputReader reader(model, 0);
    ASSIGN_OR_RETURN(DecidedTokens checked, reader.ReadTokens(prompt.tokens));
    return std::move(checked.ids);
  }
  if (model.tokenizer() == nullptr) {
    return absl::FailedPreconditionError("prompt: text, but the model has no tokenizer");
  }
  if (!continues) return model.tokenizer()->Encode(prompt.text);
  if (const int64_t bad = model::FindInvalidUtf8(prompt.text, /*allow_partial_end=*/false);
      bad >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("text is not valid UTF-8 at byte ", bad));
  }
  // Anywhere but at 0 there is no space to put.
  ASSIGN_OR_RETURN(model::Tokenizer::Encoded encoded,
                   model.tokenizer()->EncodePrefix(prompt.text, /*final=*/true, /*base_offset=*/1));
  return std::move(encoded.ids);
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
  if (model.config().landmarks() && !(options == SessionOptions())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model of family ", model.config().architecture,
                     " ingests under its own pattern, expected none in the request"));
  }
  return SessionPatterns(model, options);
}

absl::Status RequireLandmarks(const model::Model& model, const std::string& what) {
  if (model.config().landmarks()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, ": a model of family ",
                                                    model.config().architecture,
                                                    " has no landmarks: it retrieves nothing"));
}

absl::Status ValidateSession(const model::Model& model, const SessionOptions& options) {
  if (!model.config().landmarks() && options.mounts.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("mounts: \"", options.mounts[1], "\" cannot follow \"", options.mounts[0],
                     "\", which the session begins with: a model of family ",
                     model.config().architecture, " mounts one prefix"));
  }
  if (options.random_chunks) RETURN_IF_ERROR(RequireLandmarks(model, "random_chunks"));
  return absl::OkStatus();
}

absl::Status ValidateGenerate(const GenerateRequest& request) {
  RETURN_IF_ERROR(ValidateSampling(request.sampling));
  if (request.max_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens: ", request.max_tokens, ", expected >= 0"));
  }
  if (request.stop.size() > kMaxStops) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop: ", request.stop.size(), " strings, at most ", kMaxStops));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kLongestStop ||
        model::FindInvalidUtf8(stop, /*allow_partial_end=*/false) >= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stop: a string of ", stop.size(), " bytes, expected UTF-8 of 1 to ", kLongestStop));
    }
  }
  if (request.session.has_value() && !(request.session_options == SessionOptions())) {
    return absl::InvalidArgumentError(
        "session_options: set, but the options of an open session are fixed");
  }
  return absl::OkStatus();
}

absl::Status ValidateScore(const ScoreRequest& request, int64_t tokens) {
  if (tokens > kMaxScoreTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: ", tokens, " tokens, at most ", kMaxScoreTokens, " can be scored"));
  }
  int64_t before = 0;
  for (const int64_t after : request.flush_after) {
    if (after <= before || after > tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("flush_after: ", after, ", expected ascending counts from 1 to ", tokens));
    }
    before = after;
  }
  return absl::OkStatus();
}

absl::Status ValidateRetrieve(const RetrieveRequest& request, int64_t tokens) {
  if (request.k < 0 || request.k > kMaxHits) {
    return absl::InvalidArgumentError(absl::StrCat("k: ", request.k, ", expected 0 to ", kMaxHits));
  }
  if (tokens == 0) return absl::InvalidArgumentError("query: no tokens");
  return absl::OkStatus();
}

}  // namespace recollect::engine
