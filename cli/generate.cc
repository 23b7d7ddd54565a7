#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/connection.h"
#include "cli/json.h"
#include "cli/retrievals.h"
#include "cli/session_options.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

struct GenerateOptions {
  SessionFlags session;
  PromptFlags prompt;
  v1::GenerateRequest request;  // the rest
};

absl::Status Generate(const Options& common, const GenerateOptions& options) {
  v1::GenerateRequest request = options.request;
  ASSIGN_OR_RETURN(*request.mutable_session(), ToSessionOptions(options.session));
  ASSIGN_OR_RETURN(*request.mutable_prompt(), ToPrompt(options.prompt));
  for (const std::string& stop : request.stop()) RETURN_IF_ERROR(CheckUtf8("--stop", stop));
  ASSIGN_OR_RETURN(const auto connection,
                   Connection::Open(common, request.session().mounts().empty()));

  client::GenerateCallbacks callbacks;
  if (!common.json) {
    callbacks.on_tokens = [](const std::vector<int32_t>&, const std::string& text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
      return true;
    };
  }
  auto result = connection->client().Generate(request, callbacks);
  if (!common.json && isatty(STDOUT_FILENO) == 1) std::fputc('\n', stdout);
  RETURN_IF_ERROR(result.status());
  if (common.json) {
    PrintJson(ToJson(*result));
  } else if (request.with_retrievals()) {
    std::fflush(stdout);
    PrintRetrievals(connection->client(), result->retrievals, stderr);
  }
  return absl::OkStatus();
}

// On the wire 0 stands for 1: what rounds to it still means next to nothing.
float TopP(double top_p) {
  const double least = top_p > 0 ? std::numeric_limits<float>::min() : 0;
  return static_cast<float>(std::max(top_p, least));
}

// The defaults shown are the service's.
void AddRequestFlags(CLI::App& verb, v1::GenerateRequest& request) {
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
      ->check(Fits<uint64_t>())
      ->default_str("0");
  AddOption(verb, "--dry-multiplier", sampling, &v1::Sampling::set_dry_multiplier,
            "DRY: strength of the penalty on tokens that would repeat what this call has "
            "generated; 0: none, 0.8 is usual")
      ->default_str("0");
  AddOption(verb, "--dry-allowed-length", sampling, &v1::Sampling::set_dry_allowed_length,
            "Length of a repetition that DRY does not penalise")
      ->check(CLI::Range(1, 64))
      ->default_str("2");
  AddOption(verb, "--logprobs", request, &v1::GenerateRequest::set_logprobs,
            "With --json: the log probability of each token, and of so many of the likeliest")
      ->type_name("N");
  verb.add_flag_callback(
      "--ignore-eos", [&request] { request.set_ignore_eos(true); },
      "Continue after the end-of-text token");
  verb.add_flag_callback(
      "--no-flush", [&request] { request.set_flush(false); },
      "Keep the prompt's last block open: no retrieval with the whole prompt");
  verb.add_flag_callback(
      "--retrievals", [&request] { request.set_with_retrievals(true); },
      "Show the retrieved chunks, with weight and tier, on standard error");
}

}  // namespace

void AddGenerate(CLI::App& app, Command& command) {
  CLI::App* verb =
      app.add_subcommand("generate", "Continue a prompt, recalling from mounted documents");
  auto options = std::make_shared<GenerateOptions>();
  AddPromptFlags(*verb, "--prompt", options->prompt);
  AddSessionFlags(*verb, options->session);
  AddRequestFlags(*verb, options->request);
  verb->footer(
      "\nExamples:\n"
      "  recollect generate --mount moby --prompt 'The captain of the Pequod is' --max-tokens 32\n"
      "  recollect generate --mount moby,emma --prompt-file question.txt --stop . --retrievals\n"
      "  recollect generate --prompt 'Once' --temperature 0.8 --top-p 0.9 --seed 7 --json\n"
      "\n"
      "Standard output carries the generated text and nothing else.\n" +
      std::string(kCommonHelp));
  verb->callback([&command, options, verb] {
    // A mounted prefix is something to go on from.
    if (options->session.options.mounts().empty()) RequirePrompt(*verb, "--prompt");
    command.run = [&command, options] { return Generate(command.options, *options); };
  });
}

}  // namespace recollect::cli
