#include <map>
#include <utility>

#include "base/sha256.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "store/document_store.h"
#include "store/format.h"
#include "store/ingest_state.h"
#include "store/store_errors.h"

namespace recollect::store {
namespace {

// One lock around everything: made to be plainly right, not fast.
class MemoryStore final : public DocumentStore {
 public:
  absl::StatusOr<DocumentInfo> Get(const std::string& id) override {
    MutexLock lock(mutex_);
    return Published(id);
  }

  absl::StatusOr<std::vector<DocumentInfo>> List(const std::string& after, int64_t limit) override {
    MutexLock lock(mutex_);
    std::vector<DocumentInfo> out;
    for (auto it = catalog_.upper_bound(after);
         it != catalog_.end() && static_cast<int64_t>(out.size()) < limit; ++it) {
      out.push_back(it->second);
    }
    return out;
  }

  absl::StatusOr<DocumentInfo> Remove(const std::string& id) override {
    MutexLock lock(mutex_);
    auto node = catalog_.extract(id);
    if (node.empty()) return NoDocument(id);
    owners_.at(node.mapped().owner).removed = true;
    return std::move(node.mapped());
  }

  absl::StatusOr<DocumentInfo> ChangeMetadata(const std::string& id,
                                              const MetadataChange& change) override {
    MutexLock lock(mutex_);
    const auto found = catalog_.find(id);
    if (found == catalog_.end()) return NoDocument(id);
    ASSIGN_OR_RETURN(found->second.metadata, change(found->second.metadata));
    return found->second;
  }

  absl::StatusOr<OwnerId> BeginImport(const DocumentInfo& document) override {
    RETURN_IF_ERROR(CheckDocumentId(document.id));
    IngestProgress asked =
        AskedIngest(document.id, document.fingerprint, document.from_tokens, document.pattern);
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckAbsent(asked));
    asked.owner = OwnerId{next_owner_++};
    Owner& data = owners_[asked.owner];
    data.import = true;
    data.ingest.progress = asked;
    return asked.owner;
  }

