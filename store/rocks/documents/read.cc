// Reading by owner. Sizes come from the table of owners, so that a record that is missing or short
// is told from a question beyond the end.
#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/pieces.h"
#include "store/rocks/db/status.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {
absl::Status RocksStore::ReadPieces(OwnerId owner, EntryKind kind, int64_t begin, int64_t end,
                                    const TakePiece& take) {
  // Bounded, so that a long range needs no second copy of itself.
  constexpr int64_t kAtOnce = 16;
  ASSIGN_OR_RETURN(const Owner known, FindOwner(owner));
  const PieceFacts& facts = FactsOf(kind);
  const int64_t size = facts.entries, entries = known.*facts.size;
  RETURN_IF_ERROR(CheckRange(facts.range, begin, end, entries));
  if (begin == end) return absl::OkStatus();
  const int64_t last = (end - 1) / size + 1;
  for (int64_t at = begin / size; at < last; at += kAtOnce) {
    std::vector<std::string> keys;
    for (int64_t i = at; i < std::min(last, at + kAtOnce); ++i) keys.push_back(PieceKey(owner, i));
    absl::Status result;
    const auto visit = [&](size_t i, const rocksdb::Status& status, absl::string_view record) {
      if (!result.ok()) return;
      const int64_t index = at + static_cast<int64_t>(i), first = index * size;
      const std::string name = PieceName(facts.name, owner, index);
      // More than expected is fine: a commit may have come between.
      result =
          status.IsNotFound() ? Missing(name)
          : !status.ok()
              ? FromRocks(status, name)
              : take({keys[i], name, record, first, std::min(size, entries - first), INT64_MAX});
    };
    RETURN_IF_ERROR(OfDocument(owner, Guarded(facts.name, [&]() -> absl::Status {
                                 database_->MultiGet(FamilyOf(kind), keys, visit);
                                 return result;
                               })));
  }
  return absl::OkStatus();
}

// Each thread has its own segments.
absl::Status RocksStore::FillLandmarkKeys(OwnerId owner, int64_t chunks, int64_t d_k, Bf16* keys) {
  ASSIGN_OR_RETURN(const Owner known, FindOwner(owner));
  RETURN_IF_ERROR(CheckRange("chunk", 0, chunks, known.chunks));
  const int64_t segments = (chunks + kSegmentKeys - 1) / kSegmentKeys;
  std::vector<absl::Status> read(static_cast<size_t>(segments));
  std::atomic<bool> failed{false};
  read_pool_.ParallelFor(segments, [&](int64_t i, int) {
    if (failed) return;
    const int64_t begin = i * kSegmentKeys, end = std::min(begin + kSegmentKeys, chunks);
    absl::Status& status = read[static_cast<size_t>(i)];
    status = ReadPieces(owner, EntryKind::kKeys, begin, end, [&](const PieceRecord& piece) {
      return CopyKeys(piece, begin, end, d_k, keys + begin * d_k);
    });
    if (!status.ok()) failed = true;
  });
  for (const absl::Status& status : read) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RocksStore::ReadStatePart(OwnerId owner, int64_t index) {
  ASSIGN_OR_RETURN(const Owner known, FindOwner(owner));
  RETURN_IF_ERROR(CheckRange("state part", index, index + 1, StateParts(known.state_bytes)));
  const int64_t number = known.first_state_part + index;
  const std::string key = PieceKey(owner, number);
  const std::string what = PieceName("state part", owner, number);
  absl::StatusOr<std::string> part = database_->Get(Family::kChunks, key, what);
  if (absl::IsNotFound(part.status())) part = Missing(what);
  if (part.ok()) part = DecodeStatePart(key, std::string(*part), what, index, known.state_bytes);
  if (!part.ok()) return OfDocument(owner, part.status());
  return part;
}

std::vector<absl::StatusOr<ChunkRecord>> RocksStore::ReadChunks(std::span<const ChunkRef> refs) {
  std::vector<absl::StatusOr<ChunkRecord>> out(
      refs.size(), absl::StatusOr<ChunkRecord>(absl::UnknownError("not read")));
  // Where each ref lies, in the order of the disk.
  struct Read {
    size_t place;
    std::string key;
  };
  std::vector<Read> reads[2];  // documents' chunks, sessions' chunks
  {
    ReaderLock lock(owners_mutex_);
    for (size_t i = 0; i < refs.size(); ++i) {
      const ChunkRef& ref = refs[i];
      const auto found = owners_.find(ref.owner);
      const bool session = found != owners_.end() && found->second.kind == Kind::kSession;
      if (found == owners_.end() || ref.index < 0 ||
          (!session && ref.index >= found->second.chunks)) {
        out[i] = NoChunk(ref);
      } else {
        reads[session ? 1 : 0].push_back({i, PieceKey(ref.owner, ref.index)});
      }
    }
  }
  for (const bool session : {false, true}) {
    std::vector<Read>& list = reads[session ? 1 : 0];
    if (list.empty()) continue;
    std::sort(list.begin(), list.end(), [](const Read& a, const Read& b) { return a.key < b.key; });
    std::vector<std::string> keys;
    keys.reserve(list.size());
    for (const Read& read : list) keys.push_back(read.key);
    const auto take = [&](size_t i, const rocksdb::Status& status, absl::string_view record) {
      const ChunkRef& ref = refs[list[i].place];
      const std::string what = PieceName("chunk", ref.owner, ref.index);
      absl::StatusOr<ChunkRecord>& result = out[list[i].place];
      if (status.IsNotFound()) {
        result = session ? NoChunk(ref) : Missing(what);
      } else if (!status.ok()) {
        result = FromRocks(status, what);
      } else {
        result = DecodeChunk(keys[i], record, what);
      }
    };
    const Family family = session ? Family::kSessions : Family::kChunks;
    const auto count = static_cast<int64_t>(list.size());
    const int64_t parts = std::clamp<int64_t>(count / kMinReads, 1, kReadThreads);
    // Parts touch results of their own.
    read_pool_.ParallelFor(parts, [&](int64_t part, int) {
      const auto first = static_cast<size_t>(count * part / parts);
      const auto last = static_cast<size_t>(count * (part + 1) / parts);
      const std::span<const std::string> some(keys.data() + first, last - first);
      const absl::Status read = Guarded("chunks", [&]() -> absl::Status {
        database_->MultiGet(family, some,
                            [&](size_t i, const rocksdb::Status& status, absl::string_view record) {
                              take(first + i, status, record);
                            });
        return absl::OkStatus();
      });
      for (size_t i = first; i < last && !read.ok(); ++i) out[list[i].place] = read;
    });
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    if (!out[i].ok()) out[i] = OfDocument(refs[i].owner, out[i].status());
  }
  return out;
}

absl::StatusOr<std::string> RocksStore::ReadAppendPoint(OwnerId owner) {
  ASSIGN_OR_RETURN(const Owner known, FindOwner(owner));
  if (known.kind == Kind::kIngest) return NoAppendPoint(owner);
  const std::string key = ResumeKey(owner);
  const std::string what = absl::StrCat("append point of owner ", static_cast<uint64_t>(owner));
  absl::StatusOr<std::string> point = database_->Get(Family::kIngests, key, what);
  if (absl::IsNotFound(point.status())) return NoAppendPoint(owner);
  if (point.ok()) point = DecodeResume(key, std::string(*point), what);
  if (!point.ok()) return OfDocument(owner, point.status());
  return point;
}

}  // namespace recollect::store::rocks
