#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/retrievals.h"
#include "cli/common/session_options.h"
#include "cli/verbs/verbs.h"

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

void AddRequestFlags(CLI::App& verb, v1::GenerateRequest& request) {
  AddAnswerFlags(verb, request);
  AddOption(verb, "--logprobs", request, &v1::GenerateRequest::set_logprobs,
            "With --json: the log probability of each token, and of so many of the likeliest")
      ->type_name("N");
  verb.add_flag_callback(
      "--ignore-eos", [&request] { request.set_ignore_eos(true); },
      "Continue after the end-of-text token");
  verb.add_flag_callback(
      "--stop-repetition", [&request] { request.set_stop_repetition(true); },
      "Stop once the text only repeats itself");
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
