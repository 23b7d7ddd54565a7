// One choice of an answer over HTTP, from the engine's events to JSON. How it is written,
// completions and chat say.
#ifndef RECOLLECT_HTTP_GENERATION_H_
#define RECOLLECT_HTTP_GENERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "http/choices.h"
#include "http/generation_fields.h"
#include "http/logprobs.h"
#include "http/runtime.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// Is held by the engine until the end. Its events come one at a time, so it needs no lock.
class Generation : public engine::GenerateEvents, public std::enable_shared_from_this<Generation> {
 public:
  // Answers later, from other threads, unless it returns an error, with which the caller lets the
  // choices fail.
  // INVALID_ARGUMENT: log probabilities of a model without a tokenizer.
  virtual absl::Status Start();

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override;
  void OnLogprobs(const engine::ChosenLogprob& token) override;
  void OnRetrieval(const engine::Retrieval& retrieval) override;
  void OnDone(engine::FinishReason reason, const engine::Usage& usage) override;
  void OnError(const absl::Status& status) override;

 protected:
  // `index`: among the choices.
  Generation(Runtime& runtime, GenerationRequest request, std::shared_ptr<Choices> choices,
             int64_t index);

  // What a choice has besides `index` and `finish_reason`: of the event before all others of a
  // stream (null: there is none), of an event with further text, of a whole answer.
  virtual nlohmann::json Opening() = 0;
  virtual nlohmann::json Further(const std::string& text) = 0;
  virtual nlohmann::json Whole(const std::string& text) = 0;
  // Adds to the last event of a stream that has a choice, or to a whole answer. Where EndsSlowly,
  // it may block, and its error ends the answer.
  virtual absl::Status AddToEnd(nlohmann::json& end, const engine::Usage& usage);
  virtual bool EndsSlowly() const;

  // Sets logprobs(), where they are asked for; as Start.
  absl::Status PrepareLogprobs();
  void Generate();
  void EndIfError(const absl::Status& status);  // tells it to the client, unless it is OK

  Runtime& runtime() { return runtime_; }
  const GenerationRequest& request() const { return request_; }
  Choices& choices() { return *choices_; }
  std::optional<Logprobs>& logprobs() { return logprobs_; }

 private:
  nlohmann::json Choice(nlohmann::json choice, const nlohmann::json& reason) const;
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
  int64_t hits_ = 0, left_out_ = 0;  // of retrievals_; and retrievals beyond the most
  bool begun_ = false;               // of a stream
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_GENERATION_H_
