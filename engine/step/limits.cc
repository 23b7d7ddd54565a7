#include "engine/step/limits.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/session/mount_names.h"
#include "model/text/printable.h"
#include "model/text/tokenizer.h"
#include "store/metadata_filter.h"

namespace recollect::engine {
namespace {

constexpr int64_t kMaxIdBytes = 256;
constexpr int64_t kMaxDilation = 4096;
constexpr int64_t kMaxPositions = 1 << 20;  // of a window, or initial ones
constexpr int64_t kMaxContext = int64_t{1} << 32;
constexpr int64_t kMaxTopKBlocks = 1 << 16;
constexpr int64_t kMaxPromptBytes = 2 << 20;
constexpr int64_t kMaxMessages = 4096;
constexpr int64_t kMaxScoreFlushes = 4096;
constexpr int64_t kMaxTopK = 1 << 20;
constexpr double kMaxTemperature = 100;
constexpr double kMaxDryMultiplier = 100;
constexpr int64_t kMaxDryAllowedLength = 64;  // every token compares so many more
constexpr int64_t kMaxStops = 16;
constexpr int64_t kMaxStopBytes = 256;
constexpr int64_t kMaxHits = 1024;

// 0 to `most`.
absl::Status CheckAtMost(absl::string_view field, int64_t value, int64_t most) {
  return CheckRange<int64_t>(field, value, 0, most);
}

absl::Status CheckDilation(const char* field, int64_t dilation) {
  if (dilation == -1 || (dilation >= 1 && dilation <= kMaxDilation)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", dilation, ", limit 1 to ", kMaxDilation, ", or -1 for none"));
}
absl::Status CheckPositions(const char* field, int64_t positions) {
  return CheckAtMost(field, positions, kMaxPositions);
}

// How many numbers there must be is the model's to say.
absl::Status CheckEach(const char* field, const LayerNumbers& layers,
                       absl::Status (*check)(const char*, int64_t)) {
  for (const auto& heads : layers) {
    for (const int64_t number : heads) RETURN_IF_ERROR(check(field, number));
  }
  return absl::OkStatus();
}

// `messages`: a conversation may be the prompt.
absl::Status CheckPrompt(const Prompt& prompt, absl::string_view field, int64_t most_tokens,
                         bool messages = false) {
  if (!prompt.text.empty() + !prompt.tokens.empty() + !prompt.messages.empty() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": only one of text, tokens and messages may be set"));
  }
  if (!prompt.messages.empty() && !messages) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": messages are set, expected text or tokens"));
  }
  int64_t bytes = 0;
  for (const ChatMessage& message : prompt.messages) bytes += std::ssize(message.content);
  RETURN_IF_ERROR(
      CheckAtMost(absl::StrCat(field, ".messages: bytes in all"), bytes, kMaxPromptBytes));
  RETURN_IF_ERROR(CheckAtMost(absl::StrCat(field, ".messages: count"), std::ssize(prompt.messages),
                              kMaxMessages));
  RETURN_IF_ERROR(
      CheckAtMost(absl::StrCat(field, ".text: bytes"), std::ssize(prompt.text), kMaxPromptBytes));
  return CheckAtMost(absl::StrCat(field, ".tokens: count"), std::ssize(prompt.tokens), most_tokens);
}

absl::Status CheckNotEmpty(const Prompt& prompt, absl::string_view field) {
  if (!prompt.text.empty() || !prompt.tokens.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": empty, needs text or tokens"));
}

absl::Status CheckSaveAs(const GenerateRequest& request) {
  if (!request.save_as.has_value()) return absl::OkStatus();
  if (request.session.has_value()) {
    return absl::InvalidArgumentError(
        "save_as: set in an open session, whose text SaveSession makes a document of");
  }
  const absl::Status checked = CheckNewDocumentId(request.save_as->id);
  return checked.ok() ? checked : Annotate(checked, "save_as");
}

absl::Status CheckSampling(const Sampling& sampling) {
  RETURN_IF_ERROR(
      CheckRange<double>("sampling.temperature", sampling.temperature, 0, kMaxTemperature));
  RETURN_IF_ERROR(CheckRange<double>("sampling.top_p", sampling.top_p, 0, 1));
  RETURN_IF_ERROR(CheckAtMost("sampling.top_k", sampling.top_k, kMaxTopK));
  RETURN_IF_ERROR(
      CheckRange<double>("sampling.dry_multiplier", sampling.dry_multiplier, 0, kMaxDryMultiplier));
  RETURN_IF_ERROR(CheckAtMost("sampling.dry_allowed_length", sampling.dry_allowed_length,
                              kMaxDryAllowedLength));
  // On the wire 0 stands for the default of these two.
  if (!(sampling.top_p > 0))
    return absl::InvalidArgumentError("sampling.top_p: 0, must be above 0");
  if (sampling.dry_allowed_length > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("sampling.dry_allowed_length: 0, must be above 0");
}

absl::Status CheckMountFilter(const SessionOptions& options) {
  RETURN_IF_ERROR(store::MetadataFilter::Parse(options.mount_filter, "mount_filter").status());
  const auto& mounts = options.mounts;
  if (std::any_of(mounts.begin(), mounts.end(),
                  [](const std::string& mount) { return absl::EndsWith(mount, "*"); })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "mount_filter: set, but no entry of mounts ends in \"*\": it chooses among what these find");
}

}  // namespace

absl::Status CheckDocumentId(const std::string& id) {
  return CheckRange<int64_t>("id: bytes", std::ssize(id), 1, kMaxIdBytes);
}

