#include "store/document_transfer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/record.h"
#include "store/store_errors.h"

namespace recollect::store {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;   // of the file, handed out at a time
constexpr int64_t kCommitBytes = int64_t{4} << 20;  // of an import

const char* KindName(DocumentKind kind) {
  constexpr const char* kNames[] = {"chunks", "a prefix", "text"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

DocumentExport::DocumentExport(DocumentReader& store, DocumentInfo document, int64_t key_width)
    : store_(store), writer_(document) {
  head_.key_width = document.kind() == DocumentKind::kChunks ? key_width : 0;
  head_.document = std::move(document);
}

absl::StatusOr<std::string> DocumentExport::Next() {
  while (writer_.pending() < kPieceBytes && !ended_) RETURN_IF_ERROR(AddNext());
  return writer_.Take();
}

// The next record, or the next chunks with their keys.
absl::Status DocumentExport::AddNext() {
  const DocumentInfo& document = head_.document;
  const std::string key = writer_.NextKey();
  if (!begun_) {
    writer_.Add(EncodeFileHead(key, head_));
    begun_ = true;
  } else if (bytes_ < document.bytes) {
    const int64_t end = std::min(bytes_ + kTextPieceBytes, document.bytes);
    ASSIGN_OR_RETURN(const std::string text, store_.ReadText(document.owner, bytes_, end));
    writer_.Add(EncodeText(key, text));
    bytes_ = end;
  } else if (tokens_ < document.tokens) {
    const int64_t end = std::min(tokens_ + kTokenPieceCount, document.tokens);
    ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                     store_.ReadTokens(document.owner, tokens_, end));
    writer_.Add(EncodeTokens(key, tokens));
    tokens_ = end;
  } else if (chunks_ < document.chunks) {
    return AddGroup();
  } else if (state_bytes_ < document.state_bytes) {
    ASSIGN_OR_RETURN(const std::string part,
                     store_.ReadStatePart(document.owner, state_bytes_ / kStatePartBytes));
    writer_.Add(EncodeState(key, part));
    state_bytes_ += static_cast<int64_t>(part.size());
  } else {
    writer_.AddEnd();
    ended_ = true;
  }
  return absl::OkStatus();
}

absl::Status DocumentExport::AddGroup() {
  const DocumentInfo& document = head_.document;
  const int64_t end = std::min(chunks_ + kFileGroupChunks, document.chunks);
  if (head_.key_width > 0) {
    ASSIGN_OR_RETURN(const std::vector<Bf16> keys,
                     store_.ReadLandmarkKeyRange(document.owner, chunks_, end, head_.key_width));
    writer_.Add(EncodeLandmarks(writer_.NextKey(), keys, head_.key_width));
  }
  std::vector<ChunkRef> refs;
  for (; chunks_ < end; ++chunks_) refs.push_back({document.owner, chunks_});
  for (const absl::StatusOr<ChunkRecord>& chunk : store_.ReadChunks(refs)) {
    RETURN_IF_ERROR(chunk.status());
    writer_.Add(EncodeChunk(writer_.NextKey(), *chunk));
  }
  return absl::OkStatus();
}

DocumentImport::DocumentImport(IngestWriter& store, ImportRules rules, std::string id,
                               std::function<absl::Status(const DocumentInfo&)> begin)
    : store_(store), rules_(std::move(rules)), id_(std::move(id)), begin_(std::move(begin)) {}

DocumentImport::~DocumentImport() {
  if (!owner_.has_value()) return;
  // What is left the next open frees.
  LogIfFailed(Annotate(store_.AbandonImport(*owner_), absl::StrCat("import of '", id_, "'")));
}

absl::Status DocumentImport::Append(absl::string_view bytes) {
  reader_.Append(bytes);
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Frame> frame, reader_.Next());
    if (!frame.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(Take(*frame));
  }
}

absl::Status DocumentImport::Take(const Frame& frame) {
  if (!head_.has_value()) return TakeHead(frame);
  // What is not committed yet has to stay small, whatever the file is: keys are committed with
  // their chunks, and a state is the last thing.
  if ((group_chunks_ != 0 && frame.type != RecordType::kChunk) ||
      (state_parts_ != 0 && frame.type != RecordType::kState)) {
    return Damaged(frame.name, absl::StrCat("a record of type ", static_cast<int>(frame.type),
                                            " in the middle of chunks or of a state"));
  }
  constexpr std::pair<RecordType, absl::Status (DocumentImport::*)(const Frame&)> kParts[] = {
      {RecordType::kText, &DocumentImport::TakeText},
      {RecordType::kTokens, &DocumentImport::TakeTokens},
      {RecordType::kLandmarks, &DocumentImport::TakeKeys},
      {RecordType::kChunk, &DocumentImport::TakeChunk},
      {RecordType::kState, &DocumentImport::TakeState},
  };
  for (const auto& [type, take] : kParts) {
    if (type != frame.type) continue;
    RETURN_IF_ERROR((this->*take)(frame));
    return CheckCounts(/*whole=*/false);
  }
  return Damaged(frame.name, absl::StrCat("a record of type ", static_cast<int>(frame.type),
                                          " has no place in a document"));
}

absl::Status DocumentImport::TakeHead(const Frame& frame) {
  ASSIGN_OR_RETURN(FileHead head, DecodeFileHead(frame.key, frame.record, frame.name));
  DocumentInfo& document = head.document;
  if (document.fingerprint != rules_.fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the file's document \"", absl::Utf8SafeCHexEscape(document.id),
        "\" was read by a model with fingerprint ", absl::Utf8SafeCHexEscape(document.fingerprint),
        "; this model has ", rules_.fingerprint));
  }
  const bool keyed = rules_.kind == DocumentKind::kChunks;
  if (document.kind() != rules_.kind || (keyed && head.key_width != rules_.key_width)) {
    return Damaged(frame.name,
                   absl::StrCat(KindName(document.kind()), " with landmark keys of ",
                                head.key_width, " numbers, this model keeps ",
                                KindName(rules_.kind), " with ", keyed ? rules_.key_width : 0));
  }
  if (id_.empty()) id_ = document.id;
  document.id = id_;
  RETURN_IF_ERROR(begin_(document));
  ASSIGN_OR_RETURN(owner_, store_.BeginImport(document));
  head_ = std::move(head);
  return absl::OkStatus();
}

