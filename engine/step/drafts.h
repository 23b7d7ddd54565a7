// Drafts of one answer about documents: its likeliest first tokens, each continued greedily from
// the prompt's end, all at once, in branches of the session. The judge of the memory adapter
// chooses one, with which the answer goes on (docs/decisions/0076-a-judge-of-drafts.md).
//
//   drafts.Begin(likeliest, top);
//   while (drafts.NextRows() are not empty)
//     run them, and for each drafts.Add(row.branch, chosen, ends)
//   drafts.Best(blocks)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/session/session.h"
#include "engine/types.h"
#include "model/judge.h"

namespace recollect::engine {

class Drafts {
 public:
  struct Draft {
    std::vector<ChosenLogprob> chosen;  // the tokens in order, and the end if it has one
    bool ended = false;
  };

  // `question`: the tokens of the user's last message. The judge must outlive this.
  Drafts(const model::Judge& judge, std::vector<int32_t> question)
      : judge_(judge), question_(std::move(question)) {}

  // How many likeliest tokens Begin takes.
  int64_t likeliest() const { return judge_.config().drafts; }
  int64_t tokens() const { return judge_.config().draft_tokens; }  // the most of a draft

  bool begun() const { return !drafts_.empty(); }
  // Begins a draft with each of the tokens that are likeliest at the prompt's end, none of which
  // may end the answer. `top`: ChosenLogprob::top there, which is the same for all of them.
  void Begin(std::span<const TokenLogprob> likeliest, const std::vector<TokenLogprob>& top);
  int64_t count() const { return std::ssize(drafts_); }
  // The last token of each draft that is not complete. The branch of a draft has its number.
  std::vector<Session::BranchRow> NextRows() const;
  // Adds what follows the last token. `ends`: with `chosen` the draft comes to its end.
  void Add(size_t draft, ChosenLogprob chosen, bool ends);
  // The draft with the best score. REQUIRES: all are complete.
  Draft& Best(std::span<const model::ReadBlock> blocks);

 private:
  const model::Judge& judge_;
  const std::vector<int32_t> question_;
  std::vector<Draft> drafts_;
};

}  // namespace recollect::engine
