#include "store/ingest_state.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "store/format.h"
#include "store/store_errors.h"

namespace recollect::store {
namespace {

constexpr size_t kMaxIdBytes = 1024;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

const char* InputKind(bool from_tokens) { return from_tokens ? "token ids" : "text"; }

std::string KindUnder(const std::string& pattern) {
  return pattern.empty() ? "a document of chunks"
                         : absl::StrCat("a prefix under the pattern ", pattern);
}

}  // namespace

absl::Status CheckDocumentId(const std::string& id) {
  if (id.empty()) return Invalid("document id is empty");
  if (id.size() > kMaxIdBytes) {
    return Invalid("document id has ", id.size(), " bytes, at most ", kMaxIdBytes);
  }
  if (id.find('\0') != std::string::npos) {
    return Invalid("document id contains a NUL byte");
  }
  return absl::OkStatus();
}

IngestProgress AskedIngest(const std::string& id, const std::string& fingerprint, bool from_tokens,
                           const std::string& pattern, OwnerId replaces) {
  IngestProgress asked;
  asked.id = id;
  asked.fingerprint = fingerprint;
  asked.from_tokens = from_tokens;
  asked.pattern = pattern;
  asked.replaces = replaces;
  return asked;
}

absl::StatusOr<IngestProgress> IngestWriter::BeginIngest(const std::string& id,
                                                         const std::string& fingerprint,
                                                         bool from_tokens,
                                                         const std::string& pattern) {
  RETURN_IF_ERROR(CheckDocumentId(id));
  return Begin(AskedIngest(id, fingerprint, from_tokens, pattern));
}

absl::StatusOr<IngestProgress> IngestWriter::BeginRefresh(const DocumentInfo& document,
                                                          const std::string& fingerprint,
                                                          const std::string& pattern) {
  return Begin(
      AskedIngest(document.id, fingerprint, document.from_tokens, pattern, document.owner));
}

absl::Status CheckResumable(const IngestProgress& ingest, const IngestProgress& asked) {
  const auto refused = [&](absl::string_view verb, absl::string_view is, absl::string_view wanted) {
    return absl::FailedPreconditionError(absl::StrCat("unfinished ingest of '", ingest.id, "' ",
                                                      verb, " ", is, ", asked for ", wanted));
  };
  if (ingest.replaces != asked.replaces) {
    const auto name = [](OwnerId replaces) {
      return replaces == OwnerId{}
                 ? std::string("a new document")
                 : absl::StrCat("a refresh of owner ", static_cast<uint64_t>(replaces));
    };
    return refused("is", name(ingest.replaces), name(asked.replaces));
  }
  if (ingest.fingerprint != asked.fingerprint) {
    return refused("has model fingerprint", ingest.fingerprint, asked.fingerprint);
  }
  if (ingest.from_tokens != asked.from_tokens) {
    return refused("takes", InputKind(ingest.from_tokens), InputKind(asked.from_tokens));
  }
  if (ingest.pattern != asked.pattern) {
    return refused("makes", KindUnder(ingest.pattern), KindUnder(asked.pattern));
  }
  return absl::OkStatus();
}

absl::Status CheckBegins(const absl::StatusOr<DocumentInfo>& published,
                         const IngestProgress& asked) {
  const bool refresh = asked.replaces != OwnerId{};
  if (!published.ok()) {
    const bool none = absl::IsNotFound(published.status());
    return none && !refresh ? absl::OkStatus() : published.status();
  }
  if (!refresh) return Exists(asked.id);
  if (published->owner == asked.replaces) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("document '", asked.id, "' is another one now"));
}

absl::Status ReplacedHasGone(const IngestProgress& ingest) {
  return absl::AbortedError(
      absl::StrCat("document '", ingest.id, "' was removed while it was read again"));
}

absl::Status CheckChunk(const ChunkRecord& chunk, int64_t index, int64_t width) {
  const auto states = static_cast<int64_t>(chunk.states.size());
  if (chunk.rows < 1 || chunk.rows > kMaxChunkTokens) {
    return Invalid("chunk ", index, ": ", chunk.rows, " rows, expected 1 to ", kMaxChunkTokens);
  }
  const bool range = states == 0 && chunk.tokens.empty() && !chunk.mxint8;
  if ((states == 0 && !range) || states % chunk.rows != 0 ||
      (width != 0 && states != chunk.rows * width)) {
    return Invalid("chunk ", index, ": ", states, " numbers in ", chunk.rows,
                   " rows, expected width ", width);
  }
  const auto tokens = static_cast<int64_t>(chunk.tokens.size());
  if (tokens != 0 && (tokens < chunk.rows || tokens > chunk.rows + kMaxPointerReach)) {
    return Invalid("chunk ", index, ": ", tokens, " tokens for ", chunk.rows,
                   " rows, expected none or ", kMaxPointerReach, " more at most");
  }
  if (chunk.text_begin < 0 || chunk.text_end < chunk.text_begin) {
    return Invalid("chunk ", index, ": text range [", chunk.text_begin, ", ", chunk.text_end, ")");
  }
  return absl::OkStatus();
}

