#include "engine/session/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/io/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/lexicon.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {

Session::Session(const model::Model& model, store::SessionChunks& store, ChunkTiers& tiers,
                 LandmarkIndex& landmark_index, const SessionOptions& options,
                 int64_t position_limit, std::unique_ptr<SequenceState> sequence,
                 std::vector<Pin> mounts)
    : model_(model),
      store_(store),
      tiers_(tiers),
      landmark_index_(landmark_index),
      landmarks_(model.config().landmarks()),
      rewinds_(model.config().rewinds()),
      at_end_(landmarks_ && model.config().landmark_at == model::LandmarkAt::kEnd),
      reads_own_(model.config().landmark_reads == model::LandmarkReads::kOwn),
      chunk_tokens_(model.config().chunk_tokens),
      reach_(model.lexicon() != nullptr ? model.lexicon()->reach() : 0),
      pointer_reach_(model.config().pointer.reach),
      mount_as_(options.mount_as),
      random_chunks_(options.random_chunks),
      text_tokens_(options.text_tokens),
      position_limit_(position_limit),
      mounts_(std::move(mounts)),
      mount_ids_(options.mounts),
      sequence_(std::move(sequence)) {}

absl::Status Session::CheckLimit(int64_t more) const {
  if (position_limit_ == 0 || positions_ + more <= position_limit_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("context: ", more, " tokens after ",
                                                 positions_.load(), ", at most ", position_limit_,
                                                 " in all"));
}

