#include "access/key.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/status.h"

namespace recollect::access {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameBytes = 64, kHashDigits = 64, kMaxPrefixBytes = 256;
constexpr size_t kSecretBytes = 32;

std::string Quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Takes a string out of `object`. An absent one stays empty.
absl::Status Take(json& object, const char* name, std::string& out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", found->type_name(), ", expected a string"));
  }
  out = found->get<std::string>();
  object.erase(found);
  if (!out.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": empty"));
}

// Takes a bound out of `object`. An absent one stays 0, which is not written: nobody should take it
// for "nothing is allowed".
absl::Status Take(json& object, const QuotaField& field, Quota& out) {
  const auto found = object.find(field.name);
  if (found == object.end()) return absl::OkStatus();
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (!found->is_number_unsigned() || found->get<uint64_t>() == 0 ||
      found->get<uint64_t>() > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ": ", found->dump(-1, ' ', false, json::error_handler_t::replace),
                     ", expected a whole number from 1 on"));
  }
  out.*field.value = found->get<int64_t>();
  object.erase(found);
  return absl::OkStatus();
}

absl::Status CheckName(const std::string& name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= kMaxNameBytes &&
      std::all_of(name.begin(), name.end(), allowed))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("name: '", name, "', expected 1 to ", kMaxNameBytes,
                   " letters, digits, dots, underscores and hyphens"));
}

absl::Status CheckHash(const std::string& hash) {
  const auto digit = [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  };
  if (hash.size() == kHashDigits && std::all_of(hash.begin(), hash.end(), digit))
    return absl::OkStatus();
  // Not quoted: somebody may have put the key itself there, and this goes to the log.
  return absl::InvalidArgumentError(absl::StrCat("sha256: ", hash.size(), " characters, expected ",
                                                 kHashDigits, " lower-case hexadecimal digits"));
}

}  // namespace

const char* NameOf(Right right) { return right == Right::kFull ? "full" : "read"; }

std::string EncodeKey(const Key& key) {
  // In this order, whatever the library's is.
  std::string line = absl::StrCat(R"({"name": )", Quoted(key.name), R"(, "sha256": )",
                                  Quoted(key.sha256), R"(, "right": ")", NameOf(key.right), "\"");
  if (!key.prefix.empty()) absl::StrAppend(&line, R"(, "prefix": )", Quoted(key.prefix));
  for (const QuotaField& field : kQuotaFields)
    if (key.quota.*field.value > 0)
      absl::StrAppend(&line, ", \"", field.name, "\": ", key.quota.*field.value);
  return line + "}";
}

absl::StatusOr<Key> DecodeKey(absl::string_view line) {
  absl::StatusOr<json> parsed = ParseJson(line);
  // Of the line nothing is said: it may hold what should be secret.
  if (!parsed.ok() || !parsed->is_object()) return absl::InvalidArgumentError("not a JSON object");
  json& object = *parsed;
  Key key;
  std::string right;
  RETURN_IF_ERROR(Take(object, "name", key.name));
  RETURN_IF_ERROR(Take(object, "sha256", key.sha256));
  RETURN_IF_ERROR(Take(object, "right", right));
  RETURN_IF_ERROR(Take(object, "prefix", key.prefix));
  for (const QuotaField& field : kQuotaFields) RETURN_IF_ERROR(Take(object, field, key.quota));
  // What is not understood may be a limit that somebody relies on.
  if (!object.empty())
    return absl::InvalidArgumentError(absl::StrCat(object.begin().key(), ": unknown field"));
  RETURN_IF_ERROR(CheckName(key.name));
  RETURN_IF_ERROR(CheckHash(key.sha256));
  if (right != "read" && right != "full")
    return absl::InvalidArgumentError(
        absl::StrCat("right: '", right, "', expected 'read' or 'full'"));
  key.right = right == "full" ? Right::kFull : Right::kRead;
  if (key.prefix.size() > kMaxPrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefix: ", key.prefix.size(), " bytes, expected up to ", kMaxPrefixBytes));
  }
  return key;
}

std::string NewSecret() {
  std::array<char, kSecretBytes> bytes;
  for (size_t filled = 0; filled < bytes.size();) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    RECOLLECT_CHECK(got >= 0 || errno == EINTR);  // there is no other error of such a call
    if (got > 0) filled += static_cast<size_t>(got);
  }
  std::string text;
  absl::WebSafeBase64Escape({bytes.data(), bytes.size()}, &text);
  while (!text.empty() && text.back() == '=') text.pop_back();
  return "rk_" + text;
}

}  // namespace recollect::access
