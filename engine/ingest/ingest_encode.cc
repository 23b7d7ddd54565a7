#include "engine/ingest/ingest_encode.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numeric/mxint8.h"
#include "base/status.h"
#include "engine/session/prefix_state.h"
#include "model/block_ends.h"

namespace recollect::engine {

void IngestSlice::Fill(const TokenQueue& queue) {
  const auto waiting = queue.waiting(tokens), covered = queue.waiting_bytes(tokens);
  ids.assign(waiting.begin(), waiting.end());
  bytes.assign(covered.begin(), covered.end());
  text_begin = queue.text_end();
}

int64_t HeldBack(const model::Model& model) {
  return model.config().documents() == DocumentKind::kPrefix ? 1 : 0;
}

IngestSlice WholeBlocks(const model::Model& model, const TokenQueue& queue, int64_t end, bool final,
                        int64_t most_tokens) {
  IngestSlice slice;
  if (end <= queue.encoded()) return slice;
  std::span<const int32_t> left = queue.waiting(end - queue.encoded());
  while (slice.tokens < most_tokens) {
    const int64_t block =
        model::NextBlock(model, left, final, /*position=*/queue.encoded() + slice.tokens);
    if (block == 0 || (slice.tokens > 0 && slice.tokens + block > most_tokens)) break;
    slice.blocks.push_back(block);
    slice.tokens += block;
    left = left.subspan(static_cast<size_t>(block));
  }
  return slice;
}

IngestSlice NextSlice(const model::Model& model, const TokenQueue& queue, bool final,
                      std::optional<int64_t> pause, int64_t most_tokens) {
  if (pause.has_value()) {
    IngestSlice open = WholeBlocks(model, queue, *pause, /*final=*/false, most_tokens);
    if (open.tokens > 0 || !final) return open;
  }
  const int64_t held_back = HeldBack(model), end = queue.decided() - held_back;
  IngestSlice slice = WholeBlocks(model, queue, end, final, most_tokens);
  if (final && queue.encoded() + slice.tokens == end) slice.tokens += held_back;
  return slice;
}

absl::StatusOr<std::unique_ptr<SliceEncoder>> SliceEncoder::Create(
    const IngestContext& context, const model::LocalPatterns& pattern, const ResumeState& state,
    const store::IngestProgress& progress) {
  std::unique_ptr<SliceEncoder> made(new SliceEncoder(context, progress.owner));
  if (made->kind_ != DocumentKind::kText) {
    ASSIGN_OR_RETURN(made->encoder_, context.backend.NewEncoder(pattern));
  }
  RETURN_IF_ERROR(made->Restore(state, progress));
  const model::ModelConfig& config = context.model.config();
  const auto before = std::min<int64_t>(progress.tokens, config.pointer.reach);
  ASSIGN_OR_RETURN(made->before_, context.reader.ReadTokens(
                                      progress.owner, progress.tokens - before, progress.tokens));
  if (const int64_t segment = config.adapter.segment_tokens; segment > 0) {
    const int64_t begin = progress.tokens - progress.tokens % segment;
    ASSIGN_OR_RETURN(made->open_segment_,
                     context.reader.ReadTokens(progress.owner, begin, progress.tokens));
  }
  return made;
}

absl::Status SliceEncoder::Restore(const ResumeState& state,
                                   const store::IngestProgress& progress) {
  if (kind_ == DocumentKind::kText) {
    if (state.local_state.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("resume state has ", state.local_state.size(),
                                            " bytes of layers, of a document that none reads"));
  }
  if (!state.local_state.empty()) {
    return encoder_->Restore(state.local_state, progress.tokens + progress.chunks);
  }
  if (progress.state_bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      model::LocalState local,
      RestoreState(context_.model, encoder_->patterns(), context_.reader,
                   {owner_, progress.state_bytes, state.tokens}, context_.state_budget, charge_));
  RETURN_IF_ERROR(encoder_->Begin(std::move(local)));
  context_.state_budget.Set(charge_, encoder_->bytes());
  return absl::OkStatus();
}

absl::StatusOr<std::string> SliceEncoder::LocalState() const {
  const bool kept = kind_ == DocumentKind::kChunks && !context_.model.config().has_adapter();
  return kept ? encoder_->Serialize() : "";
}

absl::Status SliceEncoder::WriteState(store::IngestBatch& batch) const {
  if (kind_ != DocumentKind::kPrefix) return absl::OkStatus();
  ASSIGN_OR_RETURN(batch.state_bytes, PutState(*encoder_, context_.writer, owner_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::EncodedChunk>> SliceEncoder::EncodeBlocks(
    const std::vector<Block>& blocks, const ThreadPool::Pause& pause) {
  if (kind_ == DocumentKind::kText) {
    std::vector<model::EncodedChunk> chunks(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) chunks[i].rows = static_cast<int>(blocks[i].size());
    return chunks;
  }
  if (kind_ == DocumentKind::kChunks) return encoder_->Encode(blocks, pause);
  int64_t tokens = 0;
  for (const Block& block : blocks) tokens += std::ssize(block);
  const int64_t growth = StateGrowth(context_.model.config(), tokens);
  RETURN_IF_ERROR(context_.state_budget.CheckRoom(growth));
  context_.state_budget.Set(charge_, encoder_->bytes() + growth);  // sessions grow in the pauses
  auto chunks = encoder_->Encode(blocks, pause);
  if (chunks.ok()) context_.state_budget.Set(charge_, encoder_->bytes());
  return chunks;
}

absl::Status SliceEncoder::RunOpenSegment(const ThreadPool::Pause& pause) {
  std::vector<Block> blocks;
  const auto most = static_cast<size_t>(context_.model.config().chunk_tokens);
  for (auto left = std::span<const int32_t>(open_segment_); !left.empty();) {
    blocks.push_back(left.first(std::min(left.size(), most)));
    left = left.subspan(blocks.back().size());
  }
  if (!blocks.empty()) RETURN_IF_ERROR(encoder_->Encode(blocks, pause).status());
  open_segment_.clear();
  return absl::OkStatus();
}

store::ChunkRecord SliceEncoder::MakeRecord(Block block, model::EncodedChunk& chunk) {
  before_.insert(before_.end(), block.begin(), block.end());
  context_.model.AddTokens(before_, chunk);
  const auto reach = static_cast<ptrdiff_t>(context_.model.config().pointer.reach);
  before_.erase(before_.begin(), before_.end() - std::min(std::ssize(before_), reach));
  store::ChunkRecord record;
  record.tokens = std::move(chunk.tokens);
  record.rows = chunk.rows;
  record.states = std::move(chunk.states);
  if (!record.states.empty() && context_.chunk_states_format == ChunkStatesFormat::kMxInt8) {
    record.mxint8 = RoundToMxInt8(record.states);
  }
  return record;
}

absl::StatusOr<EncodedSlice> SliceEncoder::Encode(const IngestSlice& slice,
                                                  const ThreadPool::Pause& pause) {
  RETURN_IF_ERROR(RunOpenSegment(pause));
  std::vector<Block> blocks;
  auto left = std::span(slice.ids);
  for (const int64_t tokens : slice.blocks) {
    blocks.push_back(left.first(static_cast<size_t>(tokens)));
    left = left.subspan(static_cast<size_t>(tokens));
  }
  ASSIGN_OR_RETURN(std::vector<model::EncodedChunk> chunks, EncodeBlocks(blocks, pause));
  EncodedSlice encoded;
  int64_t text_end = slice.text_begin;
  size_t token = 0;
  const std::atomic<int64_t> nothing_beside{0};
  for (model::EncodedChunk& chunk : chunks) {
    if (pause) pause(nothing_beside);  // one thread makes records, and a slice has many
    store::ChunkRecord record = MakeRecord(blocks[encoded.chunks.size()], chunk);
    record.text_begin = text_end;
    for (int row = 0; row < record.rows; ++row) text_end += slice.bytes[token++];
    record.text_end = text_end;
    encoded.chunks.push_back(std::move(record));
    encoded.landmark_keys.insert(encoded.landmark_keys.end(), chunk.landmark_key.begin(),
                                 chunk.landmark_key.end());
  }
  return encoded;
}

}  // namespace recollect::engine
