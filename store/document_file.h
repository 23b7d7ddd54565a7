// Encodes and decodes a document in a file of its own, to be carried to another data directory.
// Works on the file's bytes; touches no disk. Byte table: docs/formats.md.
//
//   file:   8 bytes "RECOLDOC", version u32, zero u32, then frames
//   frame:  size u32, then a record of that size (store/record.h), whose key is the number of the
//           frame, so that a frame that is moved, doubled or missing counts as damaged
//
// The first record is the head, the last the end with the SHA-256 of all bytes before its frame.
// Records between them are those of store/format.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "store/document_store.h"
#include "store/format.h"

namespace recollect::store {

// The newest version, of documents with metadata; files of all others are of version 1.
inline constexpr uint32_t kDocumentFileVersion = 2;
// The largest size of a frame; a larger frame is damage, since no writer makes it.
inline constexpr int64_t kMaxFrameBytes = int64_t{16} << 20;
// The number of chunks that follow a record of their landmark keys; fewer after the last one.
inline constexpr int64_t kFileGroupChunks = 64;

// The head of a file: all of `document` except owner, stored_bytes and first_state_part.
struct FileHead {
  DocumentInfo document;
  int64_t key_width = 0;  // of landmark keys; 0: a prefix, or a document that is kept as text
};

std::string EncodeFileHead(Bytes key, const FileHead& head);
absl::StatusOr<FileHead> DecodeFileHead(Bytes key, Bytes record, Bytes what);

// Writes the file's bytes, in order. Not thread-safe, like the reader.
class FrameWriter {
 public:
  // Begins the file of this document.
  explicit FrameWriter(const DocumentInfo& document);
  // Returns the key of the next record.
  std::string NextKey() const;
  // Adds a record under NextKey().
  void Add(Bytes record);
  // Adds the last record.
  void AddEnd();
  // Returns the bytes that were added since the last call.
  std::string Take();
  int64_t pending() const { return static_cast<int64_t>(out_.size()); }

 private:
  void Append(Bytes bytes);

  std::string out_;
  Sha256 hash_;
  int64_t frames_ = 0;
};

struct Frame {
  std::string name;  // "record 17 of the document file", for messages
  std::string key;
  RecordType type{};
  std::string record;  // not checked yet, but for its size and the end
};

// Takes the file's bytes as they come, in pieces of any size.
class FrameReader {
 public:
  void Append(Bytes bytes);
  // Returns the next frame, in order, if all of it has come; the end is not handed out.
  // INVALID_ARGUMENT: no document file; FAILED_PRECONDITION: a file of a newer version; DATA_LOSS:
  // a damaged file, or bytes behind the end.
  absl::StatusOr<std::optional<Frame>> Next();
  // Returns DATA_LOSS, which names the bytes and records read, unless the end has been read.
  // INVALID_ARGUMENT: the file is empty.
  absl::Status Finish() const;

 private:
  absl::Status ReadStart();
  absl::Status ReadEnd(const Frame& frame);
  Bytes rest() const { return Bytes(buffer_).substr(at_); }
  void Skip(size_t n) { at_ += n; }

  std::string buffer_;  // its part from `at_` is not read yet
  size_t at_ = 0;
  Sha256 hash_;
  int64_t bytes_ = 0;  // taken
  int64_t frames_ = 0;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace recollect::store
