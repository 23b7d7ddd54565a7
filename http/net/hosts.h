// Which web pages may send requests to a server that asks for no keys: for
// ServerOptions::authorize.
//
//   ASSIGN_OR_RETURN(const Hosts hosts, Hosts::Create(listen, names, /*check_host=*/true));
//   options.authorize = [&](const Request& request) { return hosts.Admit(request); };
//
// Without keys a listener on the machine's own address is protected by that address alone, and a
// browser on that machine reaches it too, for any page that it shows. A page can do so in two ways:
// it sends a request to the listener's address, which the browser marks with the page's site
// (Origin); or the page's own name is made to mean 127.0.0.1 (DNS rebinding), so that the browser
// takes the listener for the page's own server, and sends the page's name (Host). Both headers are
// the browser's: a page cannot change them. Programs can, and are not what this is for.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "access/caller.h"
#include "http/net/cors.h"
#include "http/net/exchange.h"

namespace recollect::http {

// Thread-safe; borrows nothing.
class Hosts {
 public:
  // `listen`: HOST:PORT of the listener; `names`: further ones (--http-hosts). `check_host` false:
  // any Host will do. INVALID_ARGUMENT: not a host name, such as one with a port.
  static absl::StatusOr<Hosts> Create(const std::string& listen,
                                      const std::vector<std::string>& names, bool check_host,
                                      Cors cors = {});

  // Anybody, unless PERMISSION_DENIED, naming the header and what would allow it:
  // - Host is neither an IP address, nor localhost or a name that ends with .localhost, nor the
  // name
  //   in `listen`, nor one of the names. A request without Host comes from no browser.
  // - Origin is there and neither the same as Host nor one of the names nor one that `cors` allows.
  // What tells of the server's health is open to all.
  absl::StatusOr<access::Caller> Admit(const Request& request) const;

 private:
  absl::Status CheckHost(absl::string_view host) const;
  absl::Status CheckOrigin(absl::string_view origin, absl::string_view host) const;

  std::string listen_name_;
  std::set<std::string> names_;  // in lower case, like the one above
  bool check_host_ = true;
  Cors cors_;
};

}  // namespace recollect::http
