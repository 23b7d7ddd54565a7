#include "http/net/body.h"

#include <utility>

namespace recollect::http {

Body::~Body() {
  MutexLock lock(mutex_);
  DropLocked();
}

void Body::Read(Got got) {
  absl::StatusOr<std::string> next = std::string();
  {
    MutexLock lock(mutex_);
    begun_ = true;
    if (wake_ != nullptr) wake_();  // only posts
    if (!failed_.ok()) {
      next = failed_;
    } else if (!pieces_.empty()) {
      next = std::move(pieces_.front());
      pieces_.pop_front();
      held_ -= next->size();
      all_held_ -= next->size();
    } else if (!end_.has_value()) {
      got_.swap(got);
      return;
    } else if (!end_->ok()) {
      next = *end_;
    }
  }
  got(std::move(next));
}

bool Body::has_room() const {
  MutexLock lock(mutex_);
  if (!begun_ || !failed_.ok() || end_.has_value()) return false;
  return held_ < kPieceBytes || (held_ < kAheadBytes && all_held_ < kAllAheadBytes);
}

void Body::Give(std::string piece) {
  if (piece.empty()) return End(absl::OkStatus());
  Got got;
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) return;
    got.swap(got_);
    if (got == nullptr) {
      held_ += piece.size();
      all_held_ += piece.size();
      // A body in chunks of a byte each would take many times its bytes.
      if (!pieces_.empty() && pieces_.back().size() + piece.size() <= kPieceBytes) {
        pieces_.back() += piece;
      } else {
        pieces_.push_back(std::move(piece));
      }
    }
  }
  if (got != nullptr) got(std::move(piece));
}

void Body::End(const absl::Status& status) {
  Got got;
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) return;
    end_ = status;
    got.swap(got_);
  }
  if (got == nullptr) return;
  status.ok() ? got(std::string()) : got(status);
}

void Body::Fail(const absl::Status& status) {
  Got got;
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) return;
    failed_ = status;
    wake_ = nullptr;
    got.swap(got_);
    DropLocked();
  }
  if (got != nullptr) got(status);
}

bool Body::failed() const {
  MutexLock lock(mutex_);
  return !failed_.ok();
}

void Body::DropLocked() {
  all_held_ -= std::exchange(held_, 0);
  pieces_.clear();
}

}  // namespace recollect::http
