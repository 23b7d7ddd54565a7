// Indexes over landmark keys: pieces of one string of bytes.
#include "base/status.h"
#include "store/pieces.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {
// The mutex keeps the document from being freed while one write runs: what is written then is freed
// with the rest.
template <typename Write>
absl::Status RocksStore::WriteToDocument(OwnerId owner, const Write& write) {
  MutexLock lock(catalog_mutex_);
  return Is(owner, Kind::kDocument) ? write() : NoDocumentOf(owner);
}

// While the first piece is missing, there is no index.
absl::Status RocksStore::PutIndex(OwnerId owner, absl::string_view bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError("an index of 0 bytes");
  RETURN_IF_ERROR(WriteToDocument(owner, [&] {
    return database_->DropRange(std::array{Family::kLandmarks}, PieceKey(owner, kFirstIndexPiece),
                                OwnerKey(NextOwner(owner)), Durability::kLogged);
  }));
  return PutIndexPieces(
      owner, bytes, [&](int64_t i, const std::string& record, const std::string& what) {
        Batch batch;
        batch.Put(Family::kLandmarks, PieceKey(owner, kFirstIndexPiece + i), record);
        return WriteToDocument(owner, [&] {
          return database_->Write(batch, what, i == 0 ? Durability::kSynced : Durability::kLogged);
        });
      });
}

absl::StatusOr<std::string> RocksStore::ReadIndex(OwnerId owner) {
  RETURN_IF_ERROR(FindOwner(owner).status());
  absl::StatusOr<std::string> bytes =
      ReadIndexPieces(owner, /*total_bytes=*/0,
                      [&](int64_t i, const std::string& what) -> absl::StatusOr<std::string> {
                        auto record = database_->Get(Family::kLandmarks,
                                                     PieceKey(owner, kFirstIndexPiece + i), what);
                        if (!absl::IsNotFound(record.status())) return record;
                        return i == 0 ? NoIndex(owner) : Missing(what);
                      });
  if (!bytes.ok()) return OfDocument(owner, bytes.status());
  return bytes;
}

}  // namespace recollect::store::rocks
