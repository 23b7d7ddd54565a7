#include "cli/niah/verb.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cli/connection.h"
#include "cli/json.h"
#include "cli/niah/answered.h"
#include "cli/niah/heat_map.h"
#include "cli/progress.h"

namespace recollect::cli::niah {
namespace {

constexpr char kShardNote[] =
    "sizes above --shard-tokens are mounted as several documents, in order; per sample only those "
    "that hold a needle are ingested anew";
constexpr char kAllNote[] =
    "what all samples of a size ask for lies in one document, ingested once before the first of "
    "them is asked";
constexpr char kUnfinished[] = ".unfinished";         // behind the name of the report
constexpr absl::Duration kLines = absl::Seconds(30);  // between lines that say how far it is

struct Inputs {
  std::string text;
  Phrases phrases;
  std::string phrases_hash;
};

absl::StatusOr<RunOptions> ToRunOptions(const Flags& flags) {
  RunOptions options = flags.run;
  for (const std::string& text : flags.tokens) {
    ASSIGN_OR_RETURN(options.tokens.emplace_back(), ParseTokenCount("--tokens", text));
  }
  ASSIGN_OR_RETURN(options.shard_tokens, ParseTokenCount("--shard-tokens", flags.shard_tokens));
  options.hide = flags.hide == "all" ? Hide::kAll : Hide::kEach;
  for (const std::string& control : flags.controls) {
    for (const char* task : {"reread", "prose"}) {
      if (control == "none" || std::count(options.tasks.begin(), options.tasks.end(), task) == 0) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat("--control ", control, ": not for --task ",
                                                     task, ", which reports its own controls"));
    }
  }
  if (flags.phrasing != "both") options.task.held_out = {flags.phrasing == "held-out"};
  return options;
}

// Those of one control. The document of all samples is the same with and without random chunks: it
// stays for the next.
RunOptions ForControl(const RunOptions& options, const Flags& flags, size_t number) {
  static const std::map<std::string, Control> kControls = {{"none", Control::kNone},
                                                           {"unmounted", Control::kUnmounted},
                                                           {"removed", Control::kRemoved},
                                                           {"random", Control::kRandom}};
  const auto whole = [](const std::string& control) {
    return control == "none" || control == "random";
  };
  RunOptions one = options;
  one.control = kControls.at(flags.controls[number]);
  if (one.control != Control::kNone) one.asked = flags.control_samples;
  if (whole(flags.controls[number])) {
    one.keep = one.keep || std::any_of(flags.controls.begin() + static_cast<int64_t>(number) + 1,
                                       flags.controls.end(), whole);
  }
  return one;
}

absl::StatusOr<Inputs> ReadInputs(const Flags& flags) {
  Inputs inputs;
  std::string phrases = BuiltInPhrases();
  if (!flags.phrases.empty()) {
    ASSIGN_OR_RETURN(phrases, ReadInput(flags.phrases));
  }
  ASSIGN_OR_RETURN(inputs.phrases, ParsePhrases(phrases));
  inputs.phrases_hash = Sha256Hex(phrases);
  for (const std::string& path : flags.haystack) {
    ASSIGN_OR_RETURN(const std::string part, ReadInput(path));
    RETURN_IF_ERROR(CheckUtf8(path, part));
    inputs.text += part;
  }
  return inputs;
}

// `mode` "ab" leaves a file as it is: finds out before hours of work whether it can be written.
absl::Status WriteFile(const std::string& flag, const std::string& path, const char* mode,
                       const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": cannot write ", path, ": ", std::strerror(errno)));
}

// All that determines the samples and their answers, but for the server's instruction set.
Json Meaning(const Flags& flags, const RunOptions& options, const Inputs& inputs,
             const v1::ModelInfo& model) {
  return {{"--haystack (SHA-256)", Sha256Hex(inputs.text)},
          {"--tokens", options.tokens},
          {"--task", options.tasks},
          {"--hide", flags.hide},
          {"--samples", options.samples},
          {"--samples-per-shape", options.samples_per_shape},
          {"--depths", options.depths},
          {"--seed", options.seed},
          {"--control", flags.controls},
          {"--control-samples", flags.control_samples},
          {"--phrasing", flags.phrasing},
          {"--phrases (SHA-256)", inputs.phrases_hash},
          {"--distractors", options.task.distractors},
          {"--hex-digits", options.task.hex_digits},
          {"--cue-words", options.task.cue_words},
          {"--cue", options.task.cues},
          {"--passage-bytes", options.task.passage_bytes},
          {"--dilation", options.dilation},
          {"--dry-multiplier", options.dry_multiplier},
          {"--shard-tokens", options.shard_tokens},
          {"--samples-per-haystack", options.samples_per_haystack},
          {"model", absl::StrCat(model.name(), " ", model.dtype(), " ", model.fingerprint())}};
}

// Shows on standard error how far the run is.
class Watch {
 public:
  Watch(std::string control, int64_t total)
      : control_(std::move(control)),
        bar_(control_ == "none" ? "niah" : absl::StrCat("niah, ", control_), total, kLines) {}

  void OnIngest(const v1::IngestProgress& progress, int64_t tokens, int64_t bytes) {
    if (!ingest_.has_value())
      ingest_.emplace(absl::StrCat("ingest ", TokenCount(tokens)), bytes, kLines);
    ingest_->Update(
        progress.accepted_offset(),
        absl::StrFormat("%d tokens, %.0f tokens/s", progress.tokens(), progress.tokens_per_s()));
  }
  void OnSample(const Sample& sample) {
    ingest_.reset();
    ++done_;
    judged_ += sample.right.has_value() ? 1 : 0;
    right_ += sample.right.value_or(false) ? 1 : 0;
    bar_.Update(done_, absl::StrFormat("%d of %d right; %s %s at %d", right_, judged_, sample.task,
                                       sample.variant, sample.tokens_asked));
  }

