#include "access/caller.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace recollect::access {

Caller Caller::Anybody() {
  Caller caller;
  caller.anybody_ = true;
  return caller;
}

const std::string& Caller::name() const {
  static const std::string none;
  return key_ == nullptr ? none : key_->name;
}

absl::Status Caller::CheckRight(Right needed, absl::string_view what) const {
  if (anybody_) return absl::OkStatus();
  if (key_ == nullptr) return absl::PermissionDeniedError(absl::StrCat(what, " needs a key"));
  if (needed == Right::kRead || key_->right == Right::kFull) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("key '", key_->name, "' has the right '",
                                                  NameOf(key_->right), "', ", what, " needs '",
                                                  NameOf(needed), "'"));
}

absl::Status Caller::CheckAllDocuments(absl::string_view what) const {
  if (key_ == nullptr || key_->prefix.empty()) return CheckRight(Right::kRead, what);
  return absl::PermissionDeniedError(absl::StrCat(what, " concerns all documents, key '",
                                                  key_->name, "' only those whose ids begin with '",
                                                  key_->prefix, "'"));
}

absl::Status Caller::CheckDocument(absl::string_view id) const {
  if (anybody_) return absl::OkStatus();
  if (key_ == nullptr) return absl::PermissionDeniedError("a document needs a key");
  if (absl::StartsWith(id, key_->prefix)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("document '", id, "': key '", key_->name,
                                                  "' is for ids that begin with '", key_->prefix,
                                                  "'"));
}

const std::string& Caller::prefix() const {
  static const std::string* const kAny = new std::string();
  return key_ == nullptr ? *kAny : key_->prefix;
}

std::string Caller::ListFrom(std::string after) const {
  if (key_ == nullptr || key_->prefix.empty()) return after;
  // The last string before the prefix: its last byte one less, and then 0xff, which is in no UTF-8.
  std::string before = key_->prefix;
  if (before.back() == '\0') {
    before.pop_back();
  } else {
    before.back() = static_cast<char>(static_cast<unsigned char>(before.back()) - 1);
    before += '\xff';
  }
  if (after < before) return before;
  return after;
}

}  // namespace recollect::access
