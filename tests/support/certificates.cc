#include "tests/support/certificates.h"

#include <atomic>
#include <memory>

#include "base/check.h"
#include "openssl/ec.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"

namespace recollect {
namespace {

std::string TextOf(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

}  // namespace

TestCertificate MakeCertificate(absl::Duration begin, absl::Duration end,
                                const std::string& password) {
  static std::atomic<long> serial{1};
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  RECOLLECT_CHECK(key != nullptr && made != nullptr);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial.fetch_add(1));
  X509_gmtime_adj(X509_getm_notBefore(made.get()), absl::ToInt64Seconds(begin));
  X509_gmtime_adj(X509_getm_notAfter(made.get()), absl::ToInt64Seconds(end));
  X509_NAME* name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("recollect test"), -1, -1, 0);
  X509_set_issuer_name(made.get(), name);
  X509_set_pubkey(made.get(), key.get());
  X509V3_CTX context;
  X509V3_set_ctx(&context, made.get(), made.get(), nullptr, nullptr, 0);
  const auto extend = [&](int kind, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
    RECOLLECT_CHECK(extension != nullptr);
    X509_add_ext(made.get(), extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, "critical,CA:TRUE");
  extend(NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  RECOLLECT_CHECK(X509_sign(made.get(), key.get(), EVP_sha256()) > 0);

  BIO* certificate_text = BIO_new(BIO_s_mem());
  BIO* key_text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_text, made.get());
  PEM_write_bio_PrivateKey(
      key_text, key.get(), password.empty() ? nullptr : EVP_aes_128_cbc(),
      reinterpret_cast<const unsigned char*>(password.empty() ? nullptr : password.data()),
      static_cast<int>(password.size()), nullptr, nullptr);
  return {TextOf(certificate_text), TextOf(key_text)};
}

}  // namespace recollect
