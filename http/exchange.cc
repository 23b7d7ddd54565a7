#include "http/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recollect::http {

void Answer::Wake() {
  MutexLock lock(mutex_);
  if (wake_ != nullptr) wake_();  // only posts
}

void Answer::Send(int status, std::string content_type, std::string body) {
  std::function<void()> dropped;
  {
    MutexLock lock(mutex_);
    news_.head = Head{status, std::move(content_type), /*streamed=*/false};
    news_.bytes = std::move(body);
    news_.ended = true;
    dropped.swap(cancel_);
  }
  Wake();
}

void Answer::Begin(std::string content_type) {
  MutexLock lock(mutex_);
  news_.head = Head{200, std::move(content_type), /*streamed=*/true};
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
  MutexLock lock(mutex_);
  News news{std::move(news_.head), std::move(news_.bytes), news_.ended, news_.gone};
  news_.head.reset();
  news_.bytes.clear();
  return news;
}

void Answer::Gone() {
  std::function<void()> cancel;
  {
    MutexLock lock(mutex_);
    news_.gone = true;
    news_.bytes.clear();
    cancel.swap(cancel_);
  }
  if (cancel != nullptr) cancel();
  Wake();
}

void Answer::Detach() {
  MutexLock lock(mutex_);
  wake_ = nullptr;
}

}  // namespace recollect::http
