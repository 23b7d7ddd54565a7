#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "engine/backend/sampler.h"
#include "engine/session/repetition.h"
#include "engine/session/session_text.h"
#include "engine/session/text_stream.h"
#include "engine/step/log_softmax.h"
#include "engine/step/prepare.h"
#include "engine/step/quotes.h"
#include "engine/step/request.h"
#include "model/judge.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

// Tokens of a chat template around a message and up to the answer.
constexpr int64_t kTemplateTokens = 8;

class Generation final : public Request {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  Generation(const model::Model& model, GenerateRequest request,
             std::shared_ptr<GenerateEvents> events, Counters& counters)
      : Request(request.session_options, request.deadline, request.account),
        model_(model),
        request_(std::move(request)),
        events_(std::move(events)),
        counters_(counters),
        text_(request_.stop),
        repetition_(!request_.session_options.mounts.empty()),
        stops_repetition_(request_.stop_repetition.value_or(!request_.prompt.messages.empty() &&
                                                            !request_.ignore_eos)) {
    piece.with_retrievals = request_.with_retrievals;
  }

  absl::Status Prepare(const PromptSource& source) override {
    const Prompt prompt = std::exchange(request_.prompt, {});
    ASSIGN_OR_RETURN(MadePrompt made, MakePrompt(model_, prompt, source, request_.max_tokens));
    if (request_.session.has_value()) said_ = SaidIn(prompt, model_.tokenizer());
    if (model_.config().has_adapter() && !prompt.messages.empty()) {
      ASSIGN_OR_RETURN(questions_, AskedQuestions(*model_.tokenizer(),
                                                  prompt.messages.back().content, made.tokens));
      piece.question_rows = QuestionRows(prompt, std::ssize(questions_.front().tokens));
      if (MayQuote()) piece.questions = questions_;
      piece.ends_with_quote = request_.generated.empty() && !request_.logprobs.has_value();
    }
    ChooseTokens();
    input_.tokens = std::move(made.tokens);
    usage_.prompt_tokens = std::ssize(input_.tokens);
    usage_.dropped_messages = made.dropped_messages;
    if (request_.with_retrievals) retrieved_ = std::move(made.retrieval);
    return TakeGenerated();
  }

  std::span<const int32_t> beginning() const override {
    return request_.session.has_value() ? std::span<const int32_t>() : input_.tokens;
  }

