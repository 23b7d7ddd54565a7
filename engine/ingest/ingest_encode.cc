// What an ingest job makes of its tokens: blocks, and of each the record of a chunk.
#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "base/numeric/mxint8.h"
#include "base/status.h"
#include "engine/ingest/ingest.h"
#include "model/block_ends.h"

namespace recollect::engine {
namespace {

// Of a document that is kept as text, between two looks at what its account may read: a few
// milliseconds.
constexpr int64_t kTextSliceTokens = 4096;

}  // namespace

IngestJob::Slice IngestJob::BlocksLocked(int64_t end, bool final, int64_t most_tokens) const {
  std::span<const int32_t> left = queue_.waiting(end - queue_.encoded());
  Slice slice;
  while (slice.tokens < most_tokens) {
    const int64_t block = model::NextBlock(context_.model, left, final,
                                           /*position=*/queue_.encoded() + slice.tokens);
    if (block == 0 || (slice.tokens > 0 && slice.tokens + block > most_tokens)) break;
    slice.blocks.push_back(block);
    slice.tokens += block;
    left = left.subspan(static_cast<size_t>(block));
  }
  return slice;
}

// At least one block, if the end of any is decided.
IngestJob::Slice IngestJob::SliceLocked(int64_t most_tokens) const {
  if (!failed_.ok() || publishing_ || queue_.encoded() == queue_.decided()) return {};
  // One commit may be on its way while the next one gathers, not more. One of a prefix reads the
  // state itself.
  if (committing_ && (prefix() || queue_.uncommitted() >= CommitAfterLocked())) return {};
  if (open_end_.has_value() && !append_point_.has_value()) {
    Slice open = BlocksLocked(*open_end_, /*final=*/false, most_tokens);
    if (open.tokens > 0 || !all_read_) return open;
  }
  const int64_t end = queue_.decided() - HeldBack();
  Slice slice = BlocksLocked(end, all_read_, most_tokens);
  if (all_read_ && queue_.encoded() + slice.tokens == end) slice.tokens += HeldBack();
  return slice;
}

bool IngestJob::AllEncodedLocked() const {
  return failed_.ok() && all_read_ && !publishing_ && queue_.encoded() == queue_.decided();
}

bool IngestJob::MayRead() const {
  return quota_.account == nullptr || quota_.account->CheckTokens().ok();
}

bool IngestJob::HasWorkLocked(bool may_read) const {
  return (may_read && SliceLocked(/*most_tokens=*/1).tokens > 0) || AllEncodedLocked() ||
         CommitIsWantedLocked();
}

// One whose account has read too much waits, and its caller with it; the scheduler asks again. That
// is all that it does for a document that is kept as text.
bool IngestJob::HasSlice() {
  const bool may_read = MayRead();
  MutexLock lock(mutex_);
  return kind_ == DocumentKind::kText ? may_read && waits_ : HasWorkLocked(may_read);
}

void IngestJob::RunSlice(int64_t most_tokens) {
  if (kind_ != DocumentKind::kText) return EncodeSlice(most_tokens);
  {
    MutexLock lock(mutex_);
    waits_ = false;
  }
  context_.thread->Post([self = shared_from_this()] { self->GoOn(); });
}

void IngestJob::GoOn() {
  if (kind_ != DocumentKind::kText) return context_.wake();
  while (true) {
    const bool may_read = MayRead();
    {
      MutexLock lock(mutex_);
      waits_ = !may_read && SliceLocked(/*most_tokens=*/1).tokens > 0;
      if (waits_ && CommitIsWantedLocked()) StartCommit(/*last=*/false);
      if (waits_ || !HasWorkLocked(may_read)) return;
    }
    EncodeSlice(kTextSliceTokens);
  }
}

void IngestJob::EncodeSlice(int64_t most_tokens) {
  const absl::Status encoded = OrExhausted("an ingest", [&] { return Encode(most_tokens); });
  encoded.ok() ? Settle() : Fail(encoded);
}

void IngestJob::StartDueCommit() {
  TakeAppendPoint();
  if (!failed_.ok()) return;
  if (AllEncodedLocked()) {
    StartCommit(/*last=*/true);
  } else if (CommitIsWantedLocked() || CommitIsDueLocked()) {
    StartCommit(/*last=*/false);
  }
}

IngestJob::Slice IngestJob::TakeSlice(int64_t most_tokens) {
  MutexLock lock(mutex_);
  TakeAppendPoint();
  Slice slice = SliceLocked(most_tokens);
  const auto ids = queue_.waiting(slice.tokens), bytes = queue_.waiting_bytes(slice.tokens);
  slice.ids.assign(ids.begin(), ids.end());
  slice.bytes.assign(bytes.begin(), bytes.end());
  slice.text_begin = queue_.text_end();
  if (slice.tokens == 0) StartDueCommit();
  return slice;
}

absl::StatusOr<std::vector<model::EncodedChunk>> IngestJob::EncodeBlocks(
    const std::vector<Block>& blocks) {
  if (kind_ == DocumentKind::kText) {
    std::vector<model::EncodedChunk> chunks(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) chunks[i].rows = static_cast<int>(blocks[i].size());
    return chunks;
  }
  if (!prefix()) return encoder_->Encode(blocks);
  int64_t tokens = 0;
  for (const Block& block : blocks) tokens += std::ssize(block);
  RETURN_IF_ERROR(context_.state_budget.CheckRoom(StateGrowth(context_.model.config(), tokens)));
  auto chunks = encoder_->Encode(blocks);
  if (chunks.ok()) context_.state_budget.Set(charge_, encoder_->bytes());
  return chunks;
}

absl::Status IngestJob::RunOpenSegment() {
  std::vector<Block> blocks;
  const auto most = static_cast<size_t>(context_.model.config().chunk_tokens);
  for (auto left = std::span<const int32_t>(open_segment_); !left.empty();) {
    blocks.push_back(left.first(std::min(left.size(), most)));
    left = left.subspan(blocks.back().size());
  }
  if (!blocks.empty()) RETURN_IF_ERROR(encoder_->Encode(blocks).status());
  open_segment_.clear();
  return absl::OkStatus();
}

store::ChunkRecord IngestJob::MakeRecord(Block block, model::EncodedChunk& chunk) {
  before_.insert(before_.end(), block.begin(), block.end());
  context_.model.AddTokens(before_, chunk);
  before_.erase(before_.begin(), before_.end() - std::min(std::ssize(before_), reach_));
  store::ChunkRecord record;
  record.tokens = std::move(chunk.tokens);
  record.rows = chunk.rows;
  record.states = std::move(chunk.states);
  if (!record.states.empty() && context_.chunk_states_format == ChunkStatesFormat::kMxInt8) {
    record.mxint8 = RoundToMxInt8(record.states);
  }
  return record;
}

absl::Status IngestJob::Encode(int64_t most_tokens) {
  RETURN_IF_ERROR(CheckMemory());
  const Slice slice = TakeSlice(most_tokens);
  if (slice.tokens == 0) return absl::OkStatus();
  RETURN_IF_ERROR(RunOpenSegment());
  std::vector<Block> blocks;
  auto left = std::span(slice.ids);
  for (const int64_t tokens : slice.blocks) {
    blocks.push_back(left.first(static_cast<size_t>(tokens)));
    left = left.subspan(static_cast<size_t>(tokens));
  }
  ASSIGN_OR_RETURN(std::vector<model::EncodedChunk> chunks, EncodeBlocks(blocks));
  std::vector<store::ChunkRecord> records;
  std::vector<Bf16> keys;
  int64_t text_end = slice.text_begin;
  size_t token = 0;
  for (model::EncodedChunk& chunk : chunks) {
    store::ChunkRecord& record = records.emplace_back(MakeRecord(blocks[records.size()], chunk));
    record.text_begin = text_end;
    for (int row = 0; row < record.rows; ++row) text_end += slice.bytes[token++];
    record.text_end = text_end;
    keys.insert(keys.end(), chunk.landmark_key.begin(), chunk.landmark_key.end());
  }
  context_.counters.ingested_tokens += slice.tokens;
  if (quota_.account != nullptr) quota_.account->SpendTokens(slice.tokens);
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(failed_);
  std::move(records.begin(), records.end(), std::back_inserter(batch_.chunks));
  batch_.landmark_keys.insert(batch_.landmark_keys.end(), keys.begin(), keys.end());
  queue_.MarkEncoded(slice.tokens);
  chunks_ += std::ssize(records);
  StartDueCommit();
  return absl::OkStatus();
}

bool IngestJob::IsEncodedLocked(int64_t tokens) const {
  const int64_t left = tokens - queue_.encoded();
  return left <= 0 || model::NextBlock(context_.model, queue_.waiting(left), /*final=*/false,
                                       queue_.encoded()) == 0;
}

}  // namespace recollect::engine
