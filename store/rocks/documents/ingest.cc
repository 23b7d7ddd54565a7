// Writing documents: every commit is one write batch over all families, so that chunks, keys, text,
// tokens, offset and resume state become durable together or not at all.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "base/status.h"
#include "store/hash_text.h"
#include "store/rocks/documents/catalog.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {

template <typename T>
struct RocksStore::Pieces {
  Family family;
  const char* name;
  int64_t per_piece;  // of T
  std::function<absl::StatusOr<std::vector<T>>(absl::string_view key, absl::string_view record,
                                               absl::string_view what)>
      decode;
  std::function<std::string(absl::string_view key, std::span<const T> piece)> encode;
};

namespace {

absl::StatusOr<std::vector<char>> DecodeTextPiece(absl::string_view key, absl::string_view record,
                                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const std::string text, DecodeText(key, record, what));
  return std::vector<char>(text.begin(), text.end());
}

std::string EncodeTextPiece(absl::string_view key, std::span<const char> text) {
  return EncodeText(key, absl::string_view(text.data(), text.size()));
}

}  // namespace

absl::StatusOr<IngestProgress> RocksStore::BeginIngest(const std::string& id,
                                                       const std::string& fingerprint,
                                                       bool from_tokens,
                                                       const std::string& pattern) {
  RETURN_IF_ERROR(CheckDocumentId(id));
  MutexLock lock(catalog_mutex_);
  const auto published = Get(id);
  if (published.ok()) return absl::AlreadyExistsError(absl::StrCat(DocumentName(id), " exists"));
  if (!absl::IsNotFound(published.status())) return published.status();
  return Begin(AskedIngest(id, fingerprint, from_tokens, pattern));
}

absl::StatusOr<IngestProgress> RocksStore::BeginRefresh(const DocumentInfo& document,
                                                        const std::string& fingerprint,
                                                        const std::string& pattern) {
  MutexLock lock(catalog_mutex_);
  RETURN_IF_ERROR(CheckReplaced(Get(document.id), document));
  return Begin(
      AskedIngest(document.id, fingerprint, document.from_tokens, pattern, document.owner));
}

absl::StatusOr<IngestProgress> RocksStore::Begin(const IngestProgress& asked) {
  const std::string& id = asked.id;
  const std::string key = IngestKey(id);
  IngestState state;
  bool found = false;
  {
    ReaderLock owners_lock(owners_mutex_);
    if (const auto known = ingest_ids_.find(id); known != ingest_ids_.end()) {
      state.progress = ingests_.at(known->second)->state.progress;
      found = true;
    }
  }
  if (found) {
    IngestProgress& progress = state.progress;
    RETURN_IF_ERROR(CheckResumable(progress, asked));
    const std::string what = absl::StrCat("resume state of ingest '", id, "'");
    const std::string resume_key = ResumeKey(progress.owner);
    const auto record = database_->Get(Family::kIngests, resume_key, what);
    if (absl::IsNotFound(record.status())) return progress;  // nothing was committed
    RETURN_IF_ERROR(record.status());
    ASSIGN_OR_RETURN(progress.resume_state, DecodeResume(resume_key, *record, what));
    return progress;
  }
  // One that was found damaged when the store was opened must not be written over.
  const std::string what = absl::StrCat("ingest '", id, "'");
  if (const auto record = database_->Get(Family::kIngests, key, what); record.ok()) {
    RETURN_IF_ERROR(DecodeIngest(key, *record, what).status());
  } else if (!absl::IsNotFound(record.status()) && !absl::IsDataLoss(record.status())) {
    return record.status();  // in a damaged block nothing can be told, and nothing is left to save
  }

  IngestProgress& progress = state.progress;
  progress = asked;
  ASSIGN_OR_RETURN(progress.owner, NewOwner());
  Batch batch;
  batch.Put(Family::kIngests, key, EncodeIngest(key, state));
  RETURN_IF_ERROR(database_->Write(batch, Database::Durability::kSynced, what));
  auto ingest = std::make_shared<Ingest>();
  ingest->state = state;
  WriterLock owners_lock(owners_mutex_);
  owners_.emplace(progress.owner, Owner{Kind::kIngest});
  ingests_.emplace(progress.owner, std::move(ingest));
  ingest_ids_.emplace(id, progress.owner);
  return progress;
}

absl::StatusOr<std::vector<IngestProgress>> RocksStore::ListIngests() {
  ReaderLock lock(owners_mutex_);
  std::vector<IngestProgress> out;
  for (const auto& [id, owner] : ingest_ids_) out.push_back(ingests_.at(owner)->state.progress);
  return out;
}