  absl::Status Plan(int64_t limit) override {
    if (!started_) RETURN_IF_ERROR(Start());
    const bool samples = request_.max_tokens > 0 && !complete_;
    session->Plan(input_, limit, samples ? HeadRows::kLast : HeadRows::kNone, piece);
    piece.sampling = SettingsOf(request_.sampling, usage_.generated_tokens);
    if (piece.rows() == 0 && samples) {
      return absl::InvalidArgumentError(
          "prompt: empty, and the session has no token to continue from");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> PieceDone() override {
    // Made group by group: the order must not depend on where a batch cut the prompt.
    std::ranges::sort(piece.retrievals, {}, [](const Retrieval& retrieval) {
      return std::tuple(retrieval.position, retrieval.group);
    });
    if (retrieved_.has_value()) events_->OnRetrieval(*std::exchange(retrieved_, std::nullopt));
    if (piece.quoted) ChooseQuote();
    if (asks() && !piece.head.empty()) TellJudged();
    for (const Retrieval& retrieval : piece.retrievals) events_->OnRetrieval(retrieval);
    if (!decoding_ && input_.done()) {
      counters_.prompt_tokens += usage_.prompt_tokens;
      counters_.cached_prompt_tokens += usage_.cached_tokens;
      KeepPrompt();
    }
    if (input_.next_token > 0) session->carry.reset();  // it was the first
    if (piece.head.empty()) {
      if (complete_ && input_.done()) {
        session->carry = request_.generated.back();
        Emit({}, text_.Flush());
      }
      return input_.done();
    }
    if (piece.quoted) return SayQuote();
    if (sampled_ < 0) return NothingToSample();
    decoding_ = true;
    if (asks()) {
      piece.questions = {};
      if (!request_.generated.empty()) return EndsWithGenerated();
    }
    Clock();
    return TakeChoice();
  }

  bool prefilling() const override {
    return !decoding_ && input_.tokens.size() - input_.next_token > 1;
  }
  int64_t most_rows() const override {
    return input_.most_rows() + 3;
  }  // of a carried token, flush

 protected:
  void Finish() override { events_->OnDone(reason_, usage_); }
  void Fail(const absl::Status& status) override { events_->OnError(status); }

 private:
  // With DRY the choice depends on all that was generated, and what is told of the logits on the
  // choice: the logits are needed here, wherever they were computed.
  void ChooseTokens() {
    if (request_.sampling.dry_multiplier > 0 || request_.logprobs.has_value()) {
      piece.consume = [this](const HeadRow&, std::span<const float> logits) { Choose(logits); };
    } else {
      piece.choose = [this](const HeadRow&, int32_t choice) { TakeSampled(choice); };
    }
  }
  // Whether documents are still to be asked, at the prompt's end.
  bool asks() const { return !piece.questions.empty(); }

  // Answers of a whole conversation only. Of one that was broken off within the quote, documents
  // are asked again; what follows a quote is its end.
  bool MayQuote() const {
    return request_.quotes && model_.judge() != nullptr && !request_.ignore_eos &&
           request_.max_tokens > 0 && !request_.session.has_value() &&
           std::ssize(request_.generated) <= MostQuoted();
  }

  // The most tokens of quotes, with the ends of their lines.
  int64_t MostQuoted() const {
    const int64_t parts = std::max<int64_t>(1, std::ssize(questions_) - 1);
    return parts * (model_.judge()->config().sentence_tokens + 1);
  }

  // Of a first question all rows that ask, as the reader was trained; of a later one its own, so
  // that it does not look for what an earlier turn asked.
  int64_t QuestionRows(const Prompt& prompt, int64_t asked) const {
    const auto is_answer = [](const ChatMessage& one) { return one.role == ChatRole::kAssistant; };
    return std::ranges::any_of(prompt.messages, is_answer) ? asked + kTemplateTokens
                                                           : model_.config().chunk_tokens;
  }

  // The answer ends with the quotes.
  void ChooseQuote() {
    quotes_ =
        QuotesOf(*model_.tokenizer(), model_.judge()->config(), piece.judged, request_.generated);
    if (!quotes_.tokens.empty()) quotes_.tokens.push_back(model_.config().eos_id);
  }

  // With the hits that are told with the prompt's end, among them the quote.
  void TellJudged() {
    for (size_t i = 0; i < quotes_.said.size() && !piece.retrievals.empty(); ++i)
      for (const JudgedCandidates::Candidate& sentence : quotes_.said[i])
        if (sentence.block >= 0) AddQuote(piece.judged[i], sentence, piece.retrievals.back());
    quotes_.said.clear();
    if (!request_.with_candidates) return;
    for (const JudgedCandidates& judged : piece.judged) events_->OnCandidates(judged);
  }

  // All of it at once: no layer has to run for it.
  bool SayQuote() {
    Clock();
    if (account != nullptr) account->SpendTokens(std::ssize(quotes_.tokens));
    for (const int32_t token : quotes_.tokens) {
      sampled_ = token;
      if (TakeChoice()) break;
    }
    return true;
  }

  // The next token of a quote comes in place of the one that was chosen.
  void TakeSampled(int32_t chosen) {
    sampled_ = chosen;
    if (chosen < 0) return;
    if (asks()) ChooseQuote();
    const auto next = static_cast<size_t>(usage_.generated_tokens);
    if (next < quotes_.tokens.size()) sampled_ = quotes_.tokens[next];
  }

  void Run(std::vector<int32_t> tokens) {
    input_.tokens = std::move(tokens);
    input_.flushes.clear();
    input_.next_token = input_.next_flush = 0;
  }

  // Returns whether the answer ends with the token that was chosen.
  bool TakeChoice() {
    if (request_.logprobs.has_value()) events_->OnLogprobs(logprobs_);
    if (model_.config().Ends(sampled_) && !request_.ignore_eos) {
      reason_ = FinishReason::kEos;
      Emit({}, text_.Flush());
      return true;
    }
    return TakeToken();
  }

  absl::Status Start() {
    started_ = true;
    if (!request_.session.has_value()) {
      // The session may come from an earlier request, whose prompt began alike.
      input_.next_token = session->read_tokens().size();
      usage_.cached_tokens =
          std::min(static_cast<int64_t>(input_.next_token), usage_.prompt_tokens);
    }
    int64_t prompt_end = usage_.prompt_tokens;
    if (const std::optional<int32_t>& before = session->carry) {
      input_.tokens.insert(input_.tokens.begin(), *before);
      ++prompt_end;
    }
    if (request_.flush) input_.flushes = {prompt_end};
    const int64_t after = asks() ? std::ssize(request_.generated) : 0;
    return session->CheckLimit(std::ssize(input_.tokens) + after -
                               static_cast<int64_t>(input_.next_token));
  }

  // What the request had generated before: its text goes through the same steps as when it was
  // sampled, so that what was held back still is.
  absl::Status TakeGenerated() {
    const std::vector<int32_t>& tokens = request_.generated;
    if (tokens.empty() && request_.generated_text.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(PromptTokens(model_, {.text = "", .tokens = tokens}, "generated.ids").status());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (stopped() || (model_.config().Ends(tokens[i]) && !request_.ignore_eos)) {
        return absl::InvalidArgumentError(
            absl::StrCat("generated.ids: token ", i, " of ", tokens.size(),
                         stopped() ? " comes after a stop" : " is the end of text"));
      }
      unsent_ += TextAfter(tokens[i]);
    }
    // The caller has all of it but what is held back, or less; or all, if it ended there.
    const std::string& sent = request_.generated_text;
    const std::string all = unsent_ + TextStream(text_).Flush();
    if (!absl::StartsWith(all, sent)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "generated.text: ", sent.size(), " bytes, but the ", tokens.size(),
          " ids have other text here (", all.size(), " bytes): was it another model?"));
    }
    sent_bytes_ = sent.size();
    usage_.generated_tokens = std::ssize(tokens);
    complete_ = stopped() || usage_.generated_tokens == request_.max_tokens;
    TakeReason();
    if (asks() && !complete_) return absl::OkStatus();  // they run once documents have been asked
    piece.questions = {};
    // The last token of a complete request is not run: the session's next request begins with it.
    input_.tokens.insert(input_.tokens.end(), tokens.begin(), tokens.end() - (complete_ ? 1 : 0));
    if (request_.sampling.dry_multiplier > 0) generated_ = tokens;
    return absl::OkStatus();
  }

