// The structs that a store takes and gives: documents, unfinished ingests, chunks, and the
// additions of one commit. Record layouts, versions and checksums: docs/formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/numeric/bf16.h"
#include "base/numeric/mxint8.h"
#include "base/types.h"

namespace recollect::store {

// A prefix's state is a string of any length, kept in parts of this size; the last part may be
// shorter.
inline constexpr int64_t kStatePartBytes = int64_t{1} << 20;

// How much there is of a document or an unfinished ingest.
struct DocumentSizes {
  std::string id;     // the user's name for it
  int64_t bytes = 0;  // of text
  int64_t tokens = 0;
  int64_t chunks = 0;
  int64_t state_bytes = 0;       // of a prefix, like the next
  int64_t first_state_part = 0;  // private to the store: the number of part 0's record
};

// The part of a document that its ingest has from the beginning.
struct DocumentHead : DocumentSizes {
  OwnerId owner{};           // internal number, never reused
  std::string fingerprint;   // of the model that read it
  bool from_tokens = false;  // ingested as token ids: the text is their decoding
  // If not empty, the document is a prefix: it has no chunks, and the state of a sequence that has
  // read it under this pattern is kept. The store only compares this text.
  std::string pattern;
  bool text = false;  // its chunks have no states and no landmark keys; false before the first one
  DocumentKind kind() const {
    if (!pattern.empty()) return DocumentKind::kPrefix;
    return text ? DocumentKind::kText : DocumentKind::kChunks;
  }
};

// A published document. Immutable, but for its metadata.
struct DocumentInfo : DocumentHead {
  int64_t created_unix_ms = 0;
  int64_t stored_bytes = 0;  // all records before compression
  std::string sha256;        // hex, of the text
  std::string metadata;      // as store/metadata.h keeps it; empty: none
  // If not empty, the catalog record is damaged in the way described, and only `id` is known. Set
  // by List and Remove only; Get returns DATA_LOSS in this case.
  std::string damage;
};

// An ingest that has begun and is not published.
struct IngestProgress : DocumentHead {
  int64_t input_offset = 0;  // bytes (or tokens, for token input) of input accepted so far
  // If not 0, a refresh: the owner of the published document that this one is to replace.
  OwnerId replaces{};
  std::string resume_state;  // empty when nothing was committed
};

// A chunk as stored: its states, its text range and, for a model with a pointer, its tokens. In a
// document that is kept as text it is the range alone: the document's tokens are kept once.
struct ChunkRecord {
  std::vector<Bf16> states;  // [rows, width]; empty: of a document that is kept as text
  int32_t rows = 0;          // tokens, 1..64
  // The chunk's tokens, preceded by at most kMaxPointerReach tokens before it; or empty.
  std::vector<int32_t> tokens;
  int64_t text_begin = 0;  // byte range in the document's text
  int64_t text_end = 0;
  // The states are MXINT8 numbers (base/numeric/mxint8.h), and records have them as such.
  bool mxint8 = false;
  int64_t stored_states_bytes() const {
    return static_cast<int64_t>(mxint8 ? MxInt8Bytes(states.size()) : states.size() * sizeof(Bf16));
  }
  int64_t bytes() const {
    return static_cast<int64_t>(states.size() * sizeof(Bf16) + tokens.size() * sizeof(int32_t) +
                                sizeof(*this));
  }
};

// The additions of one commit of an ingest. All of it becomes durable together or not at all.
struct IngestBatch {
  std::vector<ChunkRecord> chunks;  // following those already committed
  std::vector<Bf16> landmark_keys;  // [chunks.size(), d_k]; none for chunks without states
  std::vector<int32_t> tokens;      // following those already committed
  std::string text;                 // following the text committed
  std::string resume_state;         // opaque to the store; replaces the previous one
  int64_t input_offset = 0;         // bytes (or tokens, for token input) of input accepted so far
  // For a prefix: the number of bytes put by PutStatePart since the last commit, which replace the
  // earlier state; 0 keeps it.
  int64_t state_bytes = 0;
  // Kept with the document, opaque to the store; of the batch of PublishIngest. Empty: none.
  std::string append_point;
  // For PublishIngest: the metadata of the document; without it, that of the document which is
  // replaced.
  std::optional<std::string> metadata = {};
};

}  // namespace recollect::store