absl::StatusOr<std::shared_ptr<RocksStore::Ingest>> RocksStore::FindIngest(OwnerId owner) const {
  ReaderLock lock(owners_mutex_);
  const auto found = ingests_.find(owner);
  if (found == ingests_.end()) {
    return absl::NotFoundError(
        absl::StrCat("no unfinished ingest of owner ", static_cast<uint64_t>(owner)));
  }
  return found->second;
}

template <typename T>
absl::Status RocksStore::AppendPieces(const Pieces<T>& kind, OwnerId owner, int64_t committed,
                                      std::span<const T> more, Batch* out) {
  if (more.empty()) return absl::OkStatus();
  std::vector<T> piece;
  int64_t index = committed / kind.per_piece;
  const int64_t in_last = committed % kind.per_piece;
  if (in_last > 0) {
    const std::string key = PieceKey(owner, index);
    const std::string what = PieceName(kind.name, owner, index);
    ASSIGN_OR_RETURN(const std::string record, database_->Get(kind.family, key, what));
    ASSIGN_OR_RETURN(piece, kind.decode(key, record, what));
    if (static_cast<int64_t>(piece.size()) != in_last) {
      return absl::DataLossError(
          absl::StrCat(what, ": ", piece.size(), " entries, expected ", in_last));
    }
  }
  while (!more.empty()) {
    const auto room = static_cast<size_t>(kind.per_piece) - piece.size();
    const auto taken = more.first(std::min(room, more.size()));
    piece.insert(piece.end(), taken.begin(), taken.end());
    more = more.subspan(taken.size());
    const std::string key = PieceKey(owner, index++);
    out->Put(kind.family, key, kind.encode(key, piece));
    piece.clear();
  }
  return absl::OkStatus();
}

absl::StatusOr<IngestState> RocksStore::AddBatch(const IngestState& state, const IngestBatch& batch,
                                                 Batch* out) {
  ASSIGN_OR_RETURN(IngestState next, Advance(state, batch));
  const IngestProgress& before = state.progress;
  const OwnerId owner = before.owner;
  int64_t index = before.chunks;
  for (const ChunkRecord& chunk : batch.chunks) {
    const std::string key = PieceKey(owner, index++);
    out->Put(Family::kChunks, key, EncodeChunk(key, chunk));
  }
  const Pieces<char> text{Family::kText, "text piece", kTextPieceBytes, DecodeTextPiece,
                          EncodeTextPiece};
  RETURN_IF_ERROR(AppendPieces<char>(text, owner, before.bytes, batch.text, out));
  const Pieces<int32_t> tokens{Family::kTokens, "token piece", kTokenPieceCount, DecodeTokens,
                               EncodeTokens};
  RETURN_IF_ERROR(AppendPieces<int32_t>(tokens, owner, before.tokens, batch.tokens, out));
  const int64_t d_k = next.d_k;
  const auto decode = [d_k](absl::string_view key, absl::string_view record,
                            absl::string_view what) -> absl::StatusOr<std::vector<Bf16>> {
    ASSIGN_OR_RETURN(LandmarkSegment segment, DecodeLandmarks(key, record, what));
    if (segment.d_k == d_k) return std::move(segment.keys);
    return absl::DataLossError(
        absl::StrCat(what, ": keys of ", segment.d_k, " numbers, expected ", d_k));
  };
  const auto encode = [d_k](absl::string_view key, std::span<const Bf16> keys) {
    return EncodeLandmarks(key, keys, d_k);
  };
  const Pieces<Bf16> keys{Family::kLandmarks, "landmark segment", kSegmentKeys * d_k, decode,
                          encode};
  RETURN_IF_ERROR(AppendPieces<Bf16>(keys, owner, before.chunks * d_k, batch.landmark_keys, out));
  return next;
}

// Numbered on from the committed state, which stays until the commit.
absl::Status RocksStore::PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  if (ingest->done) return absl::NotFoundError("the ingest has ended");
  ASSIGN_OR_RETURN(IngestState next,
                   PutPart(ingest->state, index, static_cast<int64_t>(bytes.size())));
  const IngestProgress& progress = next.progress;
  const std::string key =
      PieceKey(owner, progress.first_state_part + StateParts(progress.state_bytes) + index);
  Batch out;
  out.Put(Family::kChunks, key, EncodeState(key, bytes));
  RETURN_IF_ERROR(database_->Write(out, Database::Durability::kLogged,
                                   absl::StrCat("ingest '", progress.id, "'")));
  // All else is as it was, and ListIngests may be reading it.
  ingest->state.put_bytes = next.put_bytes;
  return absl::OkStatus();
}

