#include "engine/session/tiers.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/streams.h"

namespace recollect::engine {

ChunkTiers::ChunkTiers(const model::ModelConfig& config, store::DocumentReader& reader,
                       store::SessionChunks& sessions, Backend& backend,
                       int64_t memory_budget_bytes, int64_t chunk_states_budget_bytes,
                       Executor& fetchers, Counters& counters)
    : config_(config),
      reader_(reader),
      sessions_(sessions),
      backend_(backend),
      fetchers_(fetchers),
      counters_(counters),
      memory_(memory_budget_bytes),
      host_(chunk_states_budget_bytes) {}

int64_t ChunkTiers::LookUp(std::span<WantedChunk> wanted) {
  int64_t memory = 0, states = 0, missing = 0;
  std::vector<WantedChunk*> to_upload;
  for (WantedChunk& chunk : wanted) {
    if ((chunk.memory = memory_.Find(chunk.ref)) != nullptr) {
      chunk.tier = Tier::kMemory;
      ++memory;
    } else if ((chunk.record = host_.Find(chunk.ref)) != nullptr) {
      chunk.tier = Tier::kStates;
      if (chunk.read_by_model) to_upload.push_back(&chunk);
      ++states;
    } else {
      chunk.tier = Tier::kStore;
      ++missing;
    }
  }
  BeginUpload(to_upload);
  counters_.chunk_hits_memory += memory;
  counters_.chunk_hits_states += states;
  counters_.chunk_hits_store += missing;
  return missing;
}

void ChunkTiers::Fetch(std::span<WantedChunk> wanted, std::function<void(absl::Status)> done) {
  const bool posted = fetchers_.Post(
      [this, wanted, done] { done(OrExhausted("reading chunks", [&] { return Read(wanted); })); });
  if (!posted) done(ShuttingDown());
}

absl::Status ChunkTiers::Read(std::span<WantedChunk> wanted) {
  std::vector<ChunkRef> refs;
  std::vector<WantedChunk*> chunks;
  for (WantedChunk& chunk : wanted) {
    if (chunk.memory != nullptr || chunk.record != nullptr) continue;
    refs.push_back(chunk.ref);
    chunks.push_back(&chunk);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<absl::StatusOr<store::ChunkRecord>> records = reader_.ReadChunks(refs);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  counters_.store_read_ms.Add(took.count() * 1e3);
  counters_.store_read_s.Observe(took.count());
  ++counters_.store_reads;
  std::vector<WantedChunk*> to_upload;
  for (size_t i = 0; i < chunks.size(); ++i) {
    absl::Status status = records[i].status();
    if (status.ok() && static_cast<int64_t>(records[i]->states.size()) !=
                           records[i]->rows * config_.state_width()) {
      status = absl::DataLossError(
          absl::StrCat("chunk ", refs[i].index, ": ", records[i]->states.size(), " numbers in ",
                       records[i]->rows, " rows, expected ", config_.state_width(), " in each"));
    }
    if (!status.ok()) {
      counters_.CountError(status);
      return status;
    }
    counters_.store_read_bytes += records[i]->stored_states_bytes();
    if (chunks[i]->read_by_model || chunks[i]->read_by_reader) {
      chunks[i]->record = Keep(refs[i], *std::move(records[i]));
      if (chunks[i]->read_by_model) to_upload.push_back(chunks[i]);
    } else {
      // Reports are as many as a request likes: their states would take memory that no budget
      // knows, and push out what streams read.
      records[i]->states = {};
      chunks[i]->record = std::make_shared<const store::ChunkRecord>(*std::move(records[i]));
    }
  }
  BeginUpload(to_upload);
  return absl::OkStatus();
}

void ChunkTiers::BeginUpload(std::span<WantedChunk* const> chunks) {
  if (chunks.empty()) return;
  std::vector<const store::ChunkRecord*> records;
  for (const WantedChunk* chunk : chunks) records.push_back(chunk->record.get());
  auto uploaded = backend_.BeginUpload(records);
  for (size_t i = 0; i < uploaded.size(); ++i) chunks[i]->uploaded = std::move(uploaded[i]);
  counters_.staged_chunks += std::ssize(uploaded);
}

RecordHandle ChunkTiers::Keep(const ChunkRef& ref, store::ChunkRecord record) {
  const int64_t bytes = record.bytes();
  RecordHandle kept = host_.Insert(ref, std::move(record), bytes);
  // NOLINTNEXTLINE(bugprone-use-after-move): Insert has left it.
  return kept != nullptr ? kept : std::make_shared<const store::ChunkRecord>(std::move(record));
}

void ChunkTiers::TakeMemory(WantedChunk& wanted, ProjectedMemory memory) {
  const std::vector<int32_t>& tokens = wanted.record->tokens;
  const int64_t bytes =
      memory.bytes + static_cast<int64_t>(sizeof(ChunkMemory) + tokens.size() * sizeof(int32_t));
  ChunkMemory value{std::move(memory), wanted.record->text_begin, wanted.record->text_end, tokens};
  if (wanted.read_by_model) wanted.memory = memory_.Insert(wanted.ref, std::move(value), bytes);
  if (wanted.memory == nullptr)
    // NOLINTNEXTLINE(bugprone-use-after-move): Insert has left it.
    wanted.memory = std::make_shared<const ChunkMemory>(std::move(value));
  wanted.record = nullptr;
  wanted.uploaded = nullptr;
}

absl::Status ChunkTiers::PutOwn(ChunkRef ref, store::ChunkRecord record) {
  RETURN_IF_ERROR(sessions_.PutSessionChunk(ref, record));
  Keep(ref, std::move(record));
  return absl::OkStatus();
}

void ChunkTiers::EraseOwner(OwnerId owner) {
  memory_.EraseOwner(owner);
  host_.EraseOwner(owner);
}

}  // namespace recollect::engine