absl::Status DocumentImport::CheckTokens(const Frame& frame,
                                         const std::vector<int32_t>& tokens) const {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < rules_.vocab_size) continue;
    return Damaged(frame.name,
                   absl::StrCat("token ", token, " of a vocabulary of ", rules_.vocab_size));
  }
  return absl::OkStatus();
}

absl::Status DocumentImport::TakeText(const Frame& frame) {
  ASSIGN_OR_RETURN(const std::string text, DecodeText(frame.key, frame.record, frame.name));
  // What tokens stand for may be any bytes.
  if (!head_->document.from_tokens && rules_.find_invalid_utf8 != nullptr) {
    const std::string joined = cut_character_ + text;
    const int64_t begin = bytes_ - std::ssize(cut_character_);
    const bool last = begin + std::ssize(joined) == head_->document.bytes;
    const int64_t invalid = rules_.find_invalid_utf8(joined, /*allow_partial_end=*/!last);
    if (invalid >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("document file: its text is not valid UTF-8 at byte ", begin + invalid));
    }
    const int64_t cut = rules_.find_invalid_utf8(joined, /*allow_partial_end=*/false);
    cut_character_ = cut < 0 ? "" : joined.substr(static_cast<size_t>(cut));
  }
  hash_.Update(text);
  batch_.text += text;
  bytes_ += std::ssize(text);
  batch_bytes_ += std::ssize(text);
  return CommitIfLarge();
}

absl::Status DocumentImport::TakeTokens(const Frame& frame) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                   DecodeTokens(frame.key, frame.record, frame.name));
  RETURN_IF_ERROR(CheckTokens(frame, tokens));
  batch_.tokens.insert(batch_.tokens.end(), tokens.begin(), tokens.end());
  tokens_ += std::ssize(tokens);
  batch_bytes_ += std::ssize(tokens) * static_cast<int64_t>(sizeof(int32_t));
  return CommitIfLarge();
}

