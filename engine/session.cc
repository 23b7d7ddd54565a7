#include "engine/session.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"

namespace recollect::engine {

void Piece::Reset(int64_t position) {
  first_position = position;
  ids.clear();
  segments.clear();
  closed.clear();
  head.clear();
  active = false;
  stage = 0;
  waiting = false;
  status = absl::OkStatus();
  selections.clear();
  wanted.clear();
  fetch_status = absl::OkStatus();
  fetch_done = false;
  retrievals.clear();
}

Session::Session(const model::Model& model, store::DocumentStore& store, ChunkTiers& tiers,
                 const SessionOptions& options, const model::LocalPatterns& pattern,
                 std::vector<Pin> mounts)
    : model_(model),
      store_(store),
      tiers_(tiers),
      landmarks_(model.config().landmarks()),
      random_chunks_(options.random_chunks),
      mounts_(std::move(mounts)),
      mount_ids_(options.mounts),
      local_(model::LocalState::Create(model.config(), pattern, model.config().layers())) {}

void Session::Plan(Input& input, int64_t limit, HeadRows head, Piece& piece) {
  piece.Reset(positions_);
  piece.session = this;
  if (!landmarks_) input.next_flush = input.flushes.size();  // there is no block to close
  if (landmarks_ && positions_ == 0) PlaceLandmark(piece);
  while (piece.rows() < limit) {
    if (input.FlushIsNext()) {
      ++input.next_flush;
      if (open_tokens_ > 0) PlaceLandmark(piece);
      continue;
    }
    if (input.next_token == input.tokens.size()) break;
    if (BlockIsFull()) {
      PlaceLandmark(piece);
      continue;
    }
    const int32_t id = input.tokens[input.next_token];
    if (head == HeadRows::kAll && piece.rows() > 0) {
      piece.head.push_back({piece.rows() - 1, static_cast<int64_t>(input.next_token), id});
    }
    PlaceToken(piece, id);
    ++input.next_token;
  }
  if (piece.rows() == 0) return;
  if (head == HeadRows::kLast && input.done()) {
    // The last row of a full block predicts nothing; the next landmark does.
    if (BlockIsFull()) PlaceLandmark(piece);
    piece.head.push_back({piece.rows() - 1, 0, -1});
  }
  const bool token_follows =
      input.next_token < input.tokens.size() && !input.FlushIsNext() && !BlockIsFull();
  if (head == HeadRows::kAll && token_follows) {
    piece.head.push_back(
        {piece.rows() - 1, static_cast<int64_t>(input.next_token), input.tokens[input.next_token]});
  }
  piece.active = true;
}

void Session::PlaceLandmark(Piece& piece) {
  if (positions_ > 0) {
    const PieceSegment here = piece.segments.empty() ? PieceSegment{} : piece.segments.back();
    const int64_t rows = 1 + open_tokens_;
    piece.closed.push_back(
        {block_, rows - here.rows, here.first_row, rows, block_text_begin_, text_bytes_});
    ++block_;
    open_memory_ = std::make_shared<BlockMemory>();
    open_memory_->groups.resize(model_.config().groups.size());
  }
  piece.segments.push_back({piece.rows(), 1, true, block_, open_memory_});
  piece.ids.push_back(model_.config().lmk_id);
  open_tokens_ = 0;
  block_text_begin_ = text_bytes_;
  ++positions_;
}

void Session::PlaceToken(Piece& piece, int32_t id) {
  // A segment lies in one block, or, where there are none, is as long as the model takes.
  const bool full = !landmarks_ && !piece.segments.empty() &&
                    piece.segments.back().rows == model::LayerState::kMaxAppend;
  if (piece.segments.empty() || full) {
    piece.segments.push_back({piece.rows(), 0, false, block_, open_memory_});
  }
  ++piece.segments.back().rows;
  piece.ids.push_back(id);
  ++open_tokens_;
  if (model_.tokenizer() != nullptr) {
    text_bytes_ += static_cast<int64_t>(model_.tokenizer()->TokenBytes(id).size());
  }
  ++positions_;
}

void Session::Begin(model::LocalState state, int32_t last_token) {
  RECOLLECT_CHECK(!landmarks_ && positions_ == 0);
  local_ = std::move(state);
  positions_ = open_tokens_ = local_.length();
  carry = last_token;
}

void Session::Candidates(int64_t block, std::vector<kernels::KeySegment>& segments) const {
  segments.clear();
  for (const Pin& pin : mounts_) segments.push_back(pin->keys());
  if (block >= 2) segments.push_back({own_keys_.data(), block - 1});
}

Session::Candidate Session::Resolve(int64_t candidate) const {
  for (size_t i = 0; i < mounts_.size(); ++i) {
    const store::DocumentInfo& info = mounts_[i]->info();
    if (candidate < info.chunks) return {static_cast<int>(i), {info.owner, candidate}};
    candidate -= info.chunks;
  }
  RECOLLECT_CHECK(owner_.has_value() && candidate < own_chunks_);
  return {-1, {*owner_, candidate}};
}

absl::Status Session::AddChunk(model::EncodedChunk chunk, int64_t text_begin, int64_t text_end) {
  if (!owner_.has_value()) {
    ASSIGN_OR_RETURN(owner_, store_.NewSessionOwner());
  }
  store::ChunkRecord record;
  record.states = std::move(chunk.states);
  record.rows = chunk.rows;
  record.text_begin = text_begin;
  record.text_end = text_end;
  RETURN_IF_ERROR(tiers_.PutOwn({*owner_, own_chunks_}, std::move(record)));
  own_keys_.insert(own_keys_.end(), chunk.landmark_key.begin(), chunk.landmark_key.end());
  ++own_chunks_;
  return absl::OkStatus();
}

void Session::FreeChunks() {
  if (!owner_.has_value()) return;
  tiers_.EraseOwner(*owner_);
  if (const absl::Status status = store_.FreeSession(*owner_); !status.ok()) {
    // A store that is opened again clears all sessions.
    LogWarning("freeing a session's chunks: {}", status.ToString());
  }
  owner_.reset();
}

SessionInfo Session::info() const {
  SessionInfo info;
  info.mounts = mount_ids_;
  info.positions = positions_;
  info.own_chunks = own_chunks_;
  return info;
}

}  // namespace recollect::engine