absl::Status CheckNewDocumentId(const std::string& id) {
  RETURN_IF_ERROR(CheckDocumentId(id));
  if (const int64_t bad = model::FindInvalidUtf8(id, /*allow_partial_end=*/false); bad >= 0)
    return absl::InvalidArgumentError(absl::StrCat("id: not UTF-8 at byte ", bad));
  if (absl::EndsWith(id, "*")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id: \"", model::EscapeInvisible(id),
        "\", an asterisk at the end is not allowed: in mounts it stands for all that follows"));
  }
  if (model::IsPrintable(id) && !absl::StrContains(id, ',')) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "id: \"", model::EscapeInvisible(id),
      "\", commas and control, bidirectional and zero-width characters are not allowed"));
}

absl::Status CheckSession(const SessionOptions& options) {
  RETURN_IF_ERROR(CheckAtMost("mounts: count", std::ssize(options.mounts), kMaxMounts));
  for (const std::string& id : options.mounts) {
    if (absl::Status status = CheckDocumentId(id); !status.ok()) return Annotate(status, "mounts");
  }
  if (!options.mount_filter.empty()) RETURN_IF_ERROR(CheckMountFilter(options));
  if (options.dilation.has_value()) RETURN_IF_ERROR(CheckDilation("dilation", *options.dilation));
  if (options.window.has_value()) RETURN_IF_ERROR(CheckPositions("window", *options.window));
  if (options.initial.has_value()) RETURN_IF_ERROR(CheckPositions("initial", *options.initial));
  RETURN_IF_ERROR(CheckEach("layer_dilations", options.layer_dilations, CheckDilation));
  RETURN_IF_ERROR(CheckEach("layer_windows", options.layer_windows, CheckPositions));
  RETURN_IF_ERROR(CheckEach("layer_initials", options.layer_initials, CheckPositions));
  if (options.context.has_value()) {
    RETURN_IF_ERROR(CheckRange<int64_t>("context", *options.context, 1, kMaxContext));
  }
  RETURN_IF_ERROR(CheckAtMost("mount_as", static_cast<int64_t>(options.mount_as),
                              static_cast<int64_t>(MountAs::kBoth)));
  RETURN_IF_ERROR(CheckAtMost("text_tokens", options.text_tokens, kMaxPromptTokens));
  return CheckAtMost("top_k_blocks", options.top_k_blocks, kMaxTopKBlocks);
}

absl::Status CheckRequest(const GenerateRequest& request) {
  if (request.session.has_value() && !(request.session_options == SessionOptions())) {
    return absl::InvalidArgumentError(
        "session_options: set, but the options of an open session are fixed");
  }
  RETURN_IF_ERROR(CheckSaveAs(request));
  RETURN_IF_ERROR(CheckSession(request.session_options));
  RETURN_IF_ERROR(CheckPrompt(request.prompt, "prompt", kMaxPromptTokens, /*messages=*/true));
  RETURN_IF_ERROR(CheckSampling(request.sampling));
  RETURN_IF_ERROR(CheckAtMost("max_tokens", request.max_tokens, kMaxAnswerTokens));
  if (request.logprobs.has_value())
    RETURN_IF_ERROR(CheckAtMost("logprobs", *request.logprobs, kMaxTopLogprobs));
  RETURN_IF_ERROR(CheckAtMost("generated.ids: count (max_tokens at most)",
                              std::ssize(request.generated), request.max_tokens));
  RETURN_IF_ERROR(
      CheckAtMost("generated.text: bytes", std::ssize(request.generated_text), kMaxPromptBytes));
  RETURN_IF_ERROR(CheckAtMost("stop: count", std::ssize(request.stop), kMaxStops));
  for (const std::string& stop : request.stop) {
    RETURN_IF_ERROR(CheckRange<int64_t>("stop: bytes", std::ssize(stop), 1, kMaxStopBytes));
    if (const int64_t bad = model::FindInvalidUtf8(stop, /*allow_partial_end=*/false); bad >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("stop: not UTF-8 at byte ", bad));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const ScoreRequest& request) {
  RETURN_IF_ERROR(CheckSession(request.session_options));
  RETURN_IF_ERROR(CheckPrompt(request.prompt, "prompt", kMaxScoreTokens));
  RETURN_IF_ERROR(CheckNotEmpty(request.prompt, "prompt"));
  RETURN_IF_ERROR(CheckAtMost("top_logprobs", request.top_logprobs, kMaxTopLogprobs));
  RETURN_IF_ERROR(
      CheckAtMost("flush_after: count", std::ssize(request.flush_after), kMaxScoreFlushes));
  int64_t previous = 0;
  for (const int64_t after : request.flush_after) {
    if (after <= previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("flush_after: ", after, " after ", previous, ", must be ascending from 1"));
    }
    previous = after;
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const RetrieveRequest& request) {
  RETURN_IF_ERROR(CheckAtMost("k", request.k, kMaxHits));
  RETURN_IF_ERROR(CheckSession(request.session_options));
  RETURN_IF_ERROR(CheckPrompt(request.query, "query", kMaxPromptTokens));
  return CheckNotEmpty(request.query, "query");
}

absl::Status CheckRequest(const EmbedRequest& request) {
  RETURN_IF_ERROR(CheckSession(request.session_options));
  RETURN_IF_ERROR(CheckPrompt(request.text, "input", kMaxPromptTokens));
  return CheckNotEmpty(request.text, "input");
}

}  // namespace recollect::engine
