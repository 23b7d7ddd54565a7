// Indexes over landmark keys: pieces of one string of bytes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/crc32c.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {
namespace {

constexpr absl::string_view kKind = "index piece";

}  // namespace

// The mutex keeps the document from being freed while one write runs: what is written then is freed
// with the rest.
template <typename Write>
absl::Status RocksStore::WriteToDocument(OwnerId owner, const Write& write) {
  MutexLock lock(catalog_mutex_);
  const absl::StatusOr<Owner> known = FindOwner(owner);
  if (!known.ok() || known->kind != Kind::kDocument) return NoDocumentOf(owner);
  return write();
}

// The first piece is written last: while it is missing, there is no index.
absl::Status RocksStore::PutIndex(OwnerId owner, absl::string_view bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError("an index of 0 bytes");
  RETURN_IF_ERROR(WriteToDocument(owner, [&] {
    constexpr Family kFamily[] = {Family::kLandmarks};
    return database_->DropRange(kFamily, PieceKey(owner, kFirstIndexPiece),
                                OwnerKey(NextOwner(owner)), Database::Durability::kLogged);
  }));
  IndexPiece piece;
  piece.total_bytes = static_cast<int64_t>(bytes.size());
  piece.total_crc = Crc32c(bytes);
  for (int64_t i = (piece.total_bytes - 1) / kIndexPieceBytes; i >= 0; --i) {
    piece.bytes = std::string(bytes.substr(static_cast<size_t>(i * kIndexPieceBytes),
                                           static_cast<size_t>(kIndexPieceBytes)));
    const std::string key = PieceKey(owner, kFirstIndexPiece + i);
    Batch batch;
    batch.Put(Family::kLandmarks, key, EncodeIndex(key, piece));
    RETURN_IF_ERROR(WriteToDocument(owner, [&] {
      return database_->Write(
          batch, i == 0 ? Database::Durability::kSynced : Database::Durability::kLogged,
          PieceName(kKind, owner, i));
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RocksStore::ReadIndex(OwnerId owner) {
  RETURN_IF_ERROR(FindOwner(owner).status());
  const auto read = [&]() -> absl::StatusOr<std::string> {
    IndexPiece first;
    std::string bytes;
    for (int64_t i = 0; i == 0 || std::ssize(bytes) < first.total_bytes; ++i) {
      const std::string key = PieceKey(owner, kFirstIndexPiece + i);
      const std::string what = PieceName(kKind, owner, i);
      const absl::StatusOr<std::string> record = database_->Get(Family::kLandmarks, key, what);
      if (absl::IsNotFound(record.status())) {
        if (i == 0) return NoIndex(owner);
        return absl::DataLossError(absl::StrCat(what, ": missing"));
      }
      RETURN_IF_ERROR(record.status());
      ASSIGN_OR_RETURN(IndexPiece piece, DecodeIndex(key, *record, what));
      if (i == 0) first = piece;
      if (piece.total_bytes != first.total_bytes || piece.total_crc != first.total_crc) {
        return absl::DataLossError(absl::StrCat(what, ": of an index of ", piece.total_bytes,
                                                " bytes, expected ", first.total_bytes));
      }
      bytes += piece.bytes;
    }
    if (std::ssize(bytes) != first.total_bytes || Crc32c(bytes) != first.total_crc) {
      return absl::DataLossError(
          absl::StrCat("index of ", bytes.size(), " bytes: not the one that was written"));
    }
    return bytes;
  };
  absl::StatusOr<std::string> bytes = read();
  if (!bytes.ok()) return OfDocument(owner, bytes.status());
  return bytes;
}

}  // namespace recollect::store::rocks
