// Drafts of one answer about documents: its likeliest first tokens, each continued greedily from
// the prompt's end, and the likeliest spans of the reader, all at once, in branches of the session.
// The judge of the memory adapter chooses one, with which the answer goes on
// (docs/decisions/0076-a-judge-of-drafts.md, 0077-a-reader-of-blocks.md).
//
//   drafts.Begin(probabilities at the prompt's end, told, blocks, reading);
//   while (drafts.NextRows() are not empty)
//     run them, with drafts.Choose for each row's logits, and then drafts.AddChoices()
//   drafts.Best({})
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/rows.h"
#include "engine/session/mounts.h"
#include "engine/session/session.h"
#include "engine/step/log_softmax.h"
#include "engine/types.h"
#include "model/judge.h"
#include "model/model.h"

namespace recollect::engine {

class Drafts {
 public:
  struct Draft {
    std::vector<ChosenLogprob> chosen;  // the tokens in order, and the end if it has one
    bool ended = false;
    std::vector<int32_t> span = {};  // the tokens that it has to begin with; empty: none
    size_t spans_at = 0;             // where that span is in the reading
    double score = 0;                // from Best on
  };

  // `question`: the tokens of the user's last message. REQUIRES: the model has a judge; it outlives
  // this.
  Drafts(const model::Model& model, std::vector<int32_t> question);

  std::span<const int32_t> question() const { return question_; }
  int64_t tokens() const;  // the most of a draft
  bool begun() const { return !drafts_.empty(); }

  // Begins the drafts. `told`: how many likeliest tokens ChosenLogprob::top has in each place.
  // `reading`: of the blocks; without spans where there is no reader. Borrows the blocks' tokens.
  void Begin(const LogSoftmax& first, int64_t told, std::vector<model::ReadBlock> blocks,
             model::Reading reading);
  int64_t count() const { return std::ssize(drafts_); }

  bool complete() const;  // all of them
  // The last token of each draft that is not complete. The branch of a draft has its number.
  const std::vector<Session::BranchRow>& NextRows();
  // Chooses what follows the row `head.index` of NextRows. May be called for several of them at
  // once.
  void Choose(const HeadRow& head, std::span<const float> logits);
  // Adds what was chosen for all of them. INTERNAL: a row has no token to choose.
  absl::Status AddChoices();

  // Judges the drafts. Returns the best one of those that begin with these tokens; null if none
  // does. REQUIRES: all are complete.
  const Draft* Best(std::span<const int32_t> beginning);
  // Returns the block whose span the draft begins with, with that span as its quote. `memory`: has
  // the blocks. REQUIRES: it begins with one.
  Hit Quoted(const Draft& draft, const LandmarkMemory& memory, std::span<const Pin> mounts) const;
  // Returns all that was judged. `memory`: has the blocks. REQUIRES: Best.
  JudgedDrafts Judged(const LandmarkMemory& memory, std::span<const Pin> mounts) const;

 private:
  bool complete(const Draft& draft) const {
    return draft.ended || std::ssize(draft.chosen) == tokens();
  }
  std::span<const int32_t> TokensOf(const model::Span& span) const;
  std::string TextOf(std::span<const int32_t> tokens) const;  // UTF-8
  void AddSpanDrafts(const LogSoftmax& first, const std::vector<TokenLogprob>& top);

  const model::Model& model_;
  const std::vector<int32_t> question_;
  int64_t told_ = 0;
  std::vector<model::ReadBlock> blocks_;
  model::Reading reading_;
  std::vector<Draft> drafts_;
  std::vector<Session::BranchRow> rows_;
  std::vector<ChosenLogprob> choices_;  // by row
};

}  // namespace recollect::engine
