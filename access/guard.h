// The keys of a server while it runs: who sends them is let in.
//
//   ASSIGN_OR_RETURN(auto guard, Guard::Open("/etc/recollect/keys"));
//   ASSIGN_OR_RETURN(Caller caller, guard->Admit(header));
//   … on SIGHUP: guard->Reload()
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "access/caller.h"
#include "access/key.h"
#include "base/sync/mutex.h"

namespace recollect::access {

// Thread-safe.
class Guard {
 public:
  // Errors of LoadKeys. Warns where there is no key in the file.
  static absl::StatusOr<std::unique_ptr<Guard>> Open(const std::string& path);

  // `authorization` is the header or metadata of that name, "Bearer KEY"; empty: there is none.
  // UNAUTHENTICATED, with the same message whether there is no key or a wrong one. How long it
  // takes does not tell how much of a key was right.
  absl::StatusOr<Caller> Admit(absl::string_view authorization) const;

  // For what goes on for long: UNAUTHENTICATED once the caller's key is gone, or has
  // changed in anything but its quota.
  absl::Status CheckStill(const Caller& caller) const;

  // Reads the file again. On an error, one of LoadKeys, the keys stay as they are.
  absl::Status Reload();

 private:
  struct Entry {
    std::shared_ptr<const Key> key;
    std::shared_ptr<Account> account;  // of its name: stays over a reload
  };
  using Keys = std::vector<Entry>;

  explicit Guard(std::string path) : path_(std::move(path)) {}
  std::shared_ptr<const Keys> keys() const;

  const std::string path_;
  mutable Mutex mutex_;
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Keys>();
};

}  // namespace recollect::access
