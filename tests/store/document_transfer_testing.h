// The fixture of the tests that carry documents from store to store as files.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"
#include "store/document_transfer.h"
#include "tests/store/document_store_testing.h"

namespace recollect::store {

inline constexpr int64_t kWidth = 8, kKeyWidth = 4, kVocabulary = 4096;
inline constexpr char kPattern[] = "(window 8, dilation 4)";

inline ImportRules Rules(bool pointer = false) {
  return {.fingerprint = "fingerprint",
          .width = kWidth,
          .key_width = kKeyWidth,
          .vocab_size = kVocabulary,
          .chunk_tokens = 63,
          .pointer = pointer};
}

class DocumentTransferTest : public DocumentStoreTest {
 protected:
  // Publishes a document that the rules accept.
  Content Publish(const std::string& id, int64_t chunks, int64_t tokens, int64_t bytes,
                  bool pointer = false) {
    Content content{.seed = 7};
    IngestBatch batch = NextBatch(content, chunks, tokens, bytes);
    for (ChunkRecord& chunk : batch.chunks) {
      chunk.tokens.assign(pointer ? static_cast<size_t>(chunk.rows) : 0, 17);
    }
    for (int32_t& token : batch.tokens) token = (token & 0x7fffffff) % kVocabulary;
    const auto progress = store_->BeginIngest(id, "fingerprint", false, "");
    EXPECT_THAT(progress, IsOk());
    EXPECT_THAT(store_->PublishIngest(progress->owner, batch), IsOk());
    Append(&content, batch);
    return content;
  }
  void PublishPrefix(const std::string& id, const std::string& state) {
    const auto progress = store_->BeginIngest(id, "fingerprint", true, kPattern);
    ASSERT_THAT(progress, IsOk());
    IngestBatch batch;
    batch.tokens = {1, 2, 3};
    batch.text = "abc";
    batch.state_bytes = std::ssize(state);
    for (int64_t i = 0; i * kStatePartBytes < std::ssize(state); ++i) {
      ASSERT_THAT(store_->PutStatePart(
                      progress->owner, i,
                      state.substr(static_cast<size_t>(i * kStatePartBytes), kStatePartBytes)),
                  IsOk());
    }
    ASSERT_THAT(store_->PublishIngest(progress->owner, batch), IsOk());
  }

  std::string File(const std::string& id) {
    const auto info = store_->Get(id);
    EXPECT_THAT(info, IsOk());
    DocumentExport out(*store_, *info, kKeyWidth);
    std::string file;
    while (true) {
      const auto bytes = out.Next();
      EXPECT_THAT(bytes, IsOk());
      if (!bytes.ok() || bytes->empty()) return file;
      file += *bytes;
    }
  }
  static absl::StatusOr<DocumentInfo> Import(DocumentStore& store, const std::string& file,
                                             const std::string& id = "",
                                             const ImportRules& rules = Rules(),
                                             size_t at_once = 1 << 20) {
    DocumentImport in(store, rules, id, [](const DocumentInfo&) { return absl::OkStatus(); });
    for (size_t at = 0; at < file.size(); at += at_once) {
      RETURN_IF_ERROR(in.Append(absl::string_view(file).substr(at, at_once)));
    }
    return in.Finish();
  }
  void ExpectNothing(DocumentStore& store) {
    EXPECT_TRUE(store.List("", 10)->empty());
    EXPECT_TRUE(store.ListIngests()->empty());
  }
  // Another store of the kind.
  std::unique_ptr<DocumentStore> Other() { return GetParam().open(other_.path()); }

  TempDir other_;
};

}  // namespace recollect::store
