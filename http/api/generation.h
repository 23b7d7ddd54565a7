// Turns the engine's events into the JSON of one choice of an answer. Subclasses for completions
// and chat define the format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/streams.h"
#include "http/api/choices.h"
#include "http/api/generation_fields.h"
#include "http/api/logprobs.h"
#include "http/api/runtime.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// The engine holds it until the end and delivers one event at a time, so it needs no lock.
class Generation : public engine::GenerateEvents, public std::enable_shared_from_this<Generation> {
 public:
  // Starts the generation, which answers later, from other threads. If it returns an error, the
  // caller fails the choices with it. INVALID_ARGUMENT: log probabilities of a model without a
  // tokenizer.
  virtual absl::Status Start();

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnLogprobs(const engine::ChosenLogprob& token) override;
  void OnRetrieval(const engine::Retrieval& retrieval) override;
  void OnSaved(const absl::StatusOr<store::DocumentInfo>& document) override;
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override;
  void OnError(const absl::Status& status) override;

 protected:
  // `index`: the position among the choices.
  Generation(Runtime& runtime, GenerationRequest request, std::shared_ptr<Choices> choices,
             int64_t index);

  // Return the members of a choice besides `index` and `finish_reason`: in the first event of a
  // stream (null: there is no such event), in an event with further text, in a whole answer.
  virtual nlohmann::json Opening() = 0;
  virtual nlohmann::json Further(const std::string& text) = 0;
  virtual nlohmann::json Whole(const std::string& text) = 0;
  // Adds members to the last event of a stream that has a choice, or to a whole answer. An error
  // ends the answer. May block only if EndsSlowly().
  virtual absl::Status AddToEnd(nlohmann::json& end, const engine::Usage& usage);
  virtual bool EndsSlowly() const;

  // Sets logprobs() if they are requested. Errors as for Start.
  absl::Status PrepareLogprobs();
  void Generate();
  void EndIfError(const absl::Status& status);  // fails the choices, unless it is OK

  Runtime& runtime() { return runtime_; }
  const GenerationRequest& request() const { return request_; }
  Choices& choices() { return *choices_; }
  std::optional<Logprobs>& logprobs() { return logprobs_; }

 private:
  nlohmann::json Choice(nlohmann::json choice, const nlohmann::json& reason) const;
  nlohmann::json LastChoice(nlohmann::json choice, const char* reason,
                            const engine::Usage& usage) const;
  nlohmann::json OfChoice(nlohmann::json retrieval) const;
  void Open();
  absl::Status Finish(engine::FinishReason reason, const engine::Usage& usage);
  absl::Status FinishStream(const char* reason, const engine::Usage& usage);
  absl::Status FinishWhole(const char* reason, const engine::Usage& usage);

  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const GenerationRequest request_;
  const std::shared_ptr<Choices> choices_;
  const int64_t index_;
  std::string text_;  // without a stream
  std::optional<Logprobs> logprobs_;
  nlohmann::json retrievals_ = nlohmann::json::array();
  nlohmann::json saved_;             // of save_as
  int64_t hits_ = 0, left_out_ = 0;  // hits of all retrievals; retrievals beyond the limit
  bool begun_ = false;               // of a stream
};

}  // namespace recollect::http
