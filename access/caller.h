// The caller of a request and its permissions. A caller is checked where a request is decoded:
//
//   RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "DeleteDocument"));
//   RETURN_IF_ERROR(caller.CheckDocument(request.id()));
//
// All refusals are PERMISSION_DENIED. They do not depend on the server's contents, so that they
// never reveal which documents exist.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "access/account.h"
#include "access/key.h"

namespace recollect::access {

// A value that is cheap to copy. Thread-safe.
class Caller {
 public:
  Caller() = default;       // nobody: may do nothing
  static Caller Anybody();  // where no keys are asked for: may do everything
  explicit Caller(std::shared_ptr<const Key> key, std::shared_ptr<Account> account = nullptr)
      : key_(std::move(key)), account_(std::move(account)) {}

  // The name of the key; empty without a key. What one caller opens belongs to all callers of the
  // same name.
  const std::string& name() const;
  // Returns null for anybody and nobody.
  const Key* key() const { return key_.get(); }
  // The account to hand to the engine; null: nothing is counted.
  const std::shared_ptr<Account>& account() const { return account_; }

  // Checks the right to make the call named `what`. The error names the right that the key has and
  // the one that it lacks.
  absl::Status CheckRight(Right needed, absl::string_view what) const;
  // Checks a call that concerns all documents at once; keys with a prefix are refused.
  absl::Status CheckAllDocuments(absl::string_view what) const;
  // Checks that the caller may use the document. The error names the id and the prefix.
  absl::Status CheckDocument(absl::string_view id) const;
  absl::Status CheckDocuments(const auto& ids) const {
    for (const auto& id : ids)
      if (absl::Status status = CheckDocument(id); !status.ok()) return status;
    return absl::OkStatus();
  }

  // Returns what the ids of all documents begin with that the caller may see; empty: any.
  const std::string& prefix() const;
  bool MaySee(absl::string_view id) const { return CheckDocument(id).ok(); }
  // Returns the string after which the ids that the caller may see begin, or `after` if that is
  // later. In a list of UTF-8 ids in byte order, these ids are contiguous.
  std::string ListFrom(std::string after) const;

 private:
  bool anybody_ = false;
  std::shared_ptr<const Key> key_;
  std::shared_ptr<Account> account_;
};

}  // namespace recollect::access