absl::Status DocumentImport::TakeKeys(const Frame& frame) {
  ASSIGN_OR_RETURN(const LandmarkSegment segment,
                   DecodeLandmarks(frame.key, frame.record, frame.name));
  const int64_t keys = std::ssize(segment.keys) / segment.d_k;
  if (segment.d_k != rules_.key_width || keys > kFileGroupChunks ||
      rules_.kind != DocumentKind::kChunks) {
    return Damaged(frame.name,
                   absl::StrCat(keys, " landmark keys of ", segment.d_k, " numbers, expected ",
                                kFileGroupChunks, " of ", rules_.key_width, " at most"));
  }
  group_chunks_ = keys;
  batch_.landmark_keys.insert(batch_.landmark_keys.end(), segment.keys.begin(), segment.keys.end());
  batch_bytes_ += std::ssize(segment.keys) * static_cast<int64_t>(sizeof(Bf16));
  return absl::OkStatus();
}

absl::Status DocumentImport::TakeChunk(const Frame& frame) {
  ASSIGN_OR_RETURN(ChunkRecord chunk, DecodeChunk(frame.key, frame.record, frame.name));
  RETURN_IF_ERROR(CheckTokens(frame, chunk.tokens));
  const bool keyed = rules_.kind == DocumentKind::kChunks;
  if ((keyed && group_chunks_ == 0) || chunk.rows > rules_.chunk_tokens ||
      std::ssize(chunk.states) != chunk.rows * rules_.width ||
      chunk.text_end > head_->document.bytes || chunk.tokens.empty() == rules_.pointer) {
    return Damaged(frame.name,
                   absl::StrCat("a chunk of ", chunk.rows, " rows, ", chunk.states.size(),
                                " numbers, ", chunk.tokens.size(), " tokens, text to ",
                                chunk.text_end, " does not fit the model or the document"));
  }
  if (keyed) --group_chunks_;
  ++chunks_;
  batch_bytes_ += chunk.bytes();
  batch_.chunks.push_back(std::move(chunk));
  return CommitIfLarge();
}

absl::Status DocumentImport::TakeState(const Frame& frame) {
  ASSIGN_OR_RETURN(const std::string part, DecodeState(frame.key, frame.record, frame.name));
  if (rules_.kind != DocumentKind::kPrefix) {
    return Damaged(frame.name, absl::StrCat("a state in a document of ", KindName(rules_.kind)));
  }
  const absl::Status put = store_.PutStatePart(*owner_, state_parts_, part);
  if (absl::IsInvalidArgument(put)) return Damaged(frame.name, put.message());
  RETURN_IF_ERROR(put);
  ++state_parts_;
  state_bytes_ += static_cast<int64_t>(part.size());
  return absl::OkStatus();
}

absl::Status DocumentImport::CommitIfLarge() {
  if (batch_bytes_ < kCommitBytes || group_chunks_ != 0) return absl::OkStatus();
  RETURN_IF_ERROR(store_.CommitIngest(*owner_, std::exchange(batch_, {})));
  batch_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status DocumentImport::CheckCounts(bool whole) const {
  const DocumentInfo& document = head_->document;
  const auto fits = [whole](int64_t found, int64_t expected) {
    return whole ? found == expected : found <= expected;
  };
  if (fits(bytes_, document.bytes) && fits(tokens_, document.tokens) &&
      fits(chunks_, document.chunks) && fits(state_bytes_, document.state_bytes) &&
      (!whole || group_chunks_ == 0)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("document file: ", bytes_, " bytes of text, ", tokens_, " tokens, ", chunks_,
                   " chunks and a state of ", state_bytes_, " bytes, expected ", document.bytes,
                   ", ", document.tokens, ", ", document.chunks, " and ", document.state_bytes));
}

absl::StatusOr<DocumentInfo> DocumentImport::Finish() {
  RETURN_IF_ERROR(reader_.Finish());
  if (!head_.has_value()) return absl::DataLossError("document file: it has no head");
  RETURN_IF_ERROR(CheckCounts(/*whole=*/true));
  if (const std::string found = hash_.Hex(); found != head_->document.sha256) {
    return absl::DataLossError(absl::StrCat("document file: the text has SHA-256 ", found,
                                            ", expected ", head_->document.sha256));
  }
  batch_.state_bytes = state_bytes_;
  batch_.metadata = head_->document.metadata;
  ASSIGN_OR_RETURN(DocumentInfo document, store_.PublishIngest(*owner_, batch_));
  owner_.reset();
  return document;
}

}  // namespace recollect::store
