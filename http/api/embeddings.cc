#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "http/api/fields.h"
#include "http/api/handlers.h"
#include "http/api/request_fields.h"
#include "http/net/errors.h"
#include "http/net/json.h"

namespace recollect::http {
namespace {

using nlohmann::json;

struct EmbeddingRequest {
  engine::EmbedRequest each;  // but for its text
  std::vector<engine::Prompt> inputs;
  std::string kind = "landmark";
  bool base64 = false;
  std::optional<int64_t> dimensions;
};

absl::StatusOr<EmbeddingRequest> DecodeEmbedding(const Request& request,
                                                 const ServerOptions& options) {
  ASSIGN_OR_RETURN(json object, ParseObject(request.body));
  EmbeddingRequest result;
  std::string format = "float", user;
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(TakePrompts(object, "input", result.inputs));
  RETURN_IF_ERROR(TakeSession(object, request.caller, result.each.session_options));
  RETURN_IF_ERROR(Take(object, "kind", "a string", result.kind));
  RETURN_IF_ERROR(Take(object, "group", "an integer", result.each.group));
  RETURN_IF_ERROR(Take(object, "encoding_format", "a string", format));
  RETURN_IF_ERROR(Take(object, "dimensions", "an integer", result.dimensions));
  RETURN_IF_ERROR(Take(object, "user", "a string", user));  // of no use here
  RETURN_IF_ERROR(RefuseRest(object));
  if (result.kind != "landmark" && result.kind != "query") {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: '", result.kind, "', expected 'landmark' or 'query'"));
  }
  if (format != "float" && format != "base64") {
    return absl::InvalidArgumentError(
        absl::StrCat("encoding_format: '", format, "', expected 'float' or 'base64'"));
  }
  result.each.kind =
      result.kind == "query" ? engine::EmbeddingKind::kQuery : engine::EmbeddingKind::kLandmark;
  result.base64 = format == "base64";
  result.each.account = request.caller.account();
  return result;
}

// As OpenAI's API: the little-endian floats.
std::string Base64(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  return absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                              values.size() * sizeof(float)));
}

// One text after the other, so that one request takes one place in the engine.
class Embeddings final : public std::enable_shared_from_this<Embeddings> {
 public:
  Embeddings(engine::Engine& engine, std::string model, EmbeddingRequest request,
             std::shared_ptr<Answer> answer)
      : engine_(engine),
        model_(std::move(model)),
        request_(std::move(request)),
        answer_(std::move(answer)) {}

  void Next() {
    engine::EmbedRequest next = request_.each;
    next.text = std::move(request_.inputs[data_.size()]);
    const auto handle = engine_.Embed(
        std::move(next), [self = shared_from_this()](const absl::StatusOr<engine::Embedding>& got) {
          self->Take(got);
        });
    answer_->OnGone([handle] { handle->Cancel(); });
  }

 private:
  void Take(const absl::StatusOr<engine::Embedding>& got) {
    if (!got.ok()) return SendError(*answer_, got.status());
    const int64_t width = std::ssize(got->values);
    if (const int64_t wanted = request_.dimensions.value_or(width); wanted != width) {
      return SendError(*answer_, absl::InvalidArgumentError(absl::StrCat(
                                     "dimensions: ", wanted, ", the model has ", width)));
    }
    tokens_ += got->tokens;
    json entry = {{"object", "embedding"},
                  {"index", data_.size()},
                  {"kind", request_.kind},
                  {"embedding", request_.base64 ? json(Base64(got->values)) : json(got->values)}};
    if (request_.each.kind == engine::EmbeddingKind::kQuery) entry["group"] = request_.each.group;
    data_.push_back(std::move(entry));
    if (data_.size() < request_.inputs.size()) return Next();
    SendJson(*answer_, {{"object", "list"},
                        {"data", std::move(data_)},
                        {"model", model_},
                        {"usage", {{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}}});
  }

  engine::Engine& engine_;
  const std::string model_;
  EmbeddingRequest request_;
  const std::shared_ptr<Answer> answer_;
  json data_ = json::array();
  int64_t tokens_ = 0;
};

}  // namespace

absl::Status Embed(Runtime& runtime, const Request& request,
                   const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(EmbeddingRequest decoded, DecodeEmbedding(request, runtime.options));
  std::make_shared<Embeddings>(runtime.engine, runtime.options.model_name, std::move(decoded),
                               answer)
      ->Next();
  return absl::OkStatus();
}

}  // namespace recollect::http
