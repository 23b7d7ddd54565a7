#include <unistd.h>

#include <algorithm>
#include <cstdio>
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
  client::GenerateRequest request;
  bool no_flush = false;
  bool hits = false;
};

absl::Status Generate(const Options& common, const GenerateOptions& options) {
  client::GenerateRequest request = options.request;
  ASSIGN_OR_RETURN(request.session, ToSessionOptions(options.session));
  ASSIGN_OR_RETURN(request.prompt, ToPrompt(options.prompt));
  for (const std::string& stop : request.stop) RETURN_IF_ERROR(CheckUtf8("--stop", stop));
  request.flush = !options.no_flush;
  request.with_retrievals = options.hits;
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, request.session.mounts.empty()));

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
  } else if (options.hits) {
    std::fflush(stdout);
    PrintRetrievals(connection->client(), result->retrievals, stderr);
  }
  return absl::OkStatus();
}

void AddSamplingFlags(CLI::App& verb, client::GenerateRequest& request) {
  verb.add_option("--max-tokens", request.max_tokens, "Stop after this many")
      ->capture_default_str();
  verb.add_option("--stop", request.stop, "Stop before this text; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->allow_extra_args(false)  // or "[a]" would be read as a list
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--temperature", request.sampling.temperature,
                  "0: the most likely token each time")
      ->capture_default_str();
  verb.add_option("--top-p", request.sampling.top_p,
                  "Draw from the likeliest tokens of this total probability")
      ->capture_default_str();
  verb.add_option("--top-k", request.sampling.top_k, "Draw from this many likeliest tokens; 0: all")
      ->capture_default_str();
  verb.add_option("--seed", request.sampling.seed, "Same seed, same tokens")
      ->check(Fits<uint64_t>())
      ->capture_default_str();
  verb.add_option("--dry-multiplier", request.sampling.dry_multiplier,
                  "DRY: strength of the penalty on tokens that would repeat what this call has "
                  "generated; 0: none, 0.8 is usual")
      ->capture_default_str();
  verb.add_option("--dry-allowed-length", request.sampling.dry_allowed_length,
                  "Length of a repetition that DRY does not penalise")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb.add_flag("--ignore-eos", request.ignore_eos, "Continue after the end-of-text token");
}

}  // namespace

void AddGenerate(CLI::App& app, Command& command) {
  CLI::App* verb =
      app.add_subcommand("generate", "Continue a prompt, recalling from mounted documents");
  auto options = std::make_shared<GenerateOptions>();
  AddPromptFlags(*verb, "--prompt", options->prompt);
  AddSessionFlags(*verb, options->session);
  AddSamplingFlags(*verb, options->request);
  verb->add_flag("--no-flush", options->no_flush,
                 "Keep the prompt's last block open: no retrieval with the whole prompt");
  verb->add_flag("--hits", options->hits,
                 "Show the retrieved chunks, with weight and tier, on standard error");
  verb->footer(
      "\nExamples:\n"
      "  recollect generate --mount moby --prompt 'The captain of the Pequod is' --max-tokens 32\n"
      "  recollect generate --mount moby,emma --prompt-file question.txt --stop . --hits\n"
      "  recollect generate --prompt 'Once' --temperature 0.8 --top-p 0.9 --seed 7 --json\n"
      "\n"
      "Standard output carries the generated text and nothing else.\n" +
      std::string(kCommonHelp));
  verb->callback([&command, options, verb] {
    // A mounted prefix is something to go on from.
    if (options->session.mounts.empty()) RequirePrompt(*verb, "--prompt");
    command.run = [&command, options] { return Generate(command.options, *options); };
  });
}

}  // namespace recollect::cli