  absl::Status AbandonImport(OwnerId owner) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* const data, FindIngest(owner));
    if (!data->import) return ImportHasEnded();
    owners_.erase(owner);
    return absl::OkStatus();
  }

  absl::Status Free(OwnerId owner) override {
    MutexLock lock(mutex_);
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return absl::OkStatus();
    if (!found->second.removed) return StillInUse(owner);
    owners_.erase(found);
    return absl::OkStatus();
  }

  absl::StatusOr<IngestProgress> Begin(const IngestProgress& asked) override {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckBegins(Published(asked.id), asked));
    if (const auto found = ingests_.find(asked.id); found != ingests_.end()) {
      const IngestProgress& progress = owners_.at(found->second).ingest.progress;
      RETURN_IF_ERROR(CheckResumable(progress, asked));
      return progress;
    }
    const OwnerId owner{next_owner_++};
    IngestProgress& progress = owners_[owner].ingest.progress;
    progress = asked;
    progress.owner = owner;
    ingests_.emplace(asked.id, owner);
    return progress;
  }

  absl::StatusOr<std::vector<IngestProgress>> ListIngests() override {
    MutexLock lock(mutex_);
    std::vector<IngestProgress> out;
    for (const auto& [id, owner] : ingests_) {
      out.push_back(owners_.at(owner).ingest.progress);
      out.back().resume_state.clear();
    }
    return out;
  }

  absl::Status PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(Owner* const data, FindIngest(owner));
    ASSIGN_OR_RETURN(data->ingest,
                     PutPart(data->ingest, index, static_cast<int64_t>(bytes.size())));
    if (index == 0) data->next_state.clear();
    data->next_state.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status CommitIngest(OwnerId owner, const IngestBatch& batch) override {
    MutexLock lock(mutex_);
    return Apply(owner, batch);
  }

  absl::StatusOr<DocumentInfo> PublishIngest(OwnerId owner, const IngestBatch& last) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* const found, FindIngest(owner));
    const IngestProgress progress = found->ingest.progress;
    if (found->import) RETURN_IF_ERROR(CheckAbsent(progress));
    const bool refresh = progress.replaces != OwnerId{};
    const absl::StatusOr<DocumentInfo> old = Published(progress.id);
    if (refresh && !CheckBegins(old, progress).ok()) return ReplacedHasGone(progress);
    RETURN_IF_ERROR(Apply(owner, last));
    Owner& data = owners_.at(owner);
    Sha256 hash;
    hash.Update(data.text);
    DocumentInfo info = MakeDocument(data.ingest, hash.Hex());
    Describe(last, refresh ? &*old : nullptr, &info);
    if (!data.import) ingests_.erase(info.id);
    data.kind = Kind::kDocument;
    data.ingest.progress.resume_state.clear();
    data.append_point = last.append_point;
    if (refresh) owners_.at(progress.replaces).removed = true;
    catalog_.insert_or_assign(info.id, info);
    return info;
  }

  absl::Status AbandonIngest(const std::string& id) override {
    MutexLock lock(mutex_);
    const auto found = ingests_.find(id);
    if (found == ingests_.end()) return NoIngest(id);
    owners_.erase(found->second);
    ingests_.erase(found);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Bf16>> ReadLandmarkKeyRange(OwnerId owner, int64_t begin, int64_t end,
                                                         int64_t d_k) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* data, Find(owner));
    RETURN_IF_ERROR(CheckRange("chunk", begin, end, data->ingest.progress.chunks));
    if (begin == end) return std::vector<Bf16>();
    if (d_k != data->ingest.d_k) {
      return WrongWidth(PieceName("landmark segment", owner, 0), data->ingest.d_k, d_k);
    }
    return std::vector<Bf16>(data->landmarks.begin() + begin * d_k,
                             data->landmarks.begin() + end * d_k);
  }

  std::vector<absl::StatusOr<ChunkRecord>> ReadChunks(std::span<const ChunkRef> refs) override {
    MutexLock lock(mutex_);
    std::vector<absl::StatusOr<ChunkRecord>> out;
    out.reserve(refs.size());
    for (const ChunkRef& ref : refs) out.push_back(ReadChunk(ref));
    return out;
  }

  absl::StatusOr<std::string> ReadText(OwnerId owner, int64_t begin, int64_t end) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* data, Find(owner));
    RETURN_IF_ERROR(CheckRange("text", begin, end, static_cast<int64_t>(data->text.size())));
    return data->text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  absl::StatusOr<std::vector<int32_t>> ReadTokens(OwnerId owner, int64_t begin,
                                                  int64_t end) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* data, Find(owner));
    RETURN_IF_ERROR(CheckRange("token", begin, end, static_cast<int64_t>(data->tokens.size())));
    return std::vector<int32_t>(data->tokens.begin() + begin, data->tokens.begin() + end);
  }

  absl::StatusOr<std::string> ReadStatePart(OwnerId owner, int64_t index) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* data, Find(owner));
    const auto bytes = static_cast<int64_t>(data->state.size());
    RETURN_IF_ERROR(CheckRange("state part", index, index + 1, StateParts(bytes)));
    return data->state.substr(static_cast<size_t>(index * kStatePartBytes), kStatePartBytes);
  }

  absl::StatusOr<std::string> ReadAppendPoint(OwnerId owner) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* data, Find(owner));
    if (data->append_point.empty()) return NoAppendPoint(owner);
    return data->append_point;
  }

  absl::Status PutIndex(OwnerId owner, absl::string_view bytes) override {
    MutexLock lock(mutex_);
    Owner* const data = FindKind(owner, Kind::kDocument);
    if (data == nullptr || data->removed) return NoDocumentOf(owner);
    if (bytes.empty()) return absl::InvalidArgumentError("an index of 0 bytes");
    data->index = std::string(bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadIndex(OwnerId owner) override {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Owner* data, Find(owner));
    if (data->index.empty()) return NoIndex(owner);
    return data->index;
  }

  absl::StatusOr<OwnerId> NewSessionOwner() override {
    MutexLock lock(mutex_);
    const OwnerId owner{next_owner_++};
    owners_[owner].kind = Kind::kSession;
    return owner;
  }

  absl::Status PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) override {
    RETURN_IF_ERROR(CheckChunk(chunk, ref.index, 0));
    MutexLock lock(mutex_);
    Owner* const data = FindKind(ref.owner, Kind::kSession);
    if (data == nullptr || ref.index < 0) return NoSessionFor(ref);
    data->chunks[ref.index] = chunk;
    return absl::OkStatus();
  }

  absl::Status FreeSession(OwnerId owner) override {
    MutexLock lock(mutex_);
    if (owners_.contains(owner) && FindKind(owner, Kind::kSession) == nullptr) {
      return StillInUse(owner);
    }
    owners_.erase(owner);
    return absl::OkStatus();
  }

  StoreState state() override {
    MutexLock lock(mutex_);
    int64_t bytes = 0;
    for (const auto& [owner, data] : owners_) {
      bytes += static_cast<int64_t>(data.text.size() + data.tokens.size() * sizeof(int32_t) +
                                    data.landmarks.size() * sizeof(Bf16) + data.state.size() +
                                    data.index.size() + data.append_point.size());
      for (const auto& [index, chunk] : data.chunks) bytes += chunk.bytes();
    }
    return {.bytes = bytes};
  }

 private:
  enum class Kind { kIngest, kDocument, kSession };
  struct Owner {
    Kind kind = Kind::kIngest;
    bool removed = false;
    bool import = false;  // made elsewhere
    IngestState ingest;
    std::map<int64_t, ChunkRecord> chunks;
    std::vector<Bf16> landmarks;
    std::vector<int32_t> tokens;
    std::string text, state, next_state, index, append_point;
  };

  absl::StatusOr<DocumentInfo> Published(const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = catalog_.find(id);
    if (found == catalog_.end()) return NoDocument(id);
    return found->second;
  }
  absl::Status CheckAbsent(const IngestProgress& asked) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RETURN_IF_ERROR(CheckBegins(Published(asked.id), asked));
    return ingests_.contains(asked.id) ? IsBeingIngested(asked.id) : absl::OkStatus();
  }

  absl::StatusOr<const Owner*> Find(OwnerId owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return NoOwner(owner);
    return &found->second;
  }

  absl::StatusOr<ChunkRecord> ReadChunk(const ChunkRef& ref) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSIGN_OR_RETURN(const Owner* data, Find(ref.owner));
    const auto found = data->chunks.find(ref.index);
    if (found == data->chunks.end()) return NoChunk(ref);
    return found->second;
  }

  // Null: there is none of that kind.
  Owner* FindKind(OwnerId owner, Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = owners_.find(owner);
    return found == owners_.end() || found->second.kind != kind ? nullptr : &found->second;
  }

  absl::StatusOr<Owner*> FindIngest(OwnerId owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Owner* const data = FindKind(owner, Kind::kIngest)) return data;
    return NoIngestOf(owner);
  }

  absl::Status Apply(OwnerId owner, const IngestBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSIGN_OR_RETURN(Owner* const found, FindIngest(owner));
    Owner& data = *found;
    ASSIGN_OR_RETURN(IngestState next, Advance(data.ingest, batch));
    int64_t index = data.ingest.progress.chunks;
    for (const ChunkRecord& chunk : batch.chunks) data.chunks[index++] = chunk;
    data.landmarks.insert(data.landmarks.end(), batch.landmark_keys.begin(),
                          batch.landmark_keys.end());
    data.tokens.insert(data.tokens.end(), batch.tokens.begin(), batch.tokens.end());
    data.text += batch.text;
    if (batch.state_bytes > 0) data.state = std::move(data.next_state);
    data.ingest = std::move(next);
    return absl::OkStatus();
  }

  Mutex mutex_;
  std::map<std::string, DocumentInfo> catalog_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, OwnerId> ingests_ ABSL_GUARDED_BY(mutex_);
  std::map<OwnerId, Owner> owners_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_owner_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace

std::unique_ptr<DocumentStore> CreateMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace recollect::store
