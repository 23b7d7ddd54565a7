#include "http/api/choices.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "http/api/encode.h"
#include "http/net/errors.h"
#include "http/net/json.h"

namespace recollect::http {
namespace {

using nlohmann::json;

std::string NextId(const char* prefix) {
  static std::atomic<int64_t> next{1};
  return absl::StrCat(prefix, "-", absl::ToUnixMillis(absl::Now()), "-", next.fetch_add(1));
}

// nginx holds an answer back until it has a buffer full, unless the answer says otherwise.
Answer::Head EventsHead() {
  return {.content_type = "text/event-stream", .headers = "X-Accel-Buffering: no\r\n"};
}

// Adds `beside` of one more choice: numbers and arrays grow, the rest is replaced.
void Merge(json& whole, const json& beside) {
  for (const auto& [name, value] : beside.items()) {
    json& sum = whole[name];
    if (sum.is_number_integer() && value.is_number_integer()) {
      sum = sum.get<int64_t>() + value.get<int64_t>();
    } else if (sum.is_array() && value.is_array()) {
      sum.insert(sum.end(), value.begin(), value.end());
    } else {
      sum = value;
    }
  }
}

}  // namespace

Choices::Choices(Runtime& runtime, const Names& names, const Form& form, int64_t count,
                 std::shared_ptr<Answer> answer)
    : runtime_(runtime),
      names_(names),
      form_(form),
      count_(count),
      answer_(std::move(answer)),
      created_(absl::ToUnixSeconds(absl::Now())),
      id_(NextId(names.id)),
      choices_(static_cast<size_t>(count)),
      beside_(static_cast<size_t>(count)),
      running_(count) {}

json Choices::Event(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", runtime_.options.model_name}};
}

void Choices::Follow(const std::shared_ptr<engine::RequestHandle>& handle) {
  bool ended;
  {
    MutexLock lock(mutex_);
    ended = ended_;
    if (!ended) handles_.push_back(handle);
  }
  if (ended) return handle->Cancel();  // another choice has failed meanwhile
  answer_->OnGone([self = shared_from_this()] { self->Cancel(); });
  if (form_.stream) answer_->KeepAlive(EventsHead(), runtime_.options.event_pauses);
}

void Choices::Cancel() {
  std::vector<std::shared_ptr<engine::RequestHandle>> handles;
  {
    MutexLock lock(mutex_);
    handles.swap(handles_);
  }
  for (const auto& handle : handles) handle->Cancel();
}

void Choices::Send(json choice, const json& beside) {
  {
    MutexLock lock(mutex_);
    if (ended_) return;
  }
  json choices = json::array();
  if (!choice.is_null()) choices.push_back(std::move(choice));
  Write(std::move(choices), beside);
}

// Where the usage is asked for, OpenAI's API has null for it in all events but the last. Without
// the lock: a reader who is too slow is cut off here, which cancels all choices.
void Choices::Write(json choices, const json& beside) {
  json event = Event(names_.event);
  event["choices"] = std::move(choices);
  event.update(beside);
  if (form_.include_usage) event.emplace("usage", nullptr);
  answer_->Begin(EventsHead());
  answer_->Write(absl::StrCat("data: ", Dump(event), "\n\n"));
}

void Choices::End(int64_t index, json choice, const json& beside, const engine::Usage& usage) {
  json whole;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    usage_.prompt_tokens += usage.prompt_tokens;
    usage_.cached_tokens += usage.cached_tokens;
    usage_.generated_tokens += usage.generated_tokens;
    choices_[static_cast<size_t>(index)] = std::move(choice);
    beside_[static_cast<size_t>(index)] = beside;
    if (--running_ > 0) return;
    ended_ = true;
    whole = Event(names_.whole);
    whole["choices"] = std::move(choices_);
    whole["usage"] = Encode(usage_);
    for (const json& one : beside_) Merge(whole, one);
  }
  if (!form_.stream) return SendJson(*answer_, whole);
  if (form_.include_usage) Write(json::array(), {{"usage", whole["usage"]}});
  answer_->Write("data: [DONE]\n\n");
  answer_->End();
}

void Choices::Fail(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  Cancel();
  if (!answer_->Begun()) return SendError(*answer_, status);
  answer_->Write(absl::StrCat("data: ", ErrorJson(status), "\n\n"));
  answer_->End();
}

}  // namespace recollect::http
