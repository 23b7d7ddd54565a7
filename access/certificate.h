// The certificate chain of a server and its private key, as TLS needs them.
//
//   ASSIGN_OR_RETURN(auto certificate, Certificate::Open("server.crt", "server.key"));
//   SSL* connection = SSL_new(certificate->context(Protocol::kHttp2).get());
//   … on SIGHUP: certificate->Reload()
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace recollect::access {

// The protocol within TLS. A client that sends an ALPN list without it is refused.
enum class Protocol { kHttp1, kHttp2 };

// Thread-safe.
class Certificate {
 public:
  using Context = std::shared_ptr<ssl_ctx_st>;

  // Reads two PEM files: the certificate chain, the server's certificate first, and a private key
  // without a password. NOT_FOUND or INVALID_ARGUMENT naming the file: it has no certificate or
  // key, or the key of another certificate; FAILED_PRECONDITION naming the day: expired, or not
  // valid yet.
  static absl::StatusOr<std::unique_ptr<Certificate>> Open(const std::string& certificate_file,
                                                           const std::string& key_file);

  // Reads both files again, for connections that begin afterwards. On an error, as from Open,
  // nothing changes.
  absl::Status Reload();

  // The context for the server's side of new connections; TLS 1.2 or 1.3.
  Context context(Protocol protocol) const;

 private:
  Certificate(std::string certificate_file, std::string key_file)
      : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}

  const std::string certificate_file_, key_file_;
  mutable Mutex mutex_;
  Context http1_ ABSL_GUARDED_BY(mutex_), http2_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::access
