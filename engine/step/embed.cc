#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/step/prepare.h"
#include "engine/step/request.h"

namespace recollect::engine {
namespace {

// Other models than those of prefixes search documents all the same.
absl::Status RequireVectors(const model::Model& model) {
  const absl::Status status = RequireLandmarks(model);
  if (status.ok() || model.config().documents() == DocumentKind::kPrefix) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; '/v1/retrieve' searches documents"));
}

// Runs the text as a prompt and flushes: that closes the chunk, and the landmark there asks.
class Embed final : public Answering<EmbedRequest, Embedding> {
 public:
  using Answering::Answering;

  absl::Status Prepare(const PromptSource&) override {
    RETURN_IF_ERROR(RequireVectors(model_));
    const model::ModelConfig& config = model_.config();
    RETURN_IF_ERROR(CheckRange<int64_t>("group", request_.group, 0, std::ssize(config.groups) - 1));
    ASSIGN_OR_RETURN(input_.tokens,
                     PromptTokens(model_, std::exchange(request_.text, {}), "input"));
    result_.tokens = std::ssize(input_.tokens);
    input_.flushes = {result_.tokens};
    if (input_.tokens.empty()) return absl::InvalidArgumentError("input: no tokens");
    if (request_.kind == EmbeddingKind::kLandmark && result_.tokens > config.chunk_tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("input: ", result_.tokens, " tokens, a landmark stands for a chunk of 1 to ",
                       config.chunk_tokens));
    }
    return absl::OkStatus();
  }

  absl::Status Plan(int64_t limit) override {
    session->Plan(input_, limit, HeadRows::kNone, piece);
    piece.with_queries = input_.done();
    return absl::OkStatus();
  }

  absl::StatusOr<bool> PieceDone() override {
    if (!input_.done()) return false;
    if (request_.kind == EmbeddingKind::kLandmark) {
      for (const Bf16 value : session->last_key()) result_.values.push_back(value.ToFloat());
      return true;
    }
    result_.values = std::move(piece.queries[static_cast<size_t>(request_.group)]);
    // What retrieval divides each score by.
    const float scale = 1 / std::sqrt(static_cast<float>(result_.values.size()));
    for (float& value : result_.values) value *= scale;
    return true;
  }

  int64_t most_rows() const override { return input_.most_rows(); }
};

}  // namespace

std::shared_ptr<Request> MakeEmbed(const model::Model& model, EmbedRequest request,
                                   std::function<void(absl::StatusOr<Embedding>)> done,
                                   Counters& counters) {
  return std::make_shared<Embed>(model, std::move(request), std::move(done), counters);
}

}  // namespace recollect::engine
