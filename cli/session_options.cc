#include "cli/session_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "cli/options.h"

namespace recollect::cli {
namespace {

// "16" into `everywhere`; "16,-1,1/4" into `layers`.
absl::Status ParseNumbers(const char* flag, const std::string& text,
                          std::optional<int64_t>& everywhere,
                          std::vector<std::vector<int64_t>>& layers) {
  if (text.empty()) return absl::OkStatus();
  for (const absl::string_view layer : absl::StrSplit(text, ',')) {
    std::vector<int64_t>& heads = layers.emplace_back();
    for (const absl::string_view number : absl::StrSplit(layer, '/')) {
      if (absl::SimpleAtoi(number, &heads.emplace_back())) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": '", text,
                       "', expected a number, or one for each layer with commas, "
                       "or in a layer one for each head with slashes"));
    }
  }
  if (layers.size() == 1 && layers[0].size() == 1) {
    everywhere = layers[0][0];
    layers.clear();
  }
  return absl::OkStatus();
}

}  // namespace

void AddPatternFlags(CLI::App& verb, SessionFlags& flags) {
  verb.add_option(
          "--dilation", flags.dilation,
          "Of local attention: every D-th earlier position, -1 for none; one the model knows "
          "(default: the model's). Hybrids, as the next two: by layer 16,-1,4 or by head "
          "1/1/4/4,16")
      ->type_name("D");
  verb.add_option("--window", flags.window,
                  "Of local attention: the last W positions; one the model knows")
      ->type_name("W");
  verb.add_option("--initial", flags.initial,
                  "Of local attention: the first I positions; a number the model knows")
      ->type_name("I");
  verb.add_option("--context", flags.context,
                  "Positions to stretch the position encoding to, beyond those of training")
      ->type_name("N");
  verb.add_option("--top-k-blocks", flags.top_k_blocks,
                  "Of local attention: also the K blocks that suit each query best")
      ->type_name("K");
}

void AddSessionFlags(CLI::App& verb, SessionFlags& flags) {
  verb.add_option("--mount", flags.mounts,
                  "Documents to recall from, in order; repeated or with commas. Or one prefix that "
                  "the session begins with, made under the same pattern")
      ->type_name("NAME[,NAME…]")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)  // or "[a]" would be read as a list
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddPatternFlags(verb, flags);
  verb.add_flag("--random-chunks", flags.random_chunks,
                "Control: chunks drawn at random in place of those retrieved");
}

absl::StatusOr<client::SessionOptions> ToSessionOptions(const SessionFlags& flags) {
  client::SessionOptions options;
  for (const std::string& mount : flags.mounts) RETURN_IF_ERROR(CheckUtf8("--mount", mount));
  options.mounts = flags.mounts;
  RETURN_IF_ERROR(
      ParseNumbers("--dilation", flags.dilation, options.dilation, options.layer_dilations));
  RETURN_IF_ERROR(ParseNumbers("--window", flags.window, options.window, options.layer_windows));
  RETURN_IF_ERROR(
      ParseNumbers("--initial", flags.initial, options.initial, options.layer_initials));
  options.context = flags.context;
  options.top_k_blocks = flags.top_k_blocks;
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

void RequirePrompt(const CLI::App& verb, const std::string& flag) {
  if (verb.count(flag) + verb.count(flag + "-file") > 0) return;
  throw CLI::RequiredError(absl::StrCat(flag, " or ", flag, "-file"));  // as CLI11 itself
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
