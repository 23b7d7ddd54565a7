#include "engine/ingest/ingest_input.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/step/prepare.h"
#include "model/text/tokenizer.h"
#include "store/hash_text.h"

namespace recollect::engine {
namespace {

// Text that is tokenised at once. Short, because the tokens of one part may have to be stored with
// a commit that falls into it; long enough that the call costs nothing.
constexpr size_t kPartBytes = 4096;
constexpr int64_t kHashedTokens = int64_t{1} << 20;  // at once

}  // namespace

absl::Status InputReader::Read(InputPiece piece, const Sink& out) {
  return from_tokens_ ? ReadTokens(std::move(piece.tokens), out)
                      : ReadText(piece.text, piece.final, out);
}

absl::Status InputReader::ReadText(std::string_view text, bool final, const Sink& out) {
  while (!text.empty()) {
    // A part that decided nothing is tried again only at twice its length: text without a place to
    // cut it stays linear.
    const size_t target = std::max(kPartBytes, 2 * tried_);
    const size_t take = std::min(text.size(), target - std::min(target, undecided_.size()));
    undecided_.append(text.substr(0, take));
    text.remove_prefix(take);
    if (undecided_.size() >= target) RETURN_IF_ERROR(Decide(/*final=*/false, out));
  }
  return final ? Decide(/*final=*/true, out) : absl::OkStatus();
}

absl::Status InputReader::Decide(bool final, const Sink& out) {
  if (undecided_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(model::Tokenizer::Encoded encoded,
                   model_.tokenizer()->EncodePrefix(undecided_, final, offset_));
  if (encoded.consumed > 0) {
    offset_ += encoded.consumed;
    out({std::move(encoded.ids), std::move(encoded.token_bytes),
         undecided_.substr(0, static_cast<size_t>(encoded.consumed)), offset_});
    undecided_.erase(0, static_cast<size_t>(encoded.consumed));
  }
  tried_ = undecided_.size();
  return absl::OkStatus();
}

absl::Status InputReader::ReadTokens(std::vector<int32_t> tokens, const Sink& out) {
  RETURN_IF_ERROR(CheckTokenIds(model_.config(), tokens, offset_));
  DecidedTokens decided;
  for (const int32_t id : tokens) {
    std::string_view text;
    if (model_.tokenizer() != nullptr) text = model_.tokenizer()->TokenBytes(id);
    decided.bytes.push_back(static_cast<int32_t>(text.size()));
    decided.text.append(text);
  }
  offset_ += std::ssize(tokens);
  decided.input_offset = offset_;
  decided.ids = std::move(tokens);
  out(std::move(decided));
  return absl::OkStatus();
}

absl::StatusOr<std::string> HashInput(store::DocumentReader& store,
                                      const store::IngestProgress& progress) {
  const int64_t length = progress.input_offset;
  if (length == 0) return "";
  Sha256 hash;
  if (!progress.from_tokens) {
    RETURN_IF_ERROR(store::HashText(store, progress.owner, length, hash));
    return hash.Hex();
  }
  for (int64_t begin = 0; begin < length; begin += kHashedTokens) {
    ASSIGN_OR_RETURN(
        const std::vector<int32_t> tokens,
        store.ReadTokens(progress.owner, begin, std::min(length, begin + kHashedTokens)));
    hash.Update({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)});
  }
  return hash.Hex();
}

TokenQueue::TokenQueue(bool from_tokens, int64_t tokens, int64_t text_end, int64_t committed_text,
                       DecidedTokens pending)
    : from_tokens_(from_tokens),
      first_(tokens),
      encoded_(tokens),
      text_end_(text_end),
      ids_(std::move(pending.ids)),
      bytes_(std::move(pending.bytes)),
      committed_text_(committed_text) {
  marks_.push_back({decided(), pending.input_offset, committed_text});
}

void TokenQueue::Push(DecidedTokens decided_tokens) {
  ids_.insert(ids_.end(), decided_tokens.ids.begin(), decided_tokens.ids.end());
  bytes_.insert(bytes_.end(), decided_tokens.bytes.begin(), decided_tokens.bytes.end());
  text_.append(decided_tokens.text);
  if (from_tokens_) return;
  marks_.push_back({decided(), decided_tokens.input_offset,
                    committed_text_ + static_cast<int64_t>(text_.size())});
}

std::span<const int32_t> TokenQueue::waiting(int64_t count) const {
  return std::span(ids_).subspan(static_cast<size_t>(encoded_ - first_),
                                 static_cast<size_t>(count));
}

std::span<const int32_t> TokenQueue::waiting_bytes(int64_t count) const {
  return std::span(bytes_).subspan(static_cast<size_t>(encoded_ - first_),
                                   static_cast<size_t>(count));
}

void TokenQueue::MarkEncoded(int64_t count) {
  for (const int32_t bytes : waiting_bytes(count)) text_end_ += bytes;
  encoded_ += count;
}

TokenQueue::Place TokenQueue::place() const {
  if (from_tokens_) return {encoded_, text_end_, {}, {}};  // every token is a place to resume at
  const auto mark = std::find_if(marks_.begin(), marks_.end(), [this](const Mark& candidate) {
    return candidate.tokens >= encoded_;
  });
  RECOLLECT_CHECK(mark != marks_.end());
  const auto ids = waiting(mark->tokens - encoded_), bytes = waiting_bytes(mark->tokens - encoded_);
  return {
      mark->input_offset, mark->text_end, {ids.begin(), ids.end()}, {bytes.begin(), bytes.end()}};
}

TokenQueue::Place TokenQueue::Commit(store::IngestBatch& batch) {
  Place at = place();
  const int64_t count = encoded_ - first_;
  batch.tokens.assign(ids_.begin(), ids_.begin() + count);
  ids_.erase(ids_.begin(), ids_.begin() + count);
  bytes_.erase(bytes_.begin(), bytes_.begin() + count);
  first_ = encoded_;
  while (!from_tokens_ && marks_.front().tokens < encoded_) marks_.pop_front();
  const size_t text_bytes = static_cast<size_t>(at.text_end - committed_text_);
  RECOLLECT_CHECK(text_bytes <= text_.size());
  batch.text = text_.substr(0, text_bytes);
  text_.erase(0, text_bytes);
  committed_text_ = at.text_end;
  batch.input_offset = at.input_offset;
  return at;
}

}  // namespace recollect::engine