  // What the request had generated runs now that documents have been asked, unless it ends it.
  bool EndsWithGenerated() {
    if (stops_repetition_ && quotes_.tokens.empty()) repetition_.Push(unsent_);
    TakeReason();
    if (stopped()) {
      Emit({}, text_.Flush());
      return true;
    }
    Run(request_.generated);
    return false;
  }

  void Choose(std::span<const float> logits) {
    const kernels::NeverChosen never = NeverChosenOf(model_.config());
    if (request_.sampling.dry_multiplier > 0) {
      logits_.assign(logits.begin(), logits.end());
      PenalizeRepetition(request_.sampling, generated_, logits_);
      TakeSampled(kernels::Sample(logits_, piece.sampling, never, scratch_));
    } else {
      TakeSampled(kernels::Sample(logits, piece.sampling, never, scratch_));
    }
    if (sampled_ >= 0 && request_.logprobs.has_value())
      logprobs_ = Told(sampled_, LogSoftmax(logits));
  }

  ChosenLogprob Told(int32_t token, const LogSoftmax& probabilities) const {
    return {{token, probabilities.at(token)},
            probabilities.Likeliest(model_.config(), request_.logprobs.value_or(0))};
  }

  static absl::Status NothingToSample() {
    return absl::InternalError("no token can be sampled: every logit is NaN or -infinity");
  }

