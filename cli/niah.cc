#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/connection.h"
#include "cli/json.h"
#include "cli/niah/run.h"
#include "cli/progress.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

constexpr char kShardNote[] =
    "sizes above --shard-tokens are mounted as several documents, in order; per sample only those "
    "that hold a needle are ingested anew";

struct NiahFlags {
  niah::RunOptions run;
  std::vector<std::string> haystack;
  std::vector<std::string> tokens = {"4k", "64k"};
  std::string shard_tokens = "64k";
  std::string phrasing = "both";
  std::string control = "none";
  std::string phrases;  // file
  std::string json;     // file; empty: where the table would go, if at all
};

absl::StatusOr<niah::RunOptions> ToRunOptions(const NiahFlags& flags) {
  static const std::map<std::string, niah::Control> kControls = {
      {"none", niah::Control::kNone},
      {"unmounted", niah::Control::kUnmounted},
      {"removed", niah::Control::kRemoved},
      {"random", niah::Control::kRandom}};
  niah::RunOptions options = flags.run;
  for (const std::string& text : flags.tokens) {
    ASSIGN_OR_RETURN(options.tokens.emplace_back(), ParseTokenCount("--tokens", text));
  }
  ASSIGN_OR_RETURN(options.shard_tokens, ParseTokenCount("--shard-tokens", flags.shard_tokens));
  options.control = kControls.at(flags.control);
  for (const char* task : {"reread", "prose"}) {
    if (options.control == niah::Control::kNone ||
        std::count(options.tasks.begin(), options.tasks.end(), task) == 0) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("--control ", flags.control, ": not for --task ",
                                                   task, ", which reports its own controls"));
  }
  if (flags.phrasing != "both") options.task.held_out = {flags.phrasing == "held-out"};
  return options;
}

absl::StatusOr<std::string> ReadHaystack(const NiahFlags& flags) {
  std::string text;
  for (const std::string& path : flags.haystack) {
    ASSIGN_OR_RETURN(const std::string part, ReadInput(path));
    RETURN_IF_ERROR(CheckUtf8(path, part));
    text += part;
  }
  return text;
}

