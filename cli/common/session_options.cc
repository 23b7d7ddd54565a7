#include "cli/common/session_options.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/common/metadata_flags.h"
#include "cli/common/options.h"
#include "engine/layer_numbers.h"

namespace recollect::cli {
namespace {

// "16" by the setter `everywhere`; "16,-1,1/4" into `layers`.
absl::Status ParseNumbers(const char* flag, const std::string& text, v1::SessionOptions& options,
                          void (v1::SessionOptions::*everywhere)(int64_t),
                          google::protobuf::RepeatedPtrField<v1::HeadNumbers>& layers) {
  ASSIGN_OR_RETURN(const engine::PatternNumbers numbers, engine::ParsePatternNumbers(flag, text));
  if (numbers.everywhere.has_value()) (options.*everywhere)(*numbers.everywhere);
  for (const std::vector<int64_t>& heads : numbers.layers)
    layers.Add()->mutable_heads()->Add(heads.begin(), heads.end());
  return absl::OkStatus();
}

// On the wire 0 stands for 1: what rounds to it still means next to nothing.
float TopP(double top_p) {
  const double least = top_p > 0 ? std::numeric_limits<float>::min() : 0;
  return static_cast<float>(std::max(top_p, least));
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
  AddOption(
      verb, "--context", flags.options, &v1::SessionOptions::set_context,
      "Stretch the position encoding to N positions, beyond those of training; of a llama: the "
      "most positions of the session")
      ->type_name("N");
  AddOption(verb, "--top-k-blocks", flags.options, &v1::SessionOptions::set_top_k_blocks,
            "Local attention: also the K blocks that score best for each query")
      ->type_name("K");
}

void AddSessionFlags(CLI::App& verb, SessionFlags& flags) {
  v1::SessionOptions& options = flags.options;
  verb.add_option_function<std::vector<std::string>>(
          "--mount",
          [&options](const std::vector<std::string>& mounts) {
            options.mutable_mounts()->Assign(mounts.begin(), mounts.end());
          },
          "Documents to retrieve from, in order; repeat the option or separate by commas. NAME* is "
          "all whose names begin so. Or one prefix, ingested under the same pattern, with which "
          "the session begins")
      ->type_name("NAME[,NAME…]")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)  // or "[a]" would be read as a list
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddRepeated(verb, "--mount-where", flags.mount_where,
              "Of what NAME* stands for, only documents whose metadata is so; repeated: and")
      ->type_name("KEY=VALUE|KEY>=VALUE|…|JSON");
  verb.add_option_function<std::string>(
          "--mount-as",
          [&options](const std::string& name) {
            options.set_mount_as(name == "memory" ? v1::MOUNT_AS_MEMORY
                                 : name == "text" ? v1::MOUNT_AS_TEXT
                                                  : v1::MOUNT_AS_BOTH);
          },
          "How the model reads what is mounted: as memory, to which its layers attend; as text, "
          "the "
          "blocks that fit best in front of the prompt; or both (default: memory where the model "
          "has "
          "one, else text)")
      ->check(CLI::IsMember({"memory", "text", "both"}));
  AddOption(verb, "--text-tokens", options, &v1::SessionOptions::set_text_tokens,
            "With --mount-as text: the most tokens of blocks in front of a prompt")
      ->type_name("N")
      ->default_str("512");
  AddPatternFlags(verb, flags);
  verb.add_flag_callback(
      "--random-chunks", [&options] { options.set_random_chunks(true); },
      "Control: replace the retrieved chunks by chunks drawn at random");
}

absl::StatusOr<v1::SessionOptions> ToSessionOptions(const SessionFlags& flags) {
  v1::SessionOptions options = flags.options;
  for (const std::string& mount : options.mounts()) RETURN_IF_ERROR(CheckUtf8("--mount", mount));
  ASSIGN_OR_RETURN(*options.mutable_mount_filter(),
                   FilterFromFlags("--mount-where", flags.mount_where));
  RETURN_IF_ERROR(ParseNumbers("--dilation", flags.dilation, options,
                               &v1::SessionOptions::set_dilation,
                               *options.mutable_layer_dilations()));
  RETURN_IF_ERROR(ParseNumbers("--window", flags.window, options, &v1::SessionOptions::set_window,
                               *options.mutable_layer_windows()));
  RETURN_IF_ERROR(ParseNumbers("--initial", flags.initial, options,
                               &v1::SessionOptions::set_initial,
                               *options.mutable_layer_initials()));
  return options;
}

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

void AddPromptFlags(CLI::App& verb, const std::string& flag, PromptFlags& flags) {
  flags.flag = flag;
  // By position, too: `recollect retrieve "the question"`.
  const std::string position = absl::StrCat(flag, ",", flag.substr(2));
  CLI::Option* text = verb.add_option(position, flags.text, "Text")->type_name("TEXT");
  CLI::Option* file =
      verb.add_option(flag + "-file", flags.file, "The same from a file, or - for standard input");
  file->type_name("FILE")->excludes(text);
}

void RequirePrompt(const CLI::App& verb, const std::string& flag) {
  if (verb.count(flag) + verb.count(flag + "-file") > 0) return;
  throw CLI::RequiredError(absl::StrCat(flag, " or ", flag, "-file"));  // as CLI11 itself
}

absl::StatusOr<v1::Prompt> ToPrompt(const PromptFlags& flags) {
  v1::Prompt prompt;
  prompt.set_text(flags.text);
  if (!flags.file.empty()) {
    ASSIGN_OR_RETURN(*prompt.mutable_text(), ReadInput(flags.file));
  }
  RETURN_IF_ERROR(CheckUtf8(flags.file.empty() ? flags.flag : flags.file, prompt.text()));
  return prompt;
}

}  // namespace recollect::cli