 private:
  const std::string control_;
  ProgressBar bar_;
  std::optional<ProgressBar> ingest_;
  int64_t done_ = 0, judged_ = 0, right_ = 0;
};

// `answered` may be null.
absl::StatusOr<std::vector<Sample>> RunControl(const std::string& control, Runner& runner,
                                               Answered* answered) {
  Watch watch(control, runner.total());
  const auto name_of = [&](const std::string& name) { return absl::StrCat(control, " ", name); };
  Observer observer;
  observer.on_ingest = [&](const v1::IngestProgress& progress, int64_t tokens, int64_t bytes) {
    watch.OnIngest(progress, tokens, bytes);
  };
  observer.answered = [&](const std::string& name) -> const Sample* {
    return answered == nullptr ? nullptr : answered->Find(name_of(name));
  };
  observer.on_sample = [&](const std::string& name, const Sample& sample, bool known) {
    watch.OnSample(sample);
    return answered == nullptr || known ? absl::OkStatus() : answered->Add(name_of(name), sample);
  };
  return runner.Run(observer);
}

// A terminal that shows blocks.
bool ShowsUnicode() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string lower = absl::AsciiStrToLower(value);
    return absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8");
  }
  return false;
}

Json ReportOf(const Flags& flags, const RunOptions& options, const Inputs& inputs,
              const v1::ModelInfo& model, const std::string& control,
              const std::vector<Sample>& samples) {
  Json json = {{"model", cli::ToJson(model)},
               {"seed", options.seed},
               {"control", control},
               {"hide", flags.hide},
               {"distractors", options.task.distractors},
               {"hex_digits", options.task.hex_digits},
               {"cue_words", options.task.cue_words},
               {"passage_bytes", options.task.passage_bytes},
               {"dilation", options.dilation},
               {"dry_multiplier", options.dry_multiplier},
               {"shard_tokens", options.shard_tokens},
               {"haystack_bytes", inputs.text.size()},
               {"mounting", options.hide == Hide::kAll ? kAllNote : kShardNote}};
  json.update(ToJson(samples, options.depths));
  return json;
}

std::string TextOf(const RunOptions& options, const v1::ModelInfo& model,
                   const std::string& control, const std::vector<Sample>& samples) {
  return absl::StrFormat("control: %s; model %s %s, seed %u\nmounting: %s\n\n%s\n%s", control,
                         model.name(), model.dtype(), options.seed,
                         options.hide == Hide::kAll ? kAllNote : kShardNote,
                         FormatTable(samples, options.depths),
                         FormatHeatMaps(HeatMaps(samples, options.depths), ShowsUnicode()));
}

}  // namespace

absl::Status RunVerb(const Options& common, const Flags& flags) {
  ASSIGN_OR_RETURN(const RunOptions options, ToRunOptions(flags));
  ASSIGN_OR_RETURN(const Inputs inputs, ReadInputs(flags));
  if (!flags.json.empty()) RETURN_IF_ERROR(WriteFile("--json", flags.json, "ab", ""));
  if (!flags.heat_map.empty()) RETURN_IF_ERROR(WriteFile("--heat-map", flags.heat_map, "ab", ""));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  ASSIGN_OR_RETURN(const v1::ModelInfo model, connection->client().GetModel());
  if (model.groups() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("niah: the model ", model.name(), " of family ", model.architecture(),
                     " has no landmarks: there is nothing to retrieve"));
  }
  std::unique_ptr<Answered> answered;
  if (!flags.json.empty()) {
    ASSIGN_OR_RETURN(answered, Answered::Open(absl::StrCat(flags.json, kUnfinished),
                                              Meaning(flags, options, inputs, model)));
  }

  Json report;
  std::string text;
  for (size_t c = 0; c < flags.controls.size(); ++c) {
    const std::string& control = flags.controls[c];
    Runner runner(connection->client(), ForControl(options, flags, c), model.retrieved_chunks(),
                  inputs.text, inputs.phrases);
    ASSIGN_OR_RETURN(const std::vector<Sample> samples,
                     RunControl(control, runner, answered.get()));
    Json one = ReportOf(flags, options, inputs, model, control, samples);
    if (c == 0) {
      report = std::move(one);
    } else {
      report["controls"].push_back(std::move(one));
    }
    absl::StrAppend(&text, c == 0 ? "" : "\n", TextOf(options, model, control, samples));
    if (c > 0 || flags.heat_map.empty()) continue;
    const std::string title = absl::StrFormat("%s %s, seed %u, control: %s", model.name(),
                                              model.dtype(), options.seed, control);
    RETURN_IF_ERROR(WriteFile("--heat-map", flags.heat_map, "wb",
                              DrawHeatMaps(HeatMaps(samples, options.depths), title)));
  }
  if (!flags.json.empty()) {
    RETURN_IF_ERROR(WriteFile("--json", flags.json, "wb",
                              report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
    answered->Remove();
  }
  if (common.json) {
    PrintJson(report);
  } else {
    std::printf("%s", text.c_str());
  }
  return absl::OkStatus();
}

}  // namespace recollect::cli::niah
