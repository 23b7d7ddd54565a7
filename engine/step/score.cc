#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "engine/backend/sampler.h"
#include "engine/session/session_text.h"
#include "engine/step/log_softmax.h"
#include "engine/step/prepare.h"
#include "engine/step/request.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

class Scoring final : public Answering<ScoreRequest, ScoreResult> {
 public:
  Scoring(const model::Model& model, ScoreRequest request, Done done, Counters& counters)
      : Answering(model, std::move(request), std::move(done), counters),
        stays_open_(request_.session.has_value()) {
    piece.consume = [this](const HeadRow& head, std::span<const float> logits) {
      const auto at = static_cast<size_t>(head.index - before_);
      const LogSoftmax probabilities(logits);
      const int32_t best = Argmax(model_.config(), logits);
      result_.logprobs[at] = probabilities.at(head.target);
      result_.argmax[at] = best;
      if (best >= 0) result_.argmax_logprobs[at] = probabilities.at(best);
      const auto top = probabilities.Likeliest(model_.config(), request_.top_logprobs);
      std::copy(top.begin(), top.end(),
                result_.top.begin() + static_cast<ptrdiff_t>(at) * request_.top_logprobs);
    };
  }

  absl::Status Prepare(const PromptSource& source) override {
    if (!source.text_mounts.empty()) {
      return absl::FailedPreconditionError(
          "mounts: documents mounted as text are put in front of what is asked; a score is of the "
          "given text alone");
    }
    const Prompt prompt = std::exchange(request_.prompt, {});
    is_text_ = !prompt.text.empty();
    ASSIGN_OR_RETURN(result_.tokens, PromptTokens(model_, prompt, "prompt", source.continues));
    if (stays_open_) said_ = SaidIn(prompt, model_.tokenizer());
    RETURN_IF_ERROR(ValidateScore(request_, std::ssize(result_.tokens)));
    if (model_.tokenizer() != nullptr) {
      for (const int32_t id : result_.tokens) {
        result_.text_bytes += std::ssize(model_.tokenizer()->TokenBytes(id));
      }
    }
    result_.logprobs.resize(result_.tokens.size());
    result_.argmax.resize(result_.tokens.size(), -1);
    result_.argmax_logprobs.resize(result_.tokens.size());
    result_.top.resize(result_.tokens.size() * static_cast<size_t>(request_.top_logprobs));
    input_.tokens = result_.tokens;
    if (stays_open_) {
      input_.after = input_.tokens.back();
      input_.tokens.pop_back();
    }
    input_.flushes = std::move(request_.flush_after);
    return absl::OkStatus();
  }

  absl::Status Plan(int64_t limit) override {
    if (!std::exchange(started_, true)) RETURN_IF_ERROR(Start());
    session->Plan(input_, limit, HeadRows::kAll, piece);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> PieceDone() override {
    if (input_.next_token > 0) session->carry.reset();  // it was the first
    if (input_.done() && stays_open_) {
      session->carry = input_.after;
      session->text.Add(said_);
    }
    return input_.done();
  }

  int64_t most_rows() const override { return input_.most_rows() + 2; }  // of a carried token

 protected:
  int64_t prompt_tokens() const override { return std::ssize(result_.tokens); }

 private:
  // The last token of a prefix, or of what an open session has read, is what the first one here is
  // predicted from.
  absl::Status Start() {
    if (const std::optional<int32_t> before = TokenBefore(model_, *session, is_text_)) {
      input_.tokens.insert(input_.tokens.begin(), *before);
      before_ = 1;
      for (int64_t& after : input_.flushes) ++after;
    }
    return session->CheckLimit(std::ssize(input_.tokens));
  }

  const bool stays_open_;                   // the session
  bool started_ = false, is_text_ = false;  // the prompt is text, not tokens
  Said said_;                               // in an open session
  int64_t before_ = 0;                      // tokens of the input before the first that is scored
};

}  // namespace

std::shared_ptr<Request> MakeScore(const model::Model& model, ScoreRequest request,
                                   std::function<void(absl::StatusOr<ScoreResult>)> done,
                                   Counters& counters) {
  return std::make_shared<Scoring>(model, std::move(request), std::move(done), counters);
}

}  // namespace recollect::engine
