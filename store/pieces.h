// Documents in pieces: text, tokens and landmark keys are kept in records of so many entries each,
// an index in records of so many bytes. What of this stores over a database and over objects share;
// where a record lies, each knows itself.
#ifndef RECOLLECT_STORE_PIECES_H_
#define RECOLLECT_STORE_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numeric/bf16.h"
#include "base/status.h"
#include "store/document.h"
#include "store/format.h"
#include "store/ingest_state.h"
#include "store/store_errors.h"

namespace recollect::store {

// Numbers on disk, in extents (store/rados/records.h): never change or reuse one.
enum class EntryKind : uint8_t { kChunks = 0, kText = 1, kTokens = 2, kKeys = 3 };

// The three kinds that have pieces. `width`: the numbers of an entry.
struct TextPieces {
  using Entries = std::string;
  static constexpr EntryKind kKind = EntryKind::kText;
  static constexpr char kName[] = "text piece", kRange[] = "text";
  static constexpr int64_t kEntries = kTextPieceBytes;  // of a full piece
  static int64_t SizeIn(const DocumentSizes& sizes) { return sizes.bytes; }
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
  static constexpr char kName[] = "token piece", kRange[] = "token";
  static constexpr int64_t kEntries = kTokenPieceCount;
  static int64_t SizeIn(const DocumentSizes& sizes) { return sizes.tokens; }
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
  static constexpr char kName[] = "landmark segment", kRange[] = "chunk";
  static constexpr int64_t kEntries = kSegmentKeys;
  static int64_t SizeIn(const DocumentSizes& sizes) { return sizes.chunks; }
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
    const auto piece =
        rest.first(std::min(rest.size(), static_cast<size_t>(Pieces::kEntries * width)));
    rest = rest.subspan(piece.size());
    put(index++, piece);
  }
}

// Returns entries [begin, end) of text or tokens. `read` calls the function that it is given for
// each piece with such entries, in order, with the number of its first one.
template <typename Pieces, typename Read>
absl::StatusOr<typename Pieces::Entries> Join(const DocumentSizes& sizes, int64_t begin,
                                              int64_t end, const Read& read) {
  RETURN_IF_ERROR(CheckRange(Pieces::kRange, begin, end, Pieces::SizeIn(sizes)));
  typename Pieces::Entries out;
  if (begin == end) return out;
  out.reserve(static_cast<size_t>(end - begin));
  RETURN_IF_ERROR(read([&](const typename Pieces::Entries& piece, int64_t at, Bytes) {
    out.insert(out.end(), piece.begin() + std::max<int64_t>(begin - at, 0),
               piece.begin() + std::min(end - at, std::ssize(piece)));
    return absl::OkStatus();
  }));
  return out;
}

// Returns such a function for segments of landmark keys, of which it copies keys [begin, end) into
// keys[end - begin, d_k].
inline auto CopyKeys(int64_t begin, int64_t end, int64_t d_k, Bf16* keys) {
  return [=](const LandmarkSegmentView& segment, int64_t at, Bytes what) {
    if (segment.d_k != d_k) return WrongWidth(what, segment.d_k, d_k);
    const int64_t from = std::max(begin, at), to = std::min(end, at + segment.count);
    const int64_t key_bytes = d_k * static_cast<int64_t>(sizeof(Bf16));
    std::memcpy(keys + (from - begin) * d_k, segment.bytes.data() + (from - at) * key_bytes,
                static_cast<size_t>((to - from) * key_bytes));
    return absl::OkStatus();
  };
}

// Returns the number of entries of a piece.
template <typename Entries>
int64_t CountOf(const Entries& piece) {
  return std::ssize(piece);
}
inline int64_t CountOf(const LandmarkSegmentView& segment) { return segment.count; }

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

#endif  // RECOLLECT_STORE_PIECES_H_
