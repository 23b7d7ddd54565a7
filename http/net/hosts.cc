#include "http/net/hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "http/net/authorize.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

constexpr size_t kMaxNameBytes = 253;  // of DNS
constexpr size_t kMaxShownBytes = 100;

std::string ShownHeader(absl::string_view value) {
  return model::Shortened(model::EscapeInvisible(value), kMaxShownBytes);
}

// The name of "NAME:PORT" in lower case, without brackets and without the dot at the end of a full
// name.
std::string NameOf(absl::string_view authority) {
  absl::string_view name = authority;
  if (absl::StartsWith(name, "[")) {
    name = name.substr(1, std::min(name.find(']'), name.size()) - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  absl::ConsumeSuffix(&name, ".");
  return absl::AsciiStrToLower(name);
}

bool IsAddress(const std::string& name) {
  in6_addr address;  // room for either
  return inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

// A browser takes localhost for its own machine without asking anybody.
bool IsLocalhost(absl::string_view name) {
  return name == "localhost" || absl::EndsWith(name, ".localhost");
}

bool IsHostName(absl::string_view name) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), fits);
}

std::string HowToAllow(const std::string& name) {
  return absl::StrCat("start it with --http-hosts ", IsHostName(name) ? name : "NAME",
                      " to allow that name, or with --keys");
}

}  // namespace

absl::StatusOr<Hosts> Hosts::Create(const std::string& listen,
                                    const std::vector<std::string>& names, bool check_host,
                                    Cors cors) {
  Hosts hosts;
  hosts.cors_ = std::move(cors);
  hosts.check_host_ = check_host;
  hosts.listen_name_ = NameOf(listen);
  for (const std::string& name : names) {
    if (!IsHostName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--http-hosts: '", ShownHeader(name),
          "', expected a host name without scheme and port, such as docs.example.org"));
    }
    hosts.names_.insert(NameOf(name));
  }
  return hosts;
}

absl::Status Hosts::CheckHost(absl::string_view host) const {
  if (!check_host_ || host.empty()) return absl::OkStatus();
  const std::string name = NameOf(host);
  if (IsAddress(name) || IsLocalhost(name) || name == listen_name_ || names_.count(name) > 0)
    return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "Host: '", ShownHeader(host),
      "' is no name of this server, which asks for no keys and therefore answers only to IP "
      "addresses, localhost and its names: ",
      HowToAllow(name)));
}

absl::Status Hosts::CheckOrigin(absl::string_view origin, absl::string_view host) const {
  if (origin.empty() || cors_.Allows(origin)) return absl::OkStatus();
  // "null" has no host: a page in a sandbox, or from a file.
  const size_t scheme = origin.find("://");
  const absl::string_view authority =
      scheme == absl::string_view::npos ? absl::string_view() : origin.substr(scheme + 3);
  if (!authority.empty() && absl::EqualsIgnoreCase(authority, host)) return absl::OkStatus();
  const std::string name = NameOf(authority);
  if (names_.count(name) > 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("Origin: '", ShownHeader(origin), "' is a page of another site than '",
                   ShownHeader(host), "', and this server asks for no keys: ", HowToAllow(name)));
}

absl::StatusOr<access::Caller> Hosts::Admit(const Request& request) const {
  if (IsHealth(request)) return access::Caller::Anybody();
  const absl::string_view host = HeaderOf(request, "host").value_or("");
  RETURN_IF_ERROR(CheckHost(host));
  RETURN_IF_ERROR(CheckOrigin(HeaderOf(request, "origin").value_or(""), host));
  return access::Caller::Anybody();
}

}  // namespace recollect::http
