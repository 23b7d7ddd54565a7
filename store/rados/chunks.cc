// Chunks: those of documents, through the cache if there is one, and sessions' own.
#include <utility>

#include "base/io/log.h"
#include "base/status.h"
#include "store/format.h"
#include "store/rados/store_impl.h"
#include "store/store_errors.h"

namespace recollect::store::rados {
namespace {

// Owners of sessions have numbers of this process's own.
constexpr uint64_t kSessionBit = uint64_t{1} << 63;

bool IsSession(OwnerId owner) { return (static_cast<uint64_t>(owner) & kSessionBit) != 0; }

OwnerId InSessions(OwnerId owner) { return OwnerId{static_cast<uint64_t>(owner) & ~kSessionBit}; }

// What the cache has of a chunk is worth as much as what the pool has: it is a record with the same
// checksum, over the owner and the number of the chunk, in one whose checksum is over the document.
absl::StatusOr<ChunkRecord> FromCache(const std::string& key, ChunkRef ref,
                                      const std::string& cached) {
  const std::string what = PieceName("cached chunk", ref.owner, ref.index);
  ASSIGN_OR_RETURN(const std::string record, DecodeCached(key, cached, what));
  return DecodeChunk(PieceKey(ref.owner, ref.index), record, what);
}

}  // namespace

absl::StatusOr<OwnerId> RadosStore::NewSessionOwner() {
  ASSIGN_OR_RETURN(const OwnerId owner, sessions_->NewSessionOwner());
  return OwnerId{static_cast<uint64_t>(owner) | kSessionBit};
}

absl::Status RadosStore::PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) {
  RETURN_IF_ERROR(CheckChunk(chunk, ref.index, 0));
  if (!IsSession(ref.owner)) {
    return NoSessionFor(ref);
  }
  return sessions_->PutSessionChunk({InSessions(ref.owner), ref.index}, chunk);
}

absl::Status RadosStore::FreeSession(OwnerId owner) {
  if (IsSession(owner)) return sessions_->FreeSession(InSessions(owner));
  return NotASession(owner);
}

std::vector<absl::StatusOr<ChunkRecord>> RadosStore::ReadChunks(std::span<const ChunkRef> refs) {
  std::vector<absl::StatusOr<ChunkRecord>> out(
      refs.size(), absl::StatusOr<ChunkRecord>(absl::UnknownError("not read")));
  std::vector<Wanted> wanted;
  std::map<OwnerId, absl::StatusOr<std::shared_ptr<Layout>>> layouts;
  for (size_t i = 0; i < refs.size(); ++i) {
    const ChunkRef& ref = refs[i];
    if (IsSession(ref.owner)) {
      const ChunkRef own{InSessions(ref.owner), ref.index};
      out[i] = std::move(sessions_->ReadChunks({&own, 1})[0]);
      continue;
    }
    auto found = layouts.find(ref.owner);
    if (found == layouts.end()) found = layouts.emplace(ref.owner, FindLayout(ref.owner)).first;
    if (!found->second.ok()) {
      out[i] = found->second.status();
      continue;
    }
    const Layout& layout = **found->second;
    if (ref.index < 0 || ref.index >= layout.sizes().chunks) {
      out[i] = NoChunk(ref);
      continue;
    }
    const std::vector<Piece> piece = layout.Find(Kind::kChunks, ref.index, ref.index + 1);
    if (piece.empty()) {
      out[i] = Missing(PieceName("chunk", ref.owner, ref.index));
      continue;
    }
    const std::string document = layout.cache_name();
    wanted.push_back(
        {i, piece[0], document.empty() ? "" : CacheKey(document, ref.owner, ref.index)});
  }
  TakeFromCache(refs, &wanted, &out);
  std::vector<ReadRequest> reads;
  for (const Wanted& one : wanted) {
    reads.push_back({one.piece.object, one.piece.offset, one.piece.bytes});
  }
  pool_->Read(reads);
  std::vector<std::pair<std::string, std::string>> keep;
  for (size_t r = 0; r < reads.size(); ++r) {
    const ChunkRef& ref = refs[wanted[r].place];
    const std::string what = PieceName("chunk", ref.owner, ref.index);
    absl::StatusOr<ChunkRecord>& result = out[wanted[r].place];
    const absl::Status& read = reads[r].status;
    if (read.ok()) {
      result = DecodeChunk(PieceKey(ref.owner, ref.index), reads[r].result, what);
    } else {
      result = absl::IsNotFound(read) ? MissingFrom(ref.owner, what) : read;
    }
    if (absl::IsDataLoss(result.status())) {
      const std::string id = layouts.at(ref.owner).value()->sizes().id;
      result = Annotate(result.status(), DocumentName(id));
    }
    if (result.ok() && !wanted[r].cache_key.empty()) {
      keep.emplace_back(wanted[r].cache_key, EncodeCached(wanted[r].cache_key, reads[r].result));
    }
  }
  if (!keep.empty()) cache_->Put(keep);
  return out;
}

void RadosStore::TakeFromCache(std::span<const ChunkRef> refs, std::vector<Wanted>* wanted,
                               std::vector<absl::StatusOr<ChunkRecord>>* out) {
  std::vector<std::string> keys;
  for (const Wanted& one : *wanted) {
    if (!one.cache_key.empty()) keys.push_back(one.cache_key);
  }
  if (keys.empty()) return;
  const std::vector<std::optional<std::string>> cached = cache_->Get(keys);
  std::vector<Wanted> missing;
  size_t next = 0;
  for (Wanted& one : *wanted) {
    const std::optional<std::string>* const found =
        one.cache_key.empty() ? nullptr : &cached[next++];
    if (found != nullptr && *found) {
      absl::StatusOr<ChunkRecord> chunk = FromCache(one.cache_key, refs[one.place], **found);
      if (chunk.ok()) {
        ++cache_hits_;
        (*out)[one.place] = std::move(chunk);
        continue;
      }
      ++cache_damaged_;
      LogWarning("read again from the pool: {}", std::string(chunk.status().message()));
    }
    if (found != nullptr) ++cache_misses_;
    missing.push_back(std::move(one));
  }
  *wanted = std::move(missing);
}

}  // namespace recollect::store::rados
