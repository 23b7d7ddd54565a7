#include "http/body.h"

#include <utility>

namespace recollect::http {

void Body::Read(Got got) {
  absl::Status failed;
  {
    MutexLock lock(mutex_);
    failed = failed_;
    if (failed.ok()) {
      got_.swap(got);
      if (wake_ != nullptr) wake_();  // only posts
    }
  }
  if (!failed.ok()) got(failed);
}

bool Body::wanted() const {
  MutexLock lock(mutex_);
  return got_ != nullptr;
}

void Body::Give(std::string piece) {
  Got got;
  {
    MutexLock lock(mutex_);
    got.swap(got_);
  }
  got(std::move(piece));
}

void Body::Fail(const absl::Status& status) {
  Got got;
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) return;
    failed_ = status;
    wake_ = nullptr;
    got.swap(got_);
  }
  if (got != nullptr) got(status);
}

bool Body::failed() const {
  MutexLock lock(mutex_);
  return !failed_.ok();
}

}  // namespace recollect::http