void RocksStore::DropOldState(const IngestProgress& progress) {
  if (progress.pattern.empty()) return;
  constexpr Family kFamily[] = {Family::kChunks};
  const OwnerId owner = progress.owner;
  const int64_t first = progress.first_state_part;
  const auto drop = [&](const std::string& begin, const std::string& end) {
    const absl::Status status =
        database_->DropRange(kFamily, begin, end, Database::Durability::kLogged);
    if (!status.ok()) LogWarning("ingest '{}': {}", progress.id, std::string(status.message()));
  };
  if (first > 0) drop(OwnerKey(owner), PieceKey(owner, first));
  drop(PieceKey(owner, first + StateParts(progress.state_bytes)), PieceKey(owner, INT64_MAX));
}

absl::Status RocksStore::CommitIngest(OwnerId owner, const IngestBatch& batch) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  if (ingest->done) return absl::NotFoundError("the ingest has ended");
  Batch out;
  ASSIGN_OR_RETURN(IngestState next, AddBatch(ingest->state, batch, &out));
  const IngestProgress& progress = next.progress;
  // An import is not resumed: nothing is to be found before it is published.
  auto durability = Database::Durability::kLogged;
  if (!ingest->import) {
    durability = Database::Durability::kSynced;
    const std::string key = IngestKey(progress.id);
    const std::string resume_key = ResumeKey(owner);
    out.Put(Family::kIngests, key, EncodeIngest(key, next));
    out.Put(Family::kIngests, resume_key, EncodeResume(resume_key, progress.resume_state));
  }
  RETURN_IF_ERROR(database_->Write(out, durability, absl::StrCat("ingest '", progress.id, "'")));
  next.progress.resume_state.clear();
  WriterLock owners_lock(owners_mutex_);
  owners_.at(owner) = OwnerOf(Kind::kIngest, progress);
  ingest->state = std::move(next);
  owners_lock.unlock();
  DropOldState(ingest->state.progress);
  return absl::OkStatus();
}

absl::Status RocksStore::PutDocument(const IngestProgress& progress,
                                     const std::optional<std::string>& metadata, DocumentInfo* info,
                                     Batch* out) {
  info->metadata = metadata.value_or("");
  const std::string key = DocumentKey(info->id);
  CatalogRecord catalog = catalog_;
  if (progress.replaces == OwnerId{}) {
    catalog.Add(key);
  } else {
    const absl::StatusOr<DocumentInfo> old = Get(info->id);
    if (!old.ok() || old->owner != progress.replaces) return ReplacedHasGone(progress);
    info->created_unix_ms = old->created_unix_ms;
    if (!metadata.has_value()) info->metadata = old->metadata;
    const std::string removed = RemovedKey(old->owner);
    out->Put(Family::kCatalog, removed, EncodeRemoved(removed, *old));
  }
  PutCatalog(key, EncodeDocument(key, *info), out);
  return WriteCatalog(*out, catalog, DocumentName(info->id));
}

// In the place of the ingest's resume state; it goes when the document is freed.
void RocksStore::PutAppendPoint(OwnerId owner, absl::string_view point, Batch* out) {
  const std::string key = ResumeKey(owner);
  if (point.empty()) return out->Delete(Family::kIngests, key);
  out->Put(Family::kIngests, key, EncodeResume(key, point));
}

absl::StatusOr<DocumentInfo> RocksStore::PublishIngest(OwnerId owner, const IngestBatch& last) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  if (ingest->done) return absl::NotFoundError("the ingest has ended");
  Sha256 hash;
  RETURN_IF_ERROR(HashText(*this, owner, ingest->state.progress.bytes, hash));
  hash.Update(last.text);
  Batch out;
  ASSIGN_OR_RETURN(const IngestState next, AddBatch(ingest->state, last, &out));
  DocumentInfo info = MakeDocument(next, hash.Hex(), UnixMillis());
  MutexLock catalog_lock(catalog_mutex_);
  if (ingest->import) {
    RETURN_IF_ERROR(CheckAbsent(info.id));
    out.Delete(Family::kCatalog, RemovedKey(owner));
  } else {
    out.Delete(Family::kIngests, IngestKey(info.id));
    PutAppendPoint(owner, last.append_point, &out);
  }
  const OwnerId replaces = next.progress.replaces;
  RETURN_IF_ERROR(PutDocument(next.progress, last.metadata, &info, &out));
  WriterLock owners_lock(owners_mutex_);
  owners_.at(owner) = OwnerOf(Kind::kDocument, info);
  if (replaces != OwnerId{}) owners_.at(replaces).kind = Kind::kRemoved;
  ingest->done = true;
  ingests_.erase(owner);
  if (!ingest->import) ingest_ids_.erase(info.id);
  owners_lock.unlock();
  DropOldState(next.progress);
  if (info.first_state_part > 0) {
    cleaner_.Add([this, owner](std::atomic<bool>* canceled) {
      return database_->Compact(Family::kChunks, OwnerKey(owner), PieceKey(owner, INT64_MAX),
                                canceled);
    });
  }
  return info;
}

}  // namespace recollect::store::rocks