// `mode` "ab" leaves a file as it is: finds out before hours of work whether it can be written.
absl::Status WriteFile(const std::string& path, const char* mode, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--json: cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status Niah(const Options& common, const NiahFlags& flags) {
  ASSIGN_OR_RETURN(const niah::RunOptions options, ToRunOptions(flags));
  std::string phrases_text = niah::BuiltInPhrases();
  if (!flags.phrases.empty()) {
    ASSIGN_OR_RETURN(phrases_text, ReadInput(flags.phrases));
  }
  ASSIGN_OR_RETURN(const niah::Phrases phrases, niah::ParsePhrases(phrases_text));
  ASSIGN_OR_RETURN(const std::string text, ReadHaystack(flags));
  if (!flags.json.empty()) RETURN_IF_ERROR(WriteFile(flags.json, "ab", ""));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  ASSIGN_OR_RETURN(const v1::ModelInfo model, connection->client().GetModel());
  if (model.groups() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("niah: the model ", model.name(), " of family ", model.architecture(),
                     " has no landmarks: there is nothing to retrieve"));
  }

  std::vector<niah::Sample> samples;
  {
    niah::Runner runner(connection->client(), options, model.retrieved_chunks(), text, phrases);
    ProgressBar bar("niah", runner.total());
    int64_t done = 0, judged = 0, right = 0;
    ASSIGN_OR_RETURN(samples, runner.Run([&](const niah::Sample& sample) {
      ++done;
      judged += sample.right.has_value() ? 1 : 0;
      right += sample.right.value_or(false) ? 1 : 0;
      bar.Update(done, absl::StrFormat("%d of %d right; %s %s at %d", right, judged, sample.task,
                                       sample.variant, sample.tokens_asked));
    }));
  }
  Json json = {{"model", ToJson(model)},
               {"seed", options.seed},
               {"control", flags.control},
               {"distractors", options.task.distractors},
               {"hex_digits", options.task.hex_digits},
               {"cue_words", options.task.cue_words},
               {"passage_bytes", options.task.passage_bytes},
               {"dilation", options.dilation},
               {"dry_multiplier", options.dry_multiplier},
               {"shard_tokens", options.shard_tokens},
               {"haystack_bytes", text.size()},
               {"mounting", kShardNote}};
  json.update(niah::ToJson(samples, options.depths));
  if (!flags.json.empty()) {
    RETURN_IF_ERROR(WriteFile(flags.json, "wb",
                              json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
  }
  if (common.json) {
    PrintJson(json);
  } else {
    std::printf("control: %s; model %s %s, seed %llu\n%s: %s\n\n%s", flags.control.c_str(),
                model.name().c_str(), model.dtype().c_str(),
                static_cast<unsigned long long>(options.seed), "mounting", kShardNote,
                niah::FormatTable(samples, options.depths).c_str());
  }
  return absl::OkStatus();
}

void AddNiahFlags(CLI::App& verb, NiahFlags& flags) {
  niah::RunOptions& run = flags.run;
  verb.add_option("--haystack", flags.haystack, "Text files to hide needles in")
      ->required()
      ->type_name("FILE…");
  verb.add_option("--tokens", flags.tokens, "Mounted sizes; k and m are 2^10 and 2^20")
      ->delimiter(',')
      ->capture_default_str();
  verb.add_option("--task", run.tasks, "What to ask, see below")
      ->delimiter(',')
      ->check(CLI::IsMember(niah::TaskNames()))
      ->capture_default_str();
  verb.add_option("--samples", run.samples, "Samples of each task, size and variant")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb.add_option("--depths", run.depths, "Number of depths over which samples are spread")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  verb.add_option("--seed", run.seed,
                  "Same seed, same needles and places; seeds nearer than --samples share some")
      ->check(Fits<uint64_t>())
      ->capture_default_str();
  verb.add_option("--phrasing", flags.phrasing,
                  "For passkey, distractors, hex: trained phrasings, held-out ones, or both")
      ->check(CLI::IsMember({"trained", "held-out", "both"}))
      ->capture_default_str();
  verb.add_option("--control", flags.control,
                  "Scores should be near 0: nothing mounted, needle left out, random chunks")
      ->check(CLI::IsMember({"none", "unmounted", "removed", "random"}))
      ->capture_default_str();
  verb.add_option("--distractors", run.task.distractors,
                  "Other needles or records of the same form")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  verb.add_option("--hex-digits", run.task.hex_digits,
                  "For hex; answers above 63 tokens cross a block boundary")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb.add_option("--cue-words", run.task.cue_words,
                  "For quote and prose: words of the haystack that are the prompt")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb.add_option("--cue", run.task.cues,
                  "For quote: the words unchanged; with a third left out; shuffled")
      ->delimiter(',')
      ->check(CLI::IsMember({"whole", "thinned", "shuffled"}))
      ->capture_default_str();
  verb.add_option("--passage-bytes", run.task.passage_bytes, "For reread: size of the passage")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb.add_option("--dilation", run.dilation,
                  "Of local attention; a value the model is adapted to (default: the model's)");
  verb.add_option("--dry-multiplier", run.dry_multiplier, "Of the answers, as for generate")
      ->capture_default_str();
  verb.add_option("--shard-tokens", flags.shard_tokens,
                  "Larger sizes are mounted as several documents of this size")
      ->capture_default_str();
  verb.add_option("--samples-per-haystack", run.samples_per_haystack,
                  "Samples for each haystack of several documents that is prepared for one task")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb.add_option("--phrases", flags.phrases,
                  "Phrasings in place of those compiled in (train/phrases.json)")
      ->type_name("FILE");
}

}  // namespace

void AddNiah(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand("niah", "Needle-in-a-haystack stress test");
  auto flags = std::make_shared<NiahFlags>();
  AddNiahFlags(*verb, *flags);
  const CLI::Option* json =
      verb->add_option("--json", flags->json,
                       "Write the report, with every sample, as JSON to FILE; without FILE print "
                       "it instead of the table")
          ->expected(0, 1)
          ->type_name("[FILE]");
  verb->footer(
      "\nExamples:\n"
      "  recollect niah --haystack books.txt --tokens 4k --samples 10 --json niah.json\n"
      "  recollect niah --haystack books.txt --task distractors,hex --tokens 4k --samples 5 "
      "--server "
      "127.0.0.1:50051\n"
      "  recollect niah --haystack books.txt --task quote,reread,prose --tokens 4k --samples 10\n"
      "  recollect niah --haystack books.txt --tokens 4k --samples 10 --control random\n"
      "\n"
      "Tasks (docs/niah.md):\n"
      "  passkey      a sentence gives a key a value of 5 to 7 digits\n"
      "  distractors  the same, among --distractors others of the same form\n"
      "  hex          the same with a value of --hex-digits hex digits\n"
      "  quote        --cue-words consecutive words of the haystack are the prompt: is their "
      "place\n"
      "               retrieved, and does the answer continue as the text does?\n"
      "  reread       bits per byte of a passage, its document mounted or not\n"
      "  prose        words of the haystack are the prompt: does the model go on in prose, "
      "without what\n"
      "               training asked and answered, and not in circles?\n"
      "  records      a value in records of many shapes, among --distractors others of the shape\n"
      "  ruler        tasks of RULER: needles, many keys or values, variables\n"
      "\n"
      "Each sample replaces text at a random depth by what it asks for, ingests the result, and\n"
      "asks in a fresh session with greedy decoding. The report has the answers, the retrieved\n"
      "chunks, and what BM25 finds by the same words among the same chunks. Sizes above\n"
      "--shard-tokens are mounted as several documents, in order; for each sample only those that\n"
      "contain a needle are ingested again. Documents (niah-…) are deleted at the end.\n" +
      std::string(kCommonHelp));
  verb->callback([&command, flags, json] {
    if (json->count() > 0 && flags->json.empty()) command.options.json = true;
    command.run = [&command, flags] { return Niah(command.options, *flags); };
  });
}

}  // namespace recollect::cli
