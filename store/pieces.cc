#include "store/pieces.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/crc32c.h"

namespace recollect::store {
namespace {

std::string IndexPieceKey(OwnerId owner, int64_t number) {
  return PieceKey(owner, kFirstIndexPiece + number);
}

std::string IndexPieceLabel(OwnerId owner, int64_t number) {
  return PieceName("index piece", owner, number);
}

absl::Status CheckCount(const PieceRecord& piece, int64_t count) {
  if (count >= piece.least && count <= piece.most) return absl::OkStatus();
  return WrongCount(piece.name, count, piece.least);
}

}  // namespace

const PieceFacts& FactsOf(EntryKind kind) {
  static constexpr PieceFacts kFacts[] = {
      {"chunk", "chunk", &DocumentSizes::chunks, 1},
      {"text piece", "text", &DocumentSizes::bytes, kTextPieceBytes},
      {"token piece", "token", &DocumentSizes::tokens, kTokenPieceCount},
      {"landmark segment", "chunk", &DocumentSizes::chunks, kSegmentKeys},
  };
  return kFacts[static_cast<int>(kind)];
}

absl::StatusOr<std::vector<Bf16>> KeyPieces::Decode(Bytes key, Bytes record, Bytes what,
                                                    int64_t width) {
  ASSIGN_OR_RETURN(LandmarkSegment segment, DecodeLandmarks(key, record, what));
  if (segment.d_k == width) return std::move(segment.keys);
  return WrongWidth(what, segment.d_k, width);
}

absl::Status CopyKeys(const PieceRecord& piece, int64_t begin, int64_t end, int64_t d_k,
                      Bf16* keys) {
  ASSIGN_OR_RETURN(const LandmarkSegmentView segment,
                   ViewLandmarks(piece.key, piece.bytes, piece.name));
  RETURN_IF_ERROR(CheckCount(piece, segment.count));
  if (segment.d_k != d_k) return WrongWidth(piece.name, segment.d_k, d_k);
  const int64_t at = piece.first;
  const int64_t from = std::max(begin, at), to = std::min(end, at + segment.count);
  const int64_t key_bytes = d_k * static_cast<int64_t>(sizeof(Bf16));
  std::memcpy(keys + (from - begin) * d_k, segment.bytes.data() + (from - at) * key_bytes,
              static_cast<size_t>((to - from) * key_bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::string> DecodeStatePart(Bytes key, Bytes record, Bytes what, int64_t index,
                                            int64_t state_bytes) {
  ASSIGN_OR_RETURN(std::string part, DecodeState(key, record, what));
  const int64_t expected = std::min(kStatePartBytes, state_bytes - index * kStatePartBytes);
  if (std::ssize(part) != expected) return WrongCount(what, std::ssize(part), expected);
  return part;
}

template <typename Pieces>
absl::StatusOr<typename Pieces::Entries> PieceStore::ReadEntries(OwnerId owner, int64_t begin,
                                                                 int64_t end) {
  typename Pieces::Entries out;
  const auto take = [&](const PieceRecord& piece) -> absl::Status {
    ASSIGN_OR_RETURN(const auto entries, Pieces::Decode(piece.key, piece.bytes, piece.name, 1));
    RETURN_IF_ERROR(CheckCount(piece, std::ssize(entries)));
    if (out.empty()) out.reserve(static_cast<size_t>(end - begin));
    out.insert(out.end(), entries.begin() + std::max<int64_t>(begin - piece.first, 0),
               entries.begin() + std::min(end - piece.first, std::ssize(entries)));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadPieces(owner, Pieces::kKind, begin, end, take));
  return out;
}

absl::StatusOr<std::string> PieceStore::ReadText(OwnerId owner, int64_t begin, int64_t end) {
  return ReadEntries<TextPieces>(owner, begin, end);
}

absl::StatusOr<std::vector<int32_t>> PieceStore::ReadTokens(OwnerId owner, int64_t begin,
                                                            int64_t end) {
  return ReadEntries<TokenPieces>(owner, begin, end);
}

// The range may be absurd: nothing is made for it before the first piece has been found.
absl::StatusOr<std::vector<Bf16>> PieceStore::ReadLandmarkKeyRange(OwnerId owner, int64_t begin,
                                                                   int64_t end, int64_t d_k) {
  std::vector<Bf16> out;
  const auto take = [&](const PieceRecord& piece) {
    if (out.empty()) out.resize(static_cast<size_t>((end - begin) * std::max<int64_t>(d_k, 0)));
    return CopyKeys(piece, begin, end, d_k, out.data());
  };
  RETURN_IF_ERROR(ReadPieces(owner, EntryKind::kKeys, begin, end, take));
  return out;
}

absl::Status PutIndexPieces(
    OwnerId owner, Bytes index,
    const std::function<absl::Status(int64_t number, const std::string& record,
                                     const std::string& what)>& put) {
  IndexPiece piece;
  piece.total_bytes = std::ssize(index);
  piece.total_crc = Crc32c(index);
  for (int64_t i = (piece.total_bytes - 1) / kIndexPieceBytes; i >= 0; --i) {
    piece.bytes = std::string(index.substr(static_cast<size_t>(i * kIndexPieceBytes),
                                           static_cast<size_t>(kIndexPieceBytes)));
    RETURN_IF_ERROR(put(i, EncodeIndex(IndexPieceKey(owner, i), piece), IndexPieceLabel(owner, i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadIndexPieces(
    OwnerId owner, int64_t total_bytes,
    const std::function<absl::StatusOr<std::string>(int64_t number, const std::string& what)>&
        get) {
  std::string bytes;
  uint32_t crc = 0;
  for (int64_t i = 0; i == 0 || std::ssize(bytes) < total_bytes; ++i) {
    const std::string what = IndexPieceLabel(owner, i);
    ASSIGN_OR_RETURN(const std::string record, get(i, what));
    ASSIGN_OR_RETURN(const IndexPiece piece, DecodeIndex(IndexPieceKey(owner, i), record, what));
    if (i == 0) {
      crc = piece.total_crc;
      if (total_bytes == 0) total_bytes = piece.total_bytes;
    }
    if (piece.total_bytes != total_bytes || piece.total_crc != crc) {
      return absl::DataLossError(absl::StrCat(what, ": of an index of ", piece.total_bytes,
                                              " bytes, expected ", total_bytes));
    }
    bytes += piece.bytes;
  }
  if (std::ssize(bytes) == total_bytes && Crc32c(bytes) == crc) return bytes;
  return absl::DataLossError(
      absl::StrCat("index of ", bytes.size(), " bytes: not the one that was written"));
}

}  // namespace recollect::store
