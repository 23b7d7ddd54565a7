#include "engine/saving_events.h"

#include <algorithm>

#include "base/memory.h"
#include "base/status.h"
#include "base/turns_text.h"

namespace recollect::engine {
namespace {

Said InWholeCharacters(Said said) {
  TextStream stream({});
  said.text = stream.Push(said.text);
  said.text += stream.Flush();
  return said;
}

}  // namespace

SavingEvents::SavingEvents(Engine& engine, const GenerateRequest& request,
                           const model::Tokenizer* tokenizer,
                           std::shared_ptr<GenerateEvents> events, TextSave::BeginStream begin)
    : engine_(engine),
      as_(*request.save_as),
      account_(request.account),
      events_(std::move(events)),
      begin_(std::move(begin)),
      said_(SaidIn(request.prompt, tokenizer)),
      answer_(request.generated_text) {}

absl::Status SavingEvents::Begin() {
  const Said known = InWholeCharacters(said_);
  absl::StatusOr<std::shared_ptr<TextSave>> save =
      TextSave::Begin(engine_, as_, {.peer = as_.peer, .account = account_},
                      {.text = known.text, .is_question = known.is_question}, begin_);
  if (!save.ok()) return Annotate(save.status(), "save_as");
  MutexLock lock(mutex_);
  save_ = *std::move(save);
  return absl::OkStatus();
}

std::shared_ptr<TextSave> SavingEvents::save() const {
  MutexLock lock(mutex_);
  return save_;
}

// Without the lock: the end of an ingest calls back.
void SavingEvents::Forget() {
  std::shared_ptr<TextSave> save;
  MutexLock lock(mutex_);
  save.swap(save_);
}

void SavingEvents::Cancel() {
  if (const std::shared_ptr<TextSave> saving = save()) saving->Cancel();
}

void SavingEvents::OnTokens(const std::vector<int32_t>& tokens, const std::string& text) {
  answer_ += text;
  events_->OnTokens(tokens, text);
}

// An answer ends a turn, or simply follows its prompt.
std::string SavingEvents::Text() {
  Said whole = said_;
  if (said_.is_question) {
    whole.text += TurnsText({{ChatRole::kAssistant, answer_}});
  } else {
    whole.text += answer_;
  }
  return InWholeCharacters(std::move(whole)).text;
}

void SavingEvents::OnDone(FinishReason reason, const Usage& usage) {
  if (usage.repeats_from > 0)
    answer_.resize(std::min(answer_.size(), static_cast<size_t>(usage.repeats_from)));
  const auto end = [self = shared_from_this(), reason,
                    usage](const absl::StatusOr<store::DocumentInfo>& document) {
    self->Forget();
    self->events_->OnSaved(document);
    self->events_->OnDone(reason, usage);
  };
  absl::StatusOr<std::string> text =
      OrExhausted("saving a text", [&]() -> absl::StatusOr<std::string> { return Text(); });
  if (!text.ok()) return end(text.status());
  save()->Write(*std::move(text), end);
}

void SavingEvents::OnError(const absl::Status& status) {
  Forget();
  events_->OnError(status);
}

}  // namespace recollect::engine
