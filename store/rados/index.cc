// Indexes over landmark keys. Each put writes objects of a generation of its own, which become the
// index by one change of the head; the generation before goes then.

#include "base/status.h"
#include "store/format.h"
#include "store/pieces.h"
#include "store/rados/store_impl.h"

namespace recollect::store::rados {
absl::Status RadosStore::PutIndex(OwnerId owner, absl::string_view bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError("an index of 0 bytes");
  const absl::StatusOr<Head> head = ReadHead(*pool_, owner);
  if (absl::IsNotFound(head.status())) return NoDocumentOf(owner);
  RETURN_IF_ERROR(head.status());
  if (!head->is_final || head->removed) return NoDocumentOf(owner);
  const absl::StatusOr<DocumentInfo> document = Get(head->document.id);
  if (!document.ok() || document->owner != owner) return NoDocumentOf(owner);
  IndexHeadRecord index;
  // Another server may put one at the same time: a number that only this put has.
  ASSIGN_OR_RETURN(const OwnerId number, NewOwner());
  index.generation = static_cast<uint64_t>(number);
  index.total_bytes = std::ssize(bytes);
  const std::vector<std::string> objects = IndexObjects(owner, index);
  const auto put = [&]() -> absl::Status {
    RETURN_IF_ERROR(PutIndexPieces(
        owner, bytes, [&](int64_t i, const std::string& record, const std::string& what) {
          const WriteRequest write[] = {{objects[static_cast<size_t>(i)], 0, record, true}};
          return pool_->Write(write, what);
        }));
    const std::string before = head->has_index ? EncodeIndexHead(kIndexKey, head->index) : "";
    const Change change{.expect = {{kRemovedKey, ""}, {kIndexKey, before}},
                        .set = {{kIndexKey, EncodeIndexHead(kIndexKey, index)}}};
    return pool_->Apply(HeadName(owner), change, "index");
  };
  // So that a repair leaves the pieces alone until the head names them.
  RETURN_IF_ERROR(leases_.Take(HeadName(owner), kIndexLock, /*shared=*/false));
  const absl::Status done = put();
  leases_.Drop(HeadName(owner), kIndexLock);
  if (!done.ok()) {
    // It may have become the index without an answer: then its objects stay.
    if (absl::IsAborted(done) || absl::IsNotFound(done))
      pool_->Remove(objects, "index").IgnoreError();
    return absl::IsNotFound(done) ? NoDocumentOf(owner) : done;
  }
  if (head->has_index) LogIfFailed(pool_->Remove(IndexObjects(owner, head->index), "index"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> RadosStore::ReadIndex(OwnerId owner) {
  ASSIGN_OR_RETURN(const Head head, ReadHead(*pool_, owner));
  if (!head.has_index) return NoIndex(owner);
  const auto bytes = ReadIndexPieces(
      owner, head.index.total_bytes,
      [&](int64_t i, const std::string& what) -> absl::StatusOr<std::string> {
        auto record = pool_->ReadAll(IndexPieceName(owner, head.index.generation, i), what);
        if (absl::IsNotFound(record.status())) return MissingFrom(owner, what);
        return record;
      });
  if (absl::IsDataLoss(bytes.status()))
    return Annotate(bytes.status(), DocumentName(head.document.id));
  return bytes;
}

}  // namespace recollect::store::rados