void Session::Plan(Input& input, int64_t limit, HeadRows head, PlannedRows& piece) {
  piece.sequence = sequence_.get();
  piece.ids.clear();
  piece.segments.clear();
  piece.landmarks.clear();
  piece.closed.clear();
  piece.open_row = 0;
  piece.head.clear();
  predictor_ = -1;
  const auto predict = [&](size_t index, int32_t target) {
    RECOLLECT_CHECK(predictor_ >= 0);
    piece.head.push_back({predictor_, static_cast<int64_t>(index), target, Recent(pointer_reach_)});
  };
  if (!landmarks_ && !Recalls()) input.next_flush = input.flushes.size();  // nothing to do there
  if (Recalls() && input.next_flush < input.flushes.size()) {
    const int64_t rows = RowsBeforeRecall(input, head);
    if (rows > 0) {
      limit = std::min(limit, rows);
    } else if (PlaceRecall(input, piece)) {
      limit = 0;
    }
  }
  piece.first_position = positions_ - piece.rows();
  // The row that would predict has run in an earlier piece, or there is none.
  if (at_end_ && head == HeadRows::kLast && input.next_token == input.tokens.size()) return;
  if (landmarks_ && !at_end_ && positions_ == 0) PlaceLandmark(piece);
  // A landmark at a block's end runs in the piece of its last token, whose logits are still needed.
  while (piece.rows() < limit || (at_end_ && input.FlushIsNext())) {
    if (!again_.empty()) {
      PlaceToken(piece, TakeToken(input));
      continue;
    }
    if (landmarks_ && input.FlushIsNext()) {
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
    if (head == HeadRows::kAll && predictor_ >= 0) predict(input.next_token, id);
    PlaceToken(piece, id);
    ++input.next_token;
    if (at_end_ && BlockIsFull()) PlaceLandmark(piece);
  }
  if (piece.rows() == 0) return;
  const bool predicts_after = head == HeadRows::kAll && input.after.has_value();
  if (input.done() && (head == HeadRows::kLast || predicts_after)) {
    // The last row of a full block predicts nothing; the next landmark does.
    if (BlockIsFull()) PlaceLandmark(piece);
    predicts_after ? predict(input.next_token, *input.after) : predict(0, -1);
  }
  const bool token_follows =
      input.next_token < input.tokens.size() && !input.FlushIsNext() && !BlockIsFull();
  if (head == HeadRows::kAll && token_follows) {
    predict(input.next_token, input.tokens[input.next_token]);
  }
}

bool Session::Rewind(int64_t length) {
  if (!rewinds_ || std::ssize(read_tokens_) != positions_ || !sequence_->Rewind(length)) {
    return false;
  }
  read_tokens_.resize(static_cast<size_t>(length));
  positions_ = open_rows_ = open_tokens_ = length;
  again_.clear();
  if (length <= recalled_from_) {
    recalled_from_ = -1;
    memory_ = nullptr;
  }
  carry.reset();
  return true;
}

void Session::Mount(std::vector<Pin> mounts, const SessionOptions& options) {
  RECOLLECT_CHECK(model_.config().has_adapter() && recalled_from_ < 0);
  mounts_ = std::move(mounts);
  mount_ids_ = options.mounts;
  mount_as_ = options.mount_as;
  random_chunks_ = options.random_chunks;
  text_tokens_ = options.text_tokens;
}

void Session::Unmount() {
  mounts_.clear();
  mount_ids_.clear();
  memory_ = nullptr;
}

int64_t Session::RowsBeforeRecall(const Input& input, HeadRows head) {
  const int64_t left = input.flushes[input.next_flush] - static_cast<int64_t>(input.next_token);
  // Rows that predict tokens of the input may not know what comes after them, which the flush asks
  // with: they run before it.
  if (head == HeadRows::kAll && left > 0) return std::ssize(again_) + left;
  if (recalled_from_ >= 0) RunAgain(recalled_from_);
  return std::max<int64_t>(std::ssize(again_) + left - chunk_tokens_, 0);
}

void Session::RunAgain(int64_t first) {
  std::deque<int32_t> again(read_tokens_.begin() + first, read_tokens_.end());
  again.insert(again.end(), again_.begin(), again_.end());
  const std::optional<int32_t> carried = carry;
  // Where the layers cannot, these rows stay as they are, and only later ones read what is found.
  if (!Rewind(first)) return;
  carry = carried;
  again_ = std::move(again);
}

int32_t Session::TakeToken(Input& input) {
  if (again_.empty()) return input.tokens[input.next_token++];
  const int32_t id = again_.front();
  again_.pop_front();
  return id;
}

bool Session::PlaceRecall(Input& input, PlannedRows& piece) {
  const int64_t flush = input.flushes[input.next_flush++];
  int64_t rows = std::ssize(again_) + flush - static_cast<int64_t>(input.next_token);
  if (const int64_t missing = std::min<int64_t>(chunk_tokens_ - rows, positions_); missing > 0) {
    RunAgain(positions_ - missing);
    rows = std::ssize(again_) + flush - static_cast<int64_t>(input.next_token);
  }
  if (rows == 0) return false;
  memory_ = std::make_shared<LandmarkMemory>();
  memory_->groups.resize(1);
  recalled_from_ = positions_;
  std::vector<int32_t> asking;
  for (int64_t row = 0; row < rows; ++row) {
    asking.push_back(TakeToken(input));
    PlaceToken(piece, asking.back());
  }
  piece.landmarks.push_back({rows - 1, 0, std::move(asking), memory_});
  return true;
}

void Session::PlaceLandmark(PlannedRows& piece) {
  if (!at_end_ && positions_ > 0) CloseBlock(piece);
  // The chunk that it closes is no candidate yet: the window still covers it. The landmark that a
  // sequence begins with closes none, and retrieves nothing.
  std::shared_ptr<LandmarkMemory> memory;
  const int64_t closes = at_end_ ? closed_blocks_ : closed_blocks_ - 1;
  if (closes >= 0) {
    memory = std::make_shared<LandmarkMemory>();
    memory->groups.resize(model_.config().groups.size());
    piece.landmarks.push_back({piece.rows(), closes, Recent(reach_), memory});
  }
  if (reads_own_) memory_ = memory;
  if (!at_end_) predictor_ = piece.rows();
  PlaceRow(piece, model_.config().lmk_id);
  memory_ = std::move(memory);
  if (at_end_) CloseBlock(piece);
}

void Session::PlaceToken(PlannedRows& piece, int32_t id) {
  predictor_ = piece.rows();
  PlaceRow(piece, id);
  ++open_tokens_;
  if (rewinds_) read_tokens_.push_back(id);
  if (reach_ > 0 || pointer_reach_ > 0) {
    const auto kept = static_cast<size_t>(std::max(reach_, chunk_tokens_ + pointer_reach_));
    // Not with every token: what is in front moves each time.
    if (recent_.size() >= 2 * kept) {
      recent_.erase(recent_.begin(), recent_.end() - static_cast<int64_t>(kept));
    }
    recent_.push_back(id);
  }
  if (model_.tokenizer() != nullptr) {
    text_bytes_ += static_cast<int64_t>(model_.tokenizer()->TokenBytes(id).size());
  }
}

void Session::PlaceRow(PlannedRows& piece, int32_t id) {
  if (piece.segments.empty() || piece.segments.back().memory != memory_ ||
      piece.segments.back().rows == model::LayerState::kMaxAppend) {
    piece.segments.push_back({piece.rows(), 0, memory_});
  }
  ++piece.segments.back().rows;
  piece.ids.push_back(id);
  ++open_rows_;
  ++positions_;
}

void Session::CloseBlock(PlannedRows& piece) {
  const int64_t here = piece.rows() - piece.open_row;
  piece.closed.push_back({open_rows_ - here, piece.open_row, open_rows_,
                          Recent(pointer_reach_ + open_tokens_), block_text_begin_, text_bytes_});
  piece.open_row = piece.rows();
  ++closed_blocks_;
  open_rows_ = open_tokens_ = 0;
  block_text_begin_ = text_bytes_;
}

std::vector<int32_t> Session::Recent(int64_t count) const {
  const int64_t there = std::min(count, std::ssize(recent_));
  return {recent_.end() - there, recent_.end()};
}

void Session::DropMemory() {
  if (memory_ == nullptr) return;
  memory_->question.clear();
  memory_->more = {};
  for (LandmarkMemory::Group& group : memory_->groups) {
    group.retrieved.chunks.clear();
    group.chunks.clear();
  }
}

absl::Status Session::Begin(model::LocalState state, int32_t last_token) {
  RECOLLECT_CHECK(!landmarks_ && positions_ == 0);
  positions_ = open_rows_ = open_tokens_ = state.length();
  carry = last_token;
  return sequence_->Begin(std::move(state));
}

void Session::Candidates(int64_t own, std::vector<KeyRun>& runs) const {
  runs.clear();
  for (const Pin& pin : mounts_) runs.push_back(pin->keys());
  if (own > 0) runs.push_back({own_keys_.get(), own});
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

absl::Status Session::AddChunk(const ClosedBlock& block, model::EncodedChunk chunk) {
  model_.AddTokens(block.tokens, chunk);
  last_key_ = chunk.landmark_key;
  if (!owner_.has_value()) {
    ASSIGN_OR_RETURN(owner_, store_.NewSessionOwner());
  }
  store::ChunkRecord record;
  record.states = std::move(chunk.states);
  record.rows = chunk.rows;
  record.tokens = std::move(chunk.tokens);
  record.text_begin = block.text_begin;
  record.text_end = block.text_end;
  RETURN_IF_ERROR(tiers_.PutOwn({*owner_, own_chunks_}, std::move(record)));
  if (own_keys_ == nullptr) {
    ASSIGN_OR_RETURN(own_keys_, landmark_index_.Keep(chunk.landmark_key));
  } else {
    RETURN_IF_ERROR(own_keys_->Append(chunk.landmark_key));
  }
  ++own_chunks_;
  return absl::OkStatus();
}

Session::~Session() {
  if (!owner_.has_value()) return;
  const absl::Status freed = OrExhausted("freeing a session's chunks", [&] {
    const MemoryScope scope(MemoryScope::kTake);
    tiers_.EraseOwner(*owner_);
    return store_.FreeSession(*owner_);
  });
  // A store that is opened again clears all sessions.
  if (!freed.ok()) LogWarning("freeing a session's chunks: {}", freed.ToString());
}

SessionInfo Session::info() const {
  SessionInfo info;
  info.mounts = mount_ids_;
  info.positions = positions_;
  info.own_chunks = own_chunks_;
  return info;
}

}  // namespace recollect::engine
