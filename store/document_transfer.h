// Exports documents to files of their own (store/document_file.h) and imports them, a piece at a
// time: memory use does not grow with the document.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "store/document_file.h"
#include "store/document_store.h"

namespace recollect::store {

// Not thread-safe. Borrows the store, in which the document must stay readable.
class DocumentExport {
 public:
  // `key_width`: of the document's landmark keys; used only where it has chunk states.
  DocumentExport(DocumentReader& store, DocumentInfo document, int64_t key_width);

  // Returns the next bytes of the file, 1 MiB or somewhat more; empty behind its end. DATA_LOSS
  // names the record.
  absl::StatusOr<std::string> Next();
  const DocumentInfo& document() const { return head_.document; }

 private:
  absl::Status AddNext();
  absl::Status AddGroup();

  DocumentReader& store_;
  FileHead head_;
  FrameWriter writer_;
  bool begun_ = false, ended_ = false;
  // The amounts of each kind that have been written.
  int64_t bytes_ = 0, tokens_ = 0, chunks_ = 0, state_bytes_ = 0;
};

// The demands that a model makes on a document to be imported for it.
struct ImportRules {
  std::string fingerprint;
  int64_t width = 0;         // of chunk states; 0: chunks have none
  int64_t key_width = 0;     // of landmark keys
  int64_t vocab_size = 0;    // token ids are below it
  int64_t chunk_tokens = 0;  // rows of a chunk at most
  DocumentKind kind = DocumentKind::kChunks;
  bool pointer = false;  // chunks have their tokens
  // Returns, for a document that was ingested as text, the offset of the first byte that is not
  // part of valid UTF-8, or -1; a character that the end cuts is valid only if `allow_partial_end`.
  int64_t (*find_invalid_utf8)(std::string_view text, bool allow_partial_end) = nullptr;
};

// Not thread-safe. Borrows the store. The destructor removes what was written unless Finish was OK.
class DocumentImport {
 public:
  // `id`: the document's new name; empty: the name in the file. `begin` is called before anything
  // is written, with the document as the file's head describes it, under its new name; its error
  // ends the import. A document that turns out to be larger than its head says is refused.
  DocumentImport(IngestWriter& store, ImportRules rules, std::string id,
                 std::function<absl::Status(const DocumentInfo& document)> begin);
  ~DocumentImport();
  DocumentImport(const DocumentImport&) = delete;
  DocumentImport& operator=(const DocumentImport&) = delete;

  // Takes the next bytes of the file, in pieces of any size. FAILED_PRECONDITION: a document of
  // another model (names both fingerprints), or a file of a newer version; ALREADY_EXISTS: the id;
  // INVALID_ARGUMENT: not a document file, or text that is not UTF-8; DATA_LOSS: a damaged file, or
  // a document of another kind or with records that do not fit `rules`. After an error only the
  // destructor may be called.
  absl::Status Append(absl::string_view bytes);
  // Publishes the document. DATA_LOSS: the file was cut, or its parts do not make up what its head
  // says; INVALID_ARGUMENT: the file is empty.
  absl::StatusOr<DocumentInfo> Finish();

 private:
  absl::Status Take(const Frame& frame);
  absl::Status TakeHead(const Frame& frame);
  absl::Status TakeText(const Frame& frame);
  absl::Status TakeTokens(const Frame& frame);
  absl::Status TakeKeys(const Frame& frame);
  absl::Status TakeChunk(const Frame& frame);
  absl::Status TakeState(const Frame& frame);
  absl::Status CheckTokens(const Frame& frame, const std::vector<int32_t>& tokens) const;
  // Checks the counts against the head: at most what it says, or, if `whole`, all of it.
  absl::Status CheckCounts(bool whole) const;
  absl::Status CommitIfLarge();

  IngestWriter& store_;
  const ImportRules rules_;
  std::string id_;
  const std::function<absl::Status(const DocumentInfo&)> begin_;
  FrameReader reader_;
  std::optional<FileHead> head_;
  std::optional<OwnerId> owner_;  // of what is written and not published
  IngestBatch batch_;             // not committed yet
  int64_t batch_bytes_ = 0;
  int64_t group_chunks_ = 0;   // still to come, whose keys have come
  Sha256 hash_;                // of the text
  std::string cut_character_;  // the last bytes of the text so far, whose character is not whole
  int64_t bytes_ = 0, tokens_ = 0, chunks_ = 0, state_parts_ = 0, state_bytes_ = 0;
};

}  // namespace recollect::store
