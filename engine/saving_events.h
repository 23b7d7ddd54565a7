// Saves the text of a generation (GenerateRequest::save_as): between the engine, whose events it
// takes, and the caller, who receives them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "engine/save_text.h"
#include "engine/session/session_text.h"
#include "engine/streams.h"

namespace recollect::engine {

class Engine;  // engine/engine.h

// Used by one thread at a time, but for Cancel. `engine` must outlive Begin.
class SavingEvents final : public GenerateEvents,
                           public std::enable_shared_from_this<SavingEvents> {
 public:
  // REQUIRES: request.save_as; ids of the prompt are in the vocabulary. `tokenizer` may be null:
  // only text can be saved then.
  SavingEvents(Engine& engine, const GenerateRequest& request, const model::Tokenizer* tokenizer,
               std::shared_ptr<GenerateEvents> events, TextSave::BeginStream begin = nullptr);

  // Finds what is wrong, before the first event. Blocks on the disk.
  absl::Status Begin();
  void Cancel();

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnLogprobs(const ChosenLogprob& token) override { events_->OnLogprobs(token); }
  void OnRetrieval(const Retrieval& retrieval) override { events_->OnRetrieval(retrieval); }
  void OnCandidates(const JudgedCandidates& candidates) override {
    events_->OnCandidates(candidates);
  }
  void OnDone(FinishReason reason, const Usage& usage) override;
  void OnError(const absl::Status& status) override;

 private:
  std::shared_ptr<TextSave> save() const;
  void Forget();
  std::string Text();

  Engine& engine_;
  const SaveAs as_;
  const std::shared_ptr<access::Account> account_;
  const std::shared_ptr<GenerateEvents> events_;
  const TextSave::BeginStream begin_;
  const Said said_;
  std::string answer_;
  mutable Mutex mutex_;
  std::shared_ptr<TextSave> save_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::engine
