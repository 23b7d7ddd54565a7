#include "store/pieces.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "store/crc32c.h"

namespace recollect::store {
namespace {

std::string IndexPieceKey(OwnerId owner, int64_t number) {
  return PieceKey(owner, kFirstIndexPiece + number);
}

std::string IndexPieceLabel(OwnerId owner, int64_t number) {
  return PieceName("index piece", owner, number);
}

}  // namespace

absl::StatusOr<std::vector<Bf16>> KeyPieces::Decode(Bytes key, Bytes record, Bytes what,
                                                    int64_t width) {
  ASSIGN_OR_RETURN(LandmarkSegment segment, DecodeLandmarks(key, record, what));
  if (segment.d_k == width) return std::move(segment.keys);
  return WrongWidth(what, segment.d_k, width);
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
