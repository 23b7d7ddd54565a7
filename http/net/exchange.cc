#include "http/net/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recollect::http {

std::optional<absl::string_view> HeaderOf(const Request& request, const char* name) {
  const auto found = request.headers.find(name);
  if (found == request.headers.end()) return std::nullopt;
  return found->second;
}

void Answer::Wake() {
  MutexLock lock(mutex_);
  if (wake_ != nullptr) wake_();  // only posts
}

void Answer::Send(int status, std::string content_type, std::string body, std::string headers) {
  std::function<void()> dropped;
  {
    MutexLock lock(mutex_);
    news_.head = Head{status, std::move(content_type), std::move(headers), /*streamed=*/false};
    begun_ = true;
    pauses_.reset();
    news_.bytes = std::move(body);
    news_.ended = true;
    dropped.swap(cancel_);
  }
  Wake();
}

void Answer::Begin(Head head) {
  MutexLock lock(mutex_);
  idle_head_.reset();
  if (std::exchange(begun_, true)) return;
  news_.head = std::move(head);
}

void Answer::KeepAlive(Head head, Pauses pauses) {
  {
    MutexLock lock(mutex_);
    if (news_.ended || news_.gone) return;
    pauses_ = pauses;
    if (!begun_) idle_head_ = std::move(head);
  }
  Wake();
}

bool Answer::Begun() {
  MutexLock lock(mutex_);
  idle_head_.reset();
  return begun_;
}

void Answer::Idle() {
  MutexLock lock(mutex_);
  if (news_.ended || news_.gone || !news_.bytes.empty()) return;
  if (idle_head_.has_value()) {
    news_.head = std::exchange(idle_head_, std::nullopt);
    begun_ = true;
  } else if (begun_) {
    news_.bytes = ":\n\n";
  }
}

void Answer::Write(absl::string_view part) {
  bool overflow;
  {
    MutexLock lock(mutex_);
    if (news_.gone) return;
    absl::StrAppend(&news_.bytes, part);
    overflow = news_.bytes.size() > kMaxUnsentBytes;
  }
  if (overflow) return Gone();
  Wake();
}

void Answer::WhenTaken(std::function<void()> next) {
  {
    MutexLock lock(mutex_);
    if (news_.gone) return;
    if (!news_.bytes.empty()) {
      next_ = std::move(next);
      return;
    }
  }
  next();
}

void Answer::Proceed() {
  {
    MutexLock lock(mutex_);
    news_.proceed = true;
  }
  Wake();
}

void Answer::End() {
  std::function<void()> dropped;
  {
    MutexLock lock(mutex_);
    news_.ended = true;
    dropped.swap(cancel_);
  }
  Wake();
}

void Answer::OnGone(std::function<void()> cancel) {
  {
    MutexLock lock(mutex_);
    if (!news_.gone) {
      if (!news_.ended) cancel_.swap(cancel);
      return;
    }
  }
  cancel();
}

Answer::News Answer::Take() {
  std::function<void()> next;
  News news;
  {
    MutexLock lock(mutex_);
    news = {news_.proceed, std::move(news_.head), std::move(news_.bytes), news_.ended, news_.gone};
    if (pauses_.has_value() && idle_head_.has_value()) {
      news.pause = pauses_->head;
    } else if (pauses_.has_value() && begun_) {
      news.pause = pauses_->comment;
    }
    news_.proceed = false;
    news_.head.reset();
    news_.bytes.clear();
    next.swap(next_);
  }
  if (next != nullptr) next();
  return news;
}

void Answer::Gone() {
  std::function<void()> cancel, next;
  {
    MutexLock lock(mutex_);
    news_.gone = true;
    news_.bytes.clear();
    cancel.swap(cancel_);
    next.swap(next_);
  }
  if (cancel != nullptr) cancel();
  Wake();
}

void Answer::Detach() {
  MutexLock lock(mutex_);
  wake_ = nullptr;
}

}  // namespace recollect::http