  void Clock() {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!std::exchange(clocked_, true)) {
      first_token_ = now;
      usage_.time_to_first_token = absl::FromChrono(now - arrived_);
      counters_.time_to_first_token_s.Observe(absl::ToDoubleSeconds(usage_.time_to_first_token));
    } else {
      counters_.inter_token_s.Observe(Seconds(now - last_token_).count());
    }
    last_token_ = now;
    usage_.generation_time = absl::FromChrono(now - first_token_);
  }

  bool TakeToken() {
    ++usage_.generated_tokens;
    ++counters_.generated_tokens;
    session->carry = sampled_;
    KeepToken(sampled_);
    if (request_.sampling.dry_multiplier > 0) generated_.push_back(sampled_);
    std::string text = TextAfter(sampled_);
    const bool full =
        usage_.generated_tokens == request_.max_tokens || !session->CheckLimit(1).ok();
    TakeReason();
    if (stopped() || full) {
      text += text_.Flush();
      Emit({sampled_}, text);
      return true;
    }
    Emit({sampled_}, text);
    Run({sampled_});
    return false;
  }

  // The text that is certain after this token.
  std::string TextAfter(int32_t token) {
    if (model_.tokenizer() == nullptr) return "";
    std::string text = text_.Push(model_.tokenizer()->TokenBytes(token));
    // Lines of quotes may be alike; of what was generated it is not known yet whether it is one.
    if (stops_repetition_ && quotes_.tokens.empty() && !asks()) repetition_.Push(text);
    return text;
  }

  bool stopped() const { return text_.stopped() || repetition_.begin() > 0; }

  // A stop string precedes what a repetition would have gone on with.
  void TakeReason() {
    if (text_.stopped()) {
      reason_ = FinishReason::kStop;
    } else if (repetition_.begin() > 0) {
      reason_ = FinishReason::kRepetition;
      usage_.repeats_from = repetition_.begin();
    }
  }

  void KeepPrompt() {
    if (!request_.session.has_value()) return;
    session->text.Add(said_);
    for (const int32_t token : request_.generated) KeepToken(token);
  }

  void KeepToken(int32_t token) {
    if (request_.session.has_value() && model_.tokenizer() != nullptr)
      session->text.AddGenerated(model_.tokenizer()->TokenBytes(token));
  }

  void Emit(const std::vector<int32_t>& tokens, const std::string& more) {
    std::string text = std::exchange(unsent_, "") + more;
    const size_t known = std::min(sent_bytes_, text.size());
    sent_bytes_ -= known;
    text.erase(0, known);
    if (!tokens.empty() || !text.empty()) events_->OnTokens(tokens, text);
  }

  const model::Model& model_;
  GenerateRequest request_;
  const std::shared_ptr<GenerateEvents> events_;
  Counters& counters_;
  TextStream text_;
  Repetition repetition_;
  const bool stops_repetition_;
  Input input_;
  Said said_;                           // in an open session
  std::optional<Retrieval> retrieved_;  // in front of the prompt; not told yet
  bool started_ = false, decoding_ = false, clocked_ = false;
  // Of request_.generated: whether it ends the request; its text, and how much the caller has.
  bool complete_ = false;
  std::string unsent_;
  size_t sent_bytes_ = 0;
  int32_t sampled_ = -1;
  // With DRY: what was generated, and the logits after it.
  std::vector<int32_t> generated_;
  std::vector<float> logits_;
  kernels::SampleScratch scratch_;        // where the choice is made here
  ChosenLogprob logprobs_;                // of sampled_, where it is asked for
  std::vector<AskedQuestion> questions_;  // with an adapter: Piece::questions
  Quotes quotes_;  // of Piece::judged until that is told; the tokens with the answer's end
  FinishReason reason_ = FinishReason::kMaxTokens;
  Usage usage_;
  const SteadyTime arrived_ = std::chrono::steady_clock::now();
  SteadyTime first_token_, last_token_;
};

}  // namespace

std::shared_ptr<Request> MakeGenerate(const model::Model& model, GenerateRequest request,
                                      std::shared_ptr<GenerateEvents> events, Counters& counters) {
  return std::make_shared<Generation>(model, std::move(request), std::move(events), counters);
}

}  // namespace recollect::engine
