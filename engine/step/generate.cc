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
#include "engine/step/drafts.h"
#include "engine/step/log_softmax.h"
#include "engine/step/prepare.h"
#include "engine/step/request.h"
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
    if (MayDraft(prompt)) {
      ASSIGN_OR_RETURN(std::vector<int32_t> question,
                       model_.tokenizer()->Encode(prompt.messages.back().content));
      drafts_.emplace(model_, std::move(question));
      if (model_.config().adapter.reader.exists()) {
        piece.question = drafts_->question();
        piece.question_rows = QuestionRows(prompt);
      }
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
    if (drafting_) {
      session->PlanBranches(drafts_->NextRows(), piece);
      return absl::OkStatus();
    }
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
    if (drafting_) {
      RETURN_IF_ERROR(drafts_->AddChoices());
      return drafts_->complete() && TakeDraft();
    }
    // Made group by group: the order must not depend on where a batch cut the prompt.
    std::ranges::sort(piece.retrievals, {}, [](const Retrieval& retrieval) {
      return std::tuple(retrieval.position, retrieval.group);
    });
    if (retrieved_.has_value()) events_->OnRetrieval(*std::exchange(retrieved_, std::nullopt));
    if (!drafts_.has_value() || !drafts_->begun()) TellRetrievals();
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
    if (sampled_ < 0) return NothingToSample();
    decoding_ = true;
    if (drafts_.has_value()) {
      ASSIGN_OR_RETURN(drafting_, BeginDrafts());
      if (drafting_) {
        retrievals_ = std::move(piece.retrievals);
        return drafts_->complete() && TakeDraft();
      }
      if (drafts_->begun()) TellRetrievals();
      EndDrafts();
      if (GoOnAfterGenerated()) return false;
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
    piece.consume = nullptr;
    piece.choose = nullptr;
    if (request_.sampling.dry_multiplier > 0 || tells()) {
      piece.consume = [this](const HeadRow& head, std::span<const float> logits) {
        drafting_ ? drafts_->Choose(head, logits) : Choose(logits);
      };
    } else {
      piece.choose = [this](const HeadRow&, int32_t choice) { sampled_ = choice; };
    }
  }
  // Whether the log probability of a choice is needed.
  bool tells() const { return request_.logprobs.has_value() || drafts_.has_value(); }

  // Greedy answers of a whole conversation only. Of one that was broken off within the draft, the
  // drafts are made again; what follows a draft is greedy in any case.
  bool MayDraft(const Prompt& prompt) const {
    return request_.drafts && model_.judge() != nullptr && !prompt.messages.empty() &&
           request_.sampling.temperature == 0 && request_.sampling.dry_multiplier == 0 &&
           !request_.ignore_eos && !request_.session.has_value() &&
           std::ssize(request_.generated) < model_.judge()->config().draft_tokens;
  }

  // Of a first question all rows that ask, as the reader was trained; of a later one its own, so
  // that it does not look for what an earlier turn asked.
  int64_t QuestionRows(const Prompt& prompt) const {
    const auto is_answer = [](const ChatMessage& one) { return one.role == ChatRole::kAssistant; };
    return std::ranges::any_of(prompt.messages, is_answer)
               ? std::ssize(drafts_->question()) + kTemplateTokens
               : model_.config().chunk_tokens;
  }

  // Returns whether there are drafts. Called at the prompt's end. Without documents that are read
  // there is nothing to judge by.
  absl::StatusOr<bool> BeginDrafts() {
    piece.question = {};
    if (!drafts_->begun() || model_.config().Ends(sampled_) ||
        !session->CheckLimit(drafts_->tokens() + 1).ok()) {
      return false;
    }
    return session->Branch(drafts_->count());
  }

  void EndDrafts() {
    drafting_ = false;
    drafts_.reset();
    ChooseTokens();
  }

  void TellRetrievals() {
    for (const Retrieval& retrieval : piece.retrievals) events_->OnRetrieval(retrieval);
  }

  // Tells what the prompt's end retrieved, among it the block that the answer quotes.
  void TellRetrievals(const Drafts::Draft* best) {
    if (retrievals_.empty()) return;
    if (best != nullptr && !best->span.empty()) {
      Hit quoted = drafts_->Quoted(*best, *piece.segments.back().memory, session->mounts());
      std::vector<Hit>& hits = retrievals_.back().hits;
      const auto same = std::ranges::find_if(hits, [&](const Hit& hit) {
        return hit.owner == quoted.owner && hit.chunk == quoted.chunk;
      });
      if (same == hits.end()) {
        hits.push_back(std::move(quoted));
      } else {
        same->quote = std::move(quoted.quote);
      }
    }
    for (const Retrieval& retrieval : retrievals_) events_->OnRetrieval(retrieval);
  }

  // With what was generated before, which waited for the drafts.
  bool GoOnAfterGenerated() {
    if (request_.generated.empty()) return false;
    Run(request_.generated);
    return true;
  }

  std::vector<model::ReadBlock> ReadBlocks() const {
    std::vector<model::ReadBlock> blocks;
    const LandmarkMemory* memory = piece.segments.back().memory.get();
    if (memory == nullptr) return blocks;
    memory->ForEachRead([&](const ChunkRef& ref, const ChunkMemory& chunk, float weight) {
      blocks.push_back({chunk.tokens, weight, static_cast<int64_t>(ref.owner)});
    });
    return blocks;
  }

  // The answer goes on with the best draft, as if its tokens had been chosen one by one. It does
  // not run if it is the whole answer. Returns whether it is.
  bool TakeDraft() {
    const Drafts::Draft* const best = drafts_->Best(request_.generated);
    TellRetrievals(best);
    if (request_.with_drafts)
      events_->OnDrafts(drafts_->Judged(*piece.segments.back().memory, session->mounts()));
    const std::vector<ChosenLogprob> chosen =
        best != nullptr ? best->chosen : std::vector<ChosenLogprob>();
    session->DropBranches();
    EndDrafts();
    if (chosen.empty()) return !GoOnAfterGenerated();
    Clock();  // once: these tokens come together
    std::vector<int32_t> tokens = request_.generated;
    bool whole = false;
    for (size_t i = tokens.size(); i < chosen.size() && !whole; ++i) {
      logprobs_ = chosen[i];
      sampled_ = logprobs_.chosen.token;
      tokens.push_back(sampled_);
      whole = TakeChoice();
    }
    session->carry.reset();
    if (!whole) Run(std::move(tokens));
    return whole;
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
    const int64_t after = drafts_.has_value() ? std::ssize(request_.generated) : 0;
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
    if (drafts_.has_value() && !complete_) return absl::OkStatus();  // they run after the drafts
    EndDrafts();
    // The last token of a complete request is not run: the session's next request begins with it.
    input_.tokens.insert(input_.tokens.end(), tokens.begin(), tokens.end() - (complete_ ? 1 : 0));
    if (request_.sampling.dry_multiplier > 0) generated_ = tokens;
    return absl::OkStatus();
  }

  void Choose(std::span<const float> logits) {
    const kernels::NeverChosen never = NeverChosenOf(model_.config());
    if (request_.sampling.dry_multiplier > 0) {
      logits_.assign(logits.begin(), logits.end());
      PenalizeRepetition(request_.sampling, generated_, logits_);
      sampled_ = kernels::Sample(logits_, piece.sampling, never, scratch_);
    } else {
      sampled_ = kernels::Sample(logits, piece.sampling, never, scratch_);
    }
    if (!tells() || sampled_ < 0) return;
    const LogSoftmax probabilities(logits);
    logprobs_ = Told(sampled_, probabilities);
    if (!drafts_.has_value()) return;
    std::vector<model::ReadBlock> blocks = ReadBlocks();
    if (blocks.empty()) return;
    drafts_->Begin(probabilities, request_.logprobs.value_or(0), std::move(blocks),
                   std::move(piece.reading));
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
    if (stops_repetition_) repetition_.Push(text);
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
  kernels::SampleScratch scratch_;     // where the choice is made here
  ChosenLogprob logprobs_;             // of sampled_, where tells()
  std::optional<Drafts> drafts_;       // until one is chosen
  bool drafting_ = false;              // the session has branches, in which they run
  std::vector<Retrieval> retrievals_;  // of the prompt's end, until a draft is chosen
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
