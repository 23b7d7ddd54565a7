#include "base/sha256.h"

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"

namespace recollect {

// The EVP calls fail only for lack of memory or of the algorithm itself: nothing a caller can mend.
struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    RECOLLECT_CHECK(context != nullptr);
    RECOLLECT_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~State() { EVP_MD_CTX_free(context); }
  EVP_MD_CTX* const context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  RECOLLECT_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  RECOLLECT_CHECK(EVP_DigestFinal_ex(state_->context, digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Hex();
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace recollect
