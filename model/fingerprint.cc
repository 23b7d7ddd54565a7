#include "model/fingerprint.h"

#include <openssl/evp.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/file.h"
#include "base/status.h"

namespace recollect::model {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    good_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void Update(const void* data, size_t size) {
    good_ = good_ && EVP_DigestUpdate(context_.get(), data, size) == 1;
  }
  absl::StatusOr<std::string> Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    good_ = good_ && EVP_DigestFinal_ex(context_.get(), digest, &size) == 1;
    if (!good_) return absl::InternalError("SHA-256 is not available");
    return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
  bool good_ = false;
};

absl::StatusOr<std::string> HashFile(const std::string& path) {
  absl::StatusOr<OpenFile> opened = OpenToRead(path);
  if (absl::IsNotFound(opened.status())) return std::string("absent");
  ASSIGN_OR_RETURN(const OpenFile file, std::move(opened));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    hash.Update(buffer.data(), size);
  }
  if (std::ferror(file.get()) != 0)
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  return hash.Hex();
}

}  // namespace

absl::StatusOr<FileDigests> HashModelFiles(const std::string& directory) {
  FileDigests files;
  ASSIGN_OR_RETURN(files.config, HashFile(directory + "/config.json"));
  ASSIGN_OR_RETURN(files.weights, HashFile(directory + "/model.safetensors"));
  ASSIGN_OR_RETURN(files.tokenizer, HashFile(directory + "/tokenizer.model"));
  return files;
}

absl::StatusOr<std::string> ComputeFingerprint(const FileDigests& files,
                                               const LocalPatterns& patterns, DType dtype) {
  // The digest of each file enters the whole, so that no two lists of files read as the same bytes.
  std::string text = absl::StrCat(files.config, "\n", files.weights, "\n", files.tokenizer, "\n");
  for (const HeadPatterns& heads : patterns.layers()) {
    for (const LocalPattern& pattern : heads) {
      absl::StrAppend(&text, pattern.window, " ", pattern.dilation, " ", pattern.initial, " ",
                      pattern.span, "\n");
    }
  }
  absl::StrAppend(&text, kRecordLayoutVersion, "\n", dtype == DType::kBf16 ? "bf16" : "fp32");
  Sha256 hash;
  hash.Update(text.data(), text.size());
  return hash.Hex();
}

}  // namespace recollect::model
