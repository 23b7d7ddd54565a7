#include "access/certificate.h"

#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "access/private_file.h"
#include "base/io/file.h"
#include "base/io/log.h"
#include "base/status.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"

namespace recollect::access {
namespace {

template <auto kFree>
struct Free {
  void operator()(auto* object) const { kFree(object); }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

constexpr absl::Duration kExpiresSoon = absl::Hours(14 * 24);

// As ALPN writes them, with their length before them.
constexpr absl::string_view kHttp1 = "\x08http/1.1", kHttp2 = "\x02h2";

absl::Status Refused(const std::string& file, absl::string_view why) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", why));
}

Bio BioOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Of a key with a password: OpenSSL would ask at the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

absl::StatusOr<std::vector<X509Ptr>> ReadChain(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(file));
  const Bio bio = BioOf(text);
  std::vector<X509Ptr> chain;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr))
    chain.emplace_back(next);
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (chain.empty() && ended) return Refused(file, "no certificate in it (PEM)");
  if (!ended) return Refused(file, absl::StrCat("certificate ", chain.size() + 1, " is damaged"));
  ERR_clear_error();
  return chain;
}

absl::StatusOr<PrivateKey> ReadKey(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(file));
  PrivateKey key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return Refused(file, "no private key in it (PEM, without a password)");
  return key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::Status CheckDates(const std::string& file, const X509& certificate) {
  const absl::Time now = absl::Now();
  const absl::Time begin = TimeOf(X509_get0_notBefore(&certificate));
  const absl::Time end = TimeOf(X509_get0_notAfter(&certificate));
  const auto text = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
  };
  if (now >= end)
    return absl::FailedPreconditionError(absl::StrCat(file, ": expired on ", text(end)));
  if (now < begin) {
    return absl::FailedPreconditionError(
        absl::StrCat(file, ": not valid before ", text(begin), ", now it is ", text(now)));
  }
  if (end - now < kExpiresSoon) LogWarning("{}: expires on {}", file, text(end));
  return absl::OkStatus();
}

int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void* ours) {
  const absl::string_view protocol = static_cast<const char*>(ours);
  unsigned char* found = nullptr;
  const int result = SSL_select_next_proto(
      &found, chosen_size, reinterpret_cast<const unsigned char*>(protocol.data()),
      static_cast<unsigned int>(protocol.size()), offered, offered_size);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Certificate::Context MakeContext(const std::vector<X509Ptr>& chain, const PrivateKey& key,
                                 absl::string_view protocol) {
  Certificate::Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_use_certificate(context.get(), chain.front().get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1)
    return nullptr;
  for (size_t i = 1; i < chain.size(); ++i)
    if (SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) != 1) return nullptr;
  // Idle connections keep no buffers; what was read of a buffer may be sent on in another one.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, const_cast<char*>(protocol.data()));
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Certificate>> Certificate::Open(const std::string& certificate_file,
                                                               const std::string& key_file) {
  auto certificate = std::unique_ptr<Certificate>(new Certificate(certificate_file, key_file));
  RETURN_IF_ERROR(certificate->Reload());
  return certificate;
}

absl::Status Certificate::Reload() {
  ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain, ReadChain(certificate_file_));
  ASSIGN_OR_RETURN(const PrivateKey key, ReadKey(key_file_));
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    return Refused(key_file_,
                   absl::StrCat("not the key of the first certificate in ", certificate_file_));
  }
  RETURN_IF_ERROR(CheckDates(certificate_file_, *chain.front()));
  Context http1 = MakeContext(chain, key, kHttp1), http2 = MakeContext(chain, key, kHttp2);
  if (http1 == nullptr || http2 == nullptr) {
    char why[256];
    ERR_error_string_n(ERR_get_error(), why, sizeof(why));
    return Refused(certificate_file_, why);
  }
  LogInfo("{}: certificate is read", certificate_file_);
  MutexLock lock(mutex_);
  http1_ = std::move(http1);
  http2_ = std::move(http2);
  return absl::OkStatus();
}

Certificate::Context Certificate::context(Protocol protocol) const {
  MutexLock lock(mutex_);
  return protocol == Protocol::kHttp2 ? http2_ : http1_;
}

}  // namespace recollect::access
