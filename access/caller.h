// Who calls, and what that allows. A caller is checked where a request is decoded:
//
//   RETURN_IF_ERROR(caller.CheckRight(Right::kFull, "DeleteDocument"));
//   RETURN_IF_ERROR(caller.CheckDocument(request.id()));
//
// All refusals are PERMISSION_DENIED. They do not depend on what the server has, so that nobody
// learns from them which documents there are.
#ifndef RECOLLECT_ACCESS_CALLER_H_
#define RECOLLECT_ACCESS_CALLER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "access/account.h"
#include "access/key.h"

namespace recollect::access {

// A value, cheap to copy. Thread-safe.
class Caller {
 public:
  Caller() = default;       // nobody: may do nothing
  static Caller Anybody();  // where no keys are asked for: may do everything
  explicit Caller(std::shared_ptr<const Key> key, std::shared_ptr<Account> account = nullptr)
      : key_(std::move(key)), account_(std::move(account)) {}

  // Of the key; empty for anybody. What one caller opens belongs to all of the same name.
  const std::string& name() const;
  // Null: anybody or nobody.
  const Key* key() const { return key_.get(); }
  // To hand to the engine; null: nothing is counted.
  const std::shared_ptr<Account>& account() const { return account_; }

  // `what` names the call. Names the right that the key has and the one that it lacks.
  absl::Status CheckRight(Right needed, absl::string_view what) const;
  // For what concerns all documents at once.
  absl::Status CheckAllDocuments(absl::string_view what) const;
  // Names the id and the prefix.
  absl::Status CheckDocument(absl::string_view id) const;
  absl::Status CheckDocuments(const auto& ids) const {
    for (const auto& id : ids)
      if (absl::Status status = CheckDocument(id); !status.ok()) return status;
    return absl::OkStatus();
  }

  bool MaySee(absl::string_view id) const { return CheckDocument(id).ok(); }
  // Lists of ids, in byte order, hold what the caller may see in one piece: it lies behind this
  // string, or behind `after` where that is later. For ids in UTF-8.
  std::string ListFrom(std::string after) const;

 private:
  bool anybody_ = false;
  std::shared_ptr<const Key> key_;
  std::shared_ptr<Account> account_;
};

}  // namespace recollect::access

#endif  // RECOLLECT_ACCESS_CALLER_H_
