// Drafts of one answer about documents: its likeliest first tokens, each continued greedily from
// the prompt's end, one after the other. The judge of the memory adapter chooses one, with which
// the answer goes on (docs/decisions/0076-a-judge-of-drafts.md).
//
//   std::optional<Drafts::Next> next = drafts.Begin(likeliest, top);
//   for (; next.has_value(); next = drafts.Add(chosen, ends))
//     run next->token, after rewinding to the prompt's end if it begins a draft
//   drafts.Best(blocks)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/types.h"
#include "model/judge.h"

namespace recollect::engine {

class Drafts {
 public:
  struct Next {
    int32_t token = -1;
    bool begins = false;  // a draft
  };
  struct Draft {
    std::vector<ChosenLogprob> chosen;  // the tokens in order, and the end if it has one
    bool ended = false;
  };

  // `question`: the tokens of the user's last message. The judge must outlive this.
  Drafts(const model::Judge& judge, std::vector<int32_t> question)
      : judge_(judge), question_(std::move(question)) {}

  // How many likeliest tokens Begin takes.
  int64_t count() const { return judge_.config().drafts; }
  int64_t tokens() const { return judge_.config().draft_tokens; }  // the most of a draft

  bool begun() const { return !drafts_.empty(); }
  // Begins a draft with each of the tokens that are likeliest at the prompt's end, none of which
  // may end the answer. `top`: ChosenLogprob::top there, which is the same for all of them.
  Next Begin(std::span<const TokenLogprob> likeliest, const std::vector<TokenLogprob>& top);
  // Goes on after the token that has run. `ends`: with `chosen` the draft comes to its end.
  std::optional<Next> Add(const ChosenLogprob& chosen, bool ends);
  // The draft with the best score. REQUIRES: Add has returned nothing.
  Draft& Best(std::span<const model::ReadBlock> blocks);

 private:
  const model::Judge& judge_;
  const std::vector<int32_t> question_;
  std::vector<Draft> drafts_;
  size_t running_ = 0;
};

}  // namespace recollect::engine
