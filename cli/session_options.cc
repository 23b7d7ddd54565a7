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
                       "', expected a number, or one for each layer separated by commas, "
                       "or within a layer one for each head separated by slashes"));
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
          "Local attention: every D-th earlier position, -1 for none; a value the model is adapted "
          "to (default: the model's). Hybrids, here and in the next two: by layer 16,-1,4 or by "
          "head 1/1/4/4,16")
      ->type_name("D");
  verb.add_option("--window", flags.window,
                  "Local attention: the last W positions; a value the model is adapted to")
      ->type_name("W");
  verb.add_option("--initial", flags.initial,
                  "Local attention: the first I positions; a value the model is adapted to")
      ->type_name("I");
  verb.add_option("--context", flags.context,
                  "Stretch the position encoding to N positions, beyond those of training")
      ->type_name("N");
  verb.add_option("--top-k-blocks", flags.top_k_blocks,
                  "Local attention: also the K blocks that score best for each query")
      ->type_name("K");
}

void AddSessionFlags(CLI::App& verb, SessionFlags& flags) {
  verb.add_option("--mount", flags.mounts,
                  "Documents to retrieve from, in order; repeat the option or separate by commas. "
                  "Or one prefix, ingested under the same pattern, with which the session begins")
      ->type_name("NAME[,NAME…]")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)  // or "[a]" would be read as a list
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddPatternFlags(verb, flags);
  verb.add_flag("--random-chunks", flags.random_chunks,
                "Control: replace the retrieved chunks by chunks drawn at random");
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
