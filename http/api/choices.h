// The answer to a request for completions, shared by its choices: one JSON object, or a stream of
// server-sent events. There is one choice for each prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "engine/streams.h"
#include "http/api/runtime.h"
#include "http/net/exchange.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// Thread-safe. Once one choice has failed, the others are cancelled and their further output is
// dropped.
class Choices : public std::enable_shared_from_this<Choices> {
 public:
  // The prefix of ids, and the values of `object` in a whole answer and in an event.
  struct Names {
    const char* id;
    const char* whole;
    const char* event;
  };
  struct Form {
    bool stream = false;
    bool include_usage = false;  // in a stream: an event of its own at the end
  };
  Choices(Runtime& runtime, const Names& names, const Form& form, int64_t count,
          std::shared_ptr<Answer> answer);

  int64_t count() const { return count_; }
  // Cancels the engine's request when the client disconnects, and keeps a stream alive until it
  // ends.
  void Follow(const std::shared_ptr<engine::RequestHandle>& handle);

  // Sends an event of a stream, with `choice` in `choices` and the members of `beside` next to
  // `choices`. If `choice` is null, `choices` is empty.
  void Send(nlohmann::json choice, const nlohmann::json& beside = nlohmann::json::object());
  // Ends the choice `index`. A whole answer has `choice` at this index, and the members of `beside`
  // next to `choices`; with several choices numbers are added and arrays joined. A stream has
  // neither.
  void End(int64_t index, nlohmann::json choice, const nlohmann::json& beside,
           const engine::Usage& usage);
  void Fail(const absl::Status& status);

 private:
  nlohmann::json Event(const char* object) const;  // without `choices`
  void Write(nlohmann::json choices, const nlohmann::json& beside);
  void Cancel();

  Runtime& runtime_;
  const Names names_;
  const Form form_;
  const int64_t count_;
  const std::shared_ptr<Answer> answer_;
  const int64_t created_;  // in seconds since 1970
  const std::string id_;

  Mutex mutex_;
  std::vector<std::shared_ptr<engine::RequestHandle>> handles_ ABSL_GUARDED_BY(mutex_);
  std::vector<nlohmann::json> choices_ ABSL_GUARDED_BY(mutex_), beside_ ABSL_GUARDED_BY(mutex_);
  engine::Usage usage_ ABSL_GUARDED_BY(mutex_);  // the sum
  int64_t running_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace recollect::http
