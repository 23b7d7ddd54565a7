// Documents in pieces: text, tokens and landmark keys are kept in records of so many entries each,
// an index in records of so many bytes. What of this stores over a database and over objects share;
// where a record lies, each knows itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numeric/bf16.h"
#include "store/document_store.h"
#include "store/format.h"
#include "store/store_errors.h"

namespace recollect::store {

// Numbers on disk, in extents (store/rados/records.h): never change or reuse one.
enum class EntryKind : uint8_t { kChunks = 0, kText = 1, kTokens = 2, kKeys = 3 };

// Has what is the same for all pieces of a kind.
struct PieceFacts {
  const char* name;              // of a piece, in messages
  const char* range;             // of entries, likewise
  int64_t DocumentSizes::*size;  // the number of all entries
  int64_t entries;               // of a full piece in a database
};
const PieceFacts& FactsOf(EntryKind kind);

// The three kinds that have pieces. `width`: the numbers of an entry.
struct TextPieces {
  using Entries = std::string;
  static constexpr EntryKind kKind = EntryKind::kText;
  static std::string Encode(Bytes key, std::span<const char> text, int64_t) {
    return EncodeText(key, Bytes(text.data(), text.size()));
  }
  static absl::StatusOr<std::string> Decode(Bytes key, Bytes record, Bytes what, int64_t) {
    return DecodeText(key, record, what);
  }
};

struct TokenPieces {
  using Entries = std::vector<int32_t>;
  static constexpr EntryKind kKind = EntryKind::kTokens;
  static std::string Encode(Bytes key, std::span<const int32_t> tokens, int64_t) {
    return EncodeTokens(key, tokens);
  }
  static absl::StatusOr<std::vector<int32_t>> Decode(Bytes key, Bytes record, Bytes what, int64_t) {
    return DecodeTokens(key, record, what);
  }
};

struct KeyPieces {
  using Entries = std::vector<Bf16>;
  static constexpr EntryKind kKind = EntryKind::kKeys;
  static std::string Encode(Bytes key, std::span<const Bf16> keys, int64_t width) {
    return EncodeLandmarks(key, keys, width);
  }
  static absl::StatusOr<std::vector<Bf16>> Decode(Bytes key, Bytes record, Bytes what,
                                                  int64_t width);
};

// Calls put(index, piece) for the pieces of `entries`, numbered from `index` on.
template <typename Pieces, typename Put>
void Split(const typename Pieces::Entries& entries, int64_t width, int64_t index, const Put& put) {
  std::span rest(entries);
  while (!rest.empty()) {
    const int64_t full = FactsOf(Pieces::kKind).entries * width;
    const auto piece = rest.first(std::min(rest.size(), static_cast<size_t>(full)));
    rest = rest.subspan(piece.size());
    put(index++, piece);
  }
}

// A record of entries, as it was read.
struct PieceRecord {
  std::string key;
  std::string name;  // in messages
  Bytes bytes;
  int64_t first = 0;            // the number of its first entry
  int64_t least = 0, most = 0;  // of how many entries it has; otherwise it is damaged
};
// Copies those of the keys [begin, end) that are in this record into keys[end - begin, d_k].
absl::Status CopyKeys(const PieceRecord& piece, int64_t begin, int64_t end, int64_t d_k,
                      Bf16* keys);
// Returns part `index` of a state; `what` names the record.
absl::StatusOr<std::string> DecodeStatePart(Bytes key, Bytes record, Bytes what, int64_t index,
                                            int64_t state_bytes);

// Reads the pieces of a document.
class PieceStore : public DocumentStore {
 public:
  absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeyRange(OwnerId owner, int64_t begin, int64_t end,
                                                         int64_t d_k) final;
  absl::StatusOr<std::string> ReadText(OwnerId owner, int64_t begin, int64_t end) final;
  absl::StatusOr<std::vector<int32_t>> ReadTokens(OwnerId owner, int64_t begin, int64_t end) final;

 protected:
  using TakePiece = std::function<absl::Status(const PieceRecord&)>;
  // Calls take for the records with entries [begin, end) of an owner, in order. OUT_OF_RANGE names
  // the range and the size.
  virtual absl::Status ReadPieces(OwnerId owner, EntryKind kind, int64_t begin, int64_t end,
                                  const TakePiece& take) = 0;

 private:
  template <typename Pieces>
  absl::StatusOr<typename Pieces::Entries> ReadEntries(OwnerId owner, int64_t begin, int64_t end);
};

// Writes an index in pieces, the first one last.
absl::Status PutIndexPieces(
    OwnerId owner, Bytes index,
    const std::function<absl::Status(int64_t number, const std::string& record,
                                     const std::string& what)>& put);
// Reads an index of `total_bytes`, or, if that is 0, of as many as its first piece says.
absl::StatusOr<std::string> ReadIndexPieces(
    OwnerId owner, int64_t total_bytes,
    const std::function<absl::StatusOr<std::string>(int64_t number, const std::string& what)>& get);

}  // namespace recollect::store
