#include "access/guard.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "access/keys_file.h"
#include "base/io/log.h"
#include "base/sha256.h"
#include "base/status.h"

namespace recollect::access {
namespace {

constexpr absl::string_view kScheme = "bearer ";

absl::Status NoKey() {
  return absl::UnauthenticatedError(
      "no key, or not one of this server: send 'authorization: Bearer KEY'");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Guard>> Guard::Open(const std::string& path) {
  auto guard = std::unique_ptr<Guard>(new Guard(path));
  RETURN_IF_ERROR(guard->Reload());
  return guard;
}

absl::Status Guard::Reload() {
  ASSIGN_OR_RETURN(std::vector<Key> loaded, LoadKeys(path_));
  if (loaded.empty()) LogWarning("{}: no key in it: nobody may do anything", path_);
  MutexLock lock(mutex_);
  auto keys = std::make_shared<Keys>();
  for (Key& key : loaded) {
    auto account = std::make_shared<Account>(key);
    for (const Entry& before : *keys_)
      if (before.key->name == key.name) account = before.account;
    account->Set(key);
    keys->push_back({std::make_shared<const Key>(std::move(key)), std::move(account)});
  }
  LogInfo("{}: {} keys", path_, keys->size());
  keys_ = std::move(keys);
  return absl::OkStatus();
}

std::shared_ptr<const Guard::Keys> Guard::keys() const {
  MutexLock lock(mutex_);
  return keys_;
}

absl::StatusOr<Caller> Guard::Admit(absl::string_view authorization) const {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return NoKey();
  authorization.remove_prefix(kScheme.size());
  const std::string hash = Sha256Hex(absl::StripAsciiWhitespace(authorization));
  Entry found;
  // To the end, wherever it is found.
  const std::shared_ptr<const Keys> now = keys();
  for (const Entry& entry : *now)
    if (EqualInConstantTime(entry.key->sha256, hash)) found = entry;
  if (found.key == nullptr) return NoKey();
  return Caller(std::move(found.key), std::move(found.account));
}

absl::Status Guard::CheckStill(const Caller& caller) const {
  if (caller.key() == nullptr) return NoKey();
  const std::shared_ptr<const Keys> now = keys();
  const bool there = std::any_of(now->begin(), now->end(), [&](const Entry& entry) {
    Key key = *entry.key;
    key.quota = caller.key()->quota;
    return key == *caller.key();
  });
  if (there) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("key '", caller.name(), "' is revoked, or has changed"));
}

}  // namespace recollect::access
