// Turns a document's input into decided tokens, and holds the tokens that wait to be encoded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

// Tokens that later input cannot change, and the text they stand for.
struct DecidedTokens {
  std::vector<int32_t> ids;
  std::vector<int32_t> bytes;  // bytes of text of each token
  std::string text;
  int64_t input_offset = 0;  // of the input after them, where an ingest may be resumed
};

// A piece of input: text or token ids, whichever the ingest takes.
struct InputPiece {
  std::string text = {};
  std::vector<int32_t> tokens = {};
  bool final = false;  // nothing follows
};

// Tokenises a stream of text, or checks a stream of tokens. Used by one thread at a time.
class InputReader {
 public:
  // `offset` is that of the next input.
  InputReader(const model::Model& model, bool from_tokens, int64_t offset)
      : model_(model), from_tokens_(from_tokens), offset_(offset) {}

  // Accepts `piece` and passes the tokens that it decides to `out`; those of text in parts of a few
  // kilobytes, so that an ingest can resume at every part's end and encoding can begin with the
  // first part. Small texts are gathered first. INVALID_ARGUMENT names the byte that is not UTF-8,
  // or an id that is reserved or unknown, and its index.
  using Sink = std::function<void(DecidedTokens)>;
  absl::Status Read(InputPiece piece, const Sink& out);

  // Decides what the text so far decides, without gathering more.
  absl::Status DecideAll(const Sink& out) { return Decide(/*final=*/false, out); }

 private:
  absl::Status ReadText(std::string_view text, bool final, const Sink& out);
  absl::Status ReadTokens(std::vector<int32_t> tokens, const Sink& out);
  absl::Status Decide(bool final, const Sink& out);

  const model::Model& model_;
  const bool from_tokens_;
  int64_t offset_;  // of the first byte of undecided_, or of the next token
  std::string undecided_;
  size_t tried_ = 0;  // bytes of undecided_ that have decided no token so far
};

// SHA-256 of the input up to the last commit, which is what the store has of it; empty before that.
// Blocks on the disk.
absl::StatusOr<std::string> HashInput(store::DocumentReader& store,
                                      const store::IngestProgress& progress);

// A first-in, first-out queue that counts tokens from the start of the document. Callers bound it:
// they send a piece when the one before is encoded. Guarded by its owner's mutex.
class TokenQueue {
 public:
  // `tokens` tokens, which cover `text_end` bytes of text, are already encoded; `pending` follows
  // them and is decided up to its input_offset.
  TokenQueue(bool from_tokens, int64_t tokens, int64_t text_end, int64_t committed_text,
             DecidedTokens pending);

  void Push(DecidedTokens decided);

  int64_t decided() const { return first_ + static_cast<int64_t>(ids_.size()); }
  int64_t encoded() const { return encoded_; }
  int64_t committed() const { return first_; }
  int64_t uncommitted() const { return encoded_ - first_; }  // of the encoded ones
  int64_t text_end() const { return text_end_; }             // of the encoded ones
  std::span<const int32_t> waiting(int64_t count) const;     // the next `count` ids
  std::span<const int32_t> waiting_bytes(int64_t count) const;
  void MarkEncoded(int64_t count);

  // Where an ingest that stops at this point is resumed.
  struct Place {
    int64_t input_offset = 0, text_end = 0;           // of the document's text, up to that offset
    std::vector<int32_t> pending_ids, pending_bytes;  // decided up to input_offset, not encoded
  };
  Place place() const;

  // Moves from the queue to `batch` what a commit at this point writes besides the chunks, which
  // ends at the place that is returned.
  Place Commit(store::IngestBatch& batch);

 private:
  // Input up to `input_offset` decides exactly `tokens` tokens and `text_end` bytes of text.
  struct Mark {
    int64_t tokens, input_offset, text_end;
  };

  const bool from_tokens_;
  int64_t first_ = 0;  // number of token ids_[0], the first that is not committed
  int64_t encoded_ = 0;
  int64_t text_end_ = 0;
  std::vector<int32_t> ids_, bytes_;
  std::string text_;  // of the document from committed_text_ on
  int64_t committed_text_ = 0;
  std::deque<Mark> marks_;  // for text; in token input every token is a mark
};

}  // namespace recollect::engine
