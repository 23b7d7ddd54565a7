#include "cli/common/answer_flags.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "cli/common/flags.h"

namespace recollect::cli {
namespace {

// On the wire 0 stands for 1: what rounds to it still means next to nothing.
float TopP(double top_p) {
  const double least = top_p > 0 ? std::numeric_limits<float>::min() : 0;
  return static_cast<float>(std::max(top_p, least));
}

}  // namespace

void AddAnswerFlags(CLI::App& verb, v1::GenerateRequest& request) {
  v1::Sampling& sampling = *request.mutable_sampling();
  AddOption(verb, "--max-tokens", request, &v1::GenerateRequest::set_max_tokens,
            "Stop after this many")
      ->default_str("128");
  verb.add_option_function<std::vector<std::string>>(
          "--stop",
          [&request](const std::vector<std::string>& stops) {
            request.mutable_stop()->Assign(stops.begin(), stops.end());
          },
          "Stop before this text; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->allow_extra_args(false)  // or "[a]" would be read as a list
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddOption(verb, "--temperature", sampling, &v1::Sampling::set_temperature,
            "0: the most likely token each time")
      ->default_str("0");
  verb.add_option_function<double>(
          "--top-p", [&sampling](double top_p) { sampling.set_top_p(TopP(top_p)); },
          "Draw from the likeliest tokens of this total probability")
      ->default_str("1");
  AddOption(verb, "--top-k", sampling, &v1::Sampling::set_top_k,
            "Draw from this many likeliest tokens; 0: all")
      ->default_str("0");
  AddOption(verb, "--seed", sampling, &v1::Sampling::set_seed, "Same seed, same tokens")
      ->transform(Seed())
      ->default_str("0");
  AddOption(verb, "--dry-multiplier", sampling, &v1::Sampling::set_dry_multiplier,
            "DRY: strength of the penalty on tokens that would repeat what this call has "
            "generated; 0: none, 0.8 is usual")
      ->default_str("0");
  AddOption(verb, "--dry-allowed-length", sampling, &v1::Sampling::set_dry_allowed_length,
            "Length of a repetition that DRY does not penalise")
      ->check(CLI::Range(1, 64))
      ->default_str("2");
}

}  // namespace recollect::cli
