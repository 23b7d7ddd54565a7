#include "model/weights/fingerprint.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "base/io/file.h"
#include "base/sha256.h"
#include "base/status.h"
#include "model/config/adapter_config.h"

namespace recollect::model {
namespace {

absl::StatusOr<std::string> HashFile(const std::string& path) {
  absl::StatusOr<OpenFile> opened = OpenToRead(path);
  if (absl::IsNotFound(opened.status())) return std::string("absent");
  ASSIGN_OR_RETURN(const OpenFile file, std::move(opened));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    hash.Update({buffer.data(), size});
  }
  if (std::ferror(file.get()) != 0)
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  return hash.Hex();
}

}  // namespace

absl::StatusOr<FileDigests> HashModelFiles(const ModelFiles& files) {
  FileDigests digests{.config = "gguf", .weights = "", .tokenizer = "gguf", .adapter = ""};
  ASSIGN_OR_RETURN(const std::vector<std::string> weights, WeightPaths(files));
  for (const std::string& path : weights) {
    ASSIGN_OR_RETURN(const std::string digest, HashFile(path));
    absl::StrAppend(&digests.weights, digests.weights.empty() ? "" : " ", digest);
  }
  if (files.has_adapter()) {
    ASSIGN_OR_RETURN(const std::string config, ReadWholeFile(files.adapter_config));
    ASSIGN_OR_RETURN(const std::string tensors, HashFile(files.adapter_weights));
    digests.adapter = absl::StrCat(Sha256Hex(WithoutQueryKeys(config)), " ", tensors);
  }
  if (files.layout == ModelLayout::kGguf) return digests;
  ASSIGN_OR_RETURN(digests.config, HashFile(files.config));
  ASSIGN_OR_RETURN(digests.tokenizer, HashFile(files.tokenizer));
  return digests;
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
  if (!files.adapter.empty()) absl::StrAppend(&text, files.adapter, "\n");
  absl::StrAppend(&text, kRecordLayoutVersion, "\n", DTypeName(dtype));
  Sha256 hash;
  hash.Update(text);
  return hash.Hex();
}

}  // namespace recollect::model
