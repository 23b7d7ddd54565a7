// Reading by owner.
#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status.h"
#include "store/format.h"
#include "store/pieces.h"
#include "store/rados/store_impl.h"

namespace recollect::store::rados {
namespace {

// Layouts that are kept beside those of this process's ingests. One takes 12 bytes a chunk.
constexpr size_t kMaxLayouts = 1024;

}  // namespace

// Of a document that is published, or was until it was removed, the layout never changes, and is
// kept. That of an ingest is read each time, unless this process is the writer: whether it still
// is, it does not know by itself, since another may have taken the ingest over and published it.
absl::StatusOr<std::shared_ptr<Layout>> RadosStore::FindLayout(OwnerId owner) {
  {
    MutexLock lock(mutex_);
    if (const auto found = layouts_.find(owner); found != layouts_.end()) return found->second;
  }
  const std::shared_ptr<Ingest> held = Held(owner);
  ASSIGN_OR_RETURN(const Head head, ReadHead(*pool_, owner));
  if (head.epoch.empty()) return NoOwner(owner);
  if (held != nullptr && head.epoch == absl::StrCat(held->epoch)) return held->layout;
  bool published = false;
  if (head.is_final) {
    const std::string removed = RemovedKey(owner);
    const std::string document = DocumentKey(head.document.id);
    ASSIGN_OR_RETURN(auto entries,
                     pool_->Get(kCatalogObject, {removed, document}, OwnerName(owner)));
    published = entries.contains(removed);
    if (!published && entries.contains(document)) {
      const auto info = DecodeDocument(document, entries[document], OwnerName(owner));
      published = info.ok() && info->owner == owner;
    }
  }
  if (!published) {
    return ReadLayout(*pool_, owner, head.cursor,
                      Sizes(head.state.progress, head.cursor.state_epoch));
  }
  ASSIGN_OR_RETURN(auto layout, ReadLayout(*pool_, owner, head.final_cursor,
                                           Sizes(head.document, head.final_cursor.state_epoch)));
  NameForCache(*layout, head.document);
  MutexLock lock(mutex_);
  if (layouts_.size() >= kMaxLayouts) layouts_.erase(layouts_.begin());
  layouts_[owner] = layout;
  return layout;
}

// Numbers of owners are used again in a namespace that was emptied, and in another pool: what is
// cached belongs to the document with this fingerprint, text and time of making.
void RadosStore::NameForCache(Layout& layout, const DocumentInfo& document) const {
  if (cache_ == nullptr) return;
  const std::string hex =
      Sha256Hex(absl::StrCat(identity_, "/", EncodeDocument(kFinalKey, document)));
  layout.SetCacheName(absl::HexStringToBytes(hex));
}

absl::Status RadosStore::MissingFrom(OwnerId owner, absl::string_view what) {
  const absl::StatusOr<Head> head = ReadHead(*pool_, owner);
  // A process that stood still past its lease: what it had pinned is being freed.
  const bool removed = head.ok() && head->removed;
  if (!removed && !absl::IsNotFound(head.status())) return Missing(what);
  Forget(owner);
  return removed ? WasRemoved(owner) : head.status();
}

absl::Status RadosStore::ReadPieces(OwnerId owner, Kind kind, int64_t begin, int64_t end,
                                    const TakePiece& take) {
  // Bounded, so that a long range needs no second copy of itself.
  constexpr size_t kAtOnce = 64;
  ASSIGN_OR_RETURN(const auto layout, FindLayout(owner));
  const PieceFacts& facts = FactsOf(kind);
  RETURN_IF_ERROR(CheckRange(facts.range, begin, end, layout->sizes().*facts.size));
  if (begin == end) return absl::OkStatus();
  const std::vector<Piece> pieces = layout->Find(kind, begin, end);
  const int64_t there = pieces.empty() ? begin : pieces.back().begin + pieces.back().count;
  if (there < end) {
    return absl::DataLossError(absl::StrCat(PieceName(facts.name, owner, layout->pieces(kind)),
                                            ": missing, entries end at ", there, ", not at ", end));
  }
  for (size_t at = 0; at < pieces.size(); at += kAtOnce) {
    const size_t last = std::min(pieces.size(), at + kAtOnce);
    std::vector<ReadRequest> reads;
    for (size_t i = at; i < last; ++i) {
      reads.push_back({pieces[i].object, pieces[i].offset, pieces[i].bytes});
    }
    pool_->Read(reads);
    for (size_t i = at; i < last; ++i) {
      const Piece& piece = pieces[i];
      const ReadRequest& read = reads[i - at];
      const std::string name = PieceName(facts.name, owner, piece.index);
      absl::Status status = read.status;
      if (absl::IsNotFound(status)) status = MissingFrom(owner, name);
      if (status.ok()) {
        status = take({PieceKey(owner, piece.index), name, read.result, piece.begin, piece.count,
                       piece.count});
      }
      if (absl::IsDataLoss(status)) return Annotate(status, DocumentName(layout->sizes().id));
      RETURN_IF_ERROR(status);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RadosStore::ReadStatePart(OwnerId owner, int64_t index) {
  ASSIGN_OR_RETURN(const auto layout, FindLayout(owner));
  const Sizes sizes = layout->sizes();
  RETURN_IF_ERROR(CheckRange("state part", index, index + 1, StateParts(sizes.state_bytes)));
  const int64_t number = sizes.first_state_part + index;
  const std::string what = PieceName("state part", owner, number);
  const auto read = [&]() -> absl::StatusOr<std::string> {
    const auto record = pool_->ReadAll(StatePartName(owner, sizes.state_epoch, number), what);
    if (absl::IsNotFound(record.status())) return MissingFrom(owner, what);
    RETURN_IF_ERROR(record.status());
    return DecodeStatePart(PieceKey(owner, number), *record, what, index, sizes.state_bytes);
  };
  auto part = read();
  if (absl::IsDataLoss(part.status())) return Annotate(part.status(), DocumentName(sizes.id));
  return part;
}

absl::StatusOr<std::string> RadosStore::ReadAppendPoint(OwnerId owner) {
  ASSIGN_OR_RETURN(const Head head, ReadHead(*pool_, owner));
  const std::string key = AppendPointKey(head.epoch);
  const std::string what = absl::StrCat("append point of ", OwnerName(owner));
  ASSIGN_OR_RETURN(auto found, pool_->Get(HeadName(owner), {key}, what));
  if (!head.is_final || !found.contains(key)) return NoAppendPoint(owner);
  auto point = DecodeResume(key, found[key], what);
  if (absl::IsDataLoss(point.status()))
    return Annotate(point.status(), DocumentName(head.document.id));
  return point;
}

}  // namespace recollect::store::rados
