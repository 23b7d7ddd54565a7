#include "cli/session_options.h"

#include "base/status.h"
#include "cli/options.h"

namespace recollect::cli {

void AddSessionFlags(CLI::App& verb, SessionFlags& flags) {
  verb.add_option("--mount", flags.mounts,
                  "Documents to recall from, in order; repeated or with commas")
      ->type_name("NAME[,NAME…]")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--dilation", flags.dilation,
                  "Of local attention, one the model knows (default: the model's)");
  verb.add_flag("--random-chunks", flags.random_chunks,
                "Control: chunks drawn at random in place of those retrieved");
}

absl::StatusOr<client::SessionOptions> ToSessionOptions(const SessionFlags& flags) {
  client::SessionOptions options;
  for (const std::string& mount : flags.mounts) RETURN_IF_ERROR(CheckUtf8("--mount", mount));
  options.mounts = flags.mounts;
  if (flags.dilation != 0) options.dilation = flags.dilation;
  options.random_chunks = flags.random_chunks;
  return options;
}

void AddPromptFlags(CLI::App& verb, const std::string& flag, PromptFlags& flags) {
  flags.flag = flag;
  CLI::Option* text = verb.add_option(flag, flags.text, "Text")->type_name("TEXT");
  CLI::Option* file =
      verb.add_option(flag + "-file", flags.file, "The same from a file, or - for standard input");
  file->type_name("FILE")->excludes(text);
}

absl::StatusOr<client::Prompt> ToPrompt(const PromptFlags& flags) {
  client::Prompt prompt{flags.text, {}};
  if (!flags.file.empty()) {
    ASSIGN_OR_RETURN(prompt.text, ReadInput(flags.file));
  }
  RETURN_IF_ERROR(CheckUtf8(flags.file.empty() ? flags.flag : flags.file, prompt.text));
  return prompt;
}

}  // namespace recollect::cli
