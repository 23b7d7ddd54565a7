#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>

#include "base/status.h"
#include "cli/connection.h"
#include "cli/json.h"
#include "cli/session_options.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

struct ScoreOptions {
  SessionFlags session;
  PromptFlags text;
  std::vector<int64_t> flush_after;
  int32_t top_logprobs = 0;
};

absl::Status Score(const Options& common, const ScoreOptions& options) {
  v1::ScoreRequest request;
  ASSIGN_OR_RETURN(*request.mutable_session(), ToSessionOptions(options.session));
  ASSIGN_OR_RETURN(*request.mutable_prompt(), ToPrompt(options.text));
  if (request.prompt().text().empty())
    return absl::InvalidArgumentError("--text: empty, needs text");
  request.mutable_flush_after()->Add(options.flush_after.begin(), options.flush_after.end());
  request.set_top_logprobs(options.top_logprobs);
  ASSIGN_OR_RETURN(const auto connection,
                   Connection::Open(common, request.session().mounts().empty()));
  ASSIGN_OR_RETURN(const v1::ScoreResponse result, connection->client().Score(request));
  const double nats = -std::accumulate(result.logprobs().begin(), result.logprobs().end(), 0.0);
  // Where no landmark begins a sequence the first token follows nothing and has no probability.
  const auto scored = std::count_if(result.argmax().begin(), result.argmax().end(),
                                    [](int32_t id) { return id >= 0; });
  const double per_token = nats / static_cast<double>(std::max<std::ptrdiff_t>(1, scored));
  const double bits_per_byte = nats / std::log(2.0) / std::max<double>(1, result.text_bytes());
  if (common.json) {
    Json json = {
        {"bits_per_byte", bits_per_byte}, {"nats_per_token", per_token}, {"total_logprob", -nats}};
    json.update(ToJson(result));
    if (options.top_logprobs == 0) {
      json.erase("top_ids");
      json.erase("top_logprobs");
    }
    PrintJson(json);
  } else {
    std::printf("%d tokens, %lld bytes: %.4f bits per byte, %.4f nats per token, perplexity %.2f\n",
                result.tokens_size(), static_cast<long long>(result.text_bytes()), bits_per_byte,
                per_token, std::exp(per_token));
  }
  return absl::OkStatus();
}

}  // namespace

void AddScore(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand("score", "Log probabilities of a given text");
  auto options = std::make_shared<ScoreOptions>();
  AddPromptFlags(*verb, "--text", options->text);
  AddSessionFlags(*verb, options->session);
  verb->add_option("--flush-after", options->flush_after,
                   "Close the block after this many tokens; may be repeated")
      ->type_name("TOKENS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_option("--top-logprobs", options->top_logprobs,
                   "With --json: also so many of the likeliest tokens in each place")
      ->check(CLI::Range(0, 20))
      ->type_name("N");
  verb->footer(
      "\nExamples:\n"
      "  recollect score --text 'Call me Ishmael.'\n"
      "  recollect score --mount moby --text-file chapter.txt --json\n" +
      std::string(kCommonHelp));
  verb->callback([&command, options, verb] {
    RequirePrompt(*verb, "--text");
    command.run = [&command, options] { return Score(command.options, *options); };
  });
}

}  // namespace recollect::cli