int64_t StateParts(int64_t bytes) { return (bytes + kStatePartBytes - 1) / kStatePartBytes; }

absl::StatusOr<IngestState> PutPart(const IngestState& state, int64_t index, int64_t bytes) {
  const int64_t before = index == 0 ? 0 : state.put_bytes;
  if (state.progress.pattern.empty() || bytes < 1 || bytes > kStatePartBytes ||
      before != index * kStatePartBytes) {
    return Invalid("state part ", index, " of ", bytes, " bytes after ", before, " bytes of ",
                   KindUnder(state.progress.pattern));
  }
  IngestState next = state;
  next.put_bytes = before + bytes;
  return next;
}

absl::StatusOr<IngestState> Advance(const IngestState& state, const IngestBatch& batch) {
  IngestState next = state;
  IngestProgress& progress = next.progress;
  const auto chunks = static_cast<int64_t>(batch.chunks.size());
  const auto keys = static_cast<int64_t>(batch.landmark_keys.size());
  for (const ChunkRecord& chunk : batch.chunks) {
    RETURN_IF_ERROR(CheckChunk(chunk, progress.chunks, next.width));
    if (progress.chunks > 0 && next.width == 0 && !chunk.states.empty()) {
      return Invalid("chunk ", progress.chunks, ": ", chunk.states.size(),
                     " numbers after chunks without states");
    }
    next.width = static_cast<int64_t>(chunk.states.size()) / chunk.rows;
    next.chunk_bytes += ChunkRecordBytes(chunk);
    ++progress.chunks;
  }
  const bool keyed = chunks > 0 && next.width > 0;  // chunks without states have no keys
  const bool divides = keyed ? keys > 0 && keys % chunks == 0 : keys == 0;
  if (!divides || (keyed && next.d_k != 0 && keys != chunks * next.d_k)) {
    return Invalid(keys, " landmark numbers for ", chunks, " chunks, expected width ", next.d_k);
  }
  if (keyed) next.d_k = keys / chunks;
  progress.text = progress.chunks > 0 && next.width == 0;
  if (batch.input_offset < progress.input_offset) {
    return Invalid("input offset ", batch.input_offset, " is before the committed offset ",
                   progress.input_offset);
  }
  const bool prefix = !progress.pattern.empty();
  if ((prefix && chunks > 0) || (batch.state_bytes != 0 && batch.state_bytes != next.put_bytes)) {
    return Invalid(chunks, " chunks and a state of ", batch.state_bytes, " bytes, of which ",
                   next.put_bytes, " were put, for ", KindUnder(progress.pattern));
  }
  if (batch.state_bytes > 0) {
    progress.first_state_part += StateParts(progress.state_bytes);
    progress.state_bytes = batch.state_bytes;
  }
  next.put_bytes = 0;
  progress.input_offset = batch.input_offset;
  progress.bytes += static_cast<int64_t>(batch.text.size());
  progress.tokens += static_cast<int64_t>(batch.tokens.size());
  progress.resume_state = batch.resume_state;
  return next;
}

DocumentInfo MakeDocument(const IngestState& state, const std::string& sha256) {
  DocumentInfo info;
  static_cast<DocumentHead&>(info) = state.progress;
  info.stored_bytes = StoredBytes(state);
  info.sha256 = sha256;
  return info;
}

void Describe(const IngestBatch& last, const DocumentInfo* replaced, DocumentInfo* info) {
  info->created_unix_ms =
      replaced != nullptr ? replaced->created_unix_ms : absl::ToUnixMillis(absl::Now());
  info->metadata = last.metadata.value_or(replaced != nullptr ? replaced->metadata : "");
}

DocumentInfo Listed(absl::string_view id, const absl::StatusOr<DocumentInfo>& info) {
  if (info.ok()) return *info;
  DocumentInfo damaged;
  damaged.id = std::string(id);
  damaged.damage = std::string(info.status().message());
  return damaged;
}

absl::Status CheckRange(const char* kind, int64_t begin, int64_t end, int64_t size) {
  if (begin >= 0 && begin <= end && end <= size) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(kind, " range [", begin, ", ", end, ") of a document that has ", size));
}

}  // namespace recollect::store
