#include <memory>
#include <string>

#include "cli/flags.h"
#include "cli/niah/verb.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

void AddNiahFlags(CLI::App& verb, niah::Flags& flags) {
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
  verb.add_option(
          "--control", flags.controls,
          "Scores should be near 0: nothing mounted, needle left out, random chunks; several "
          "run one after another")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "unmounted", "removed", "random"}))
      ->capture_default_str();
  verb.add_option("--control-samples", flags.control_samples,
                  "Of the samples, ask only the first so many with a control (default: all)")
      ->check(CLI::Range(1, 100000));
  verb.add_option(
          "--hide", flags.hide,
          "Each sample in a haystack of its own, or all of a size in one, which is ingested "
          "once, as one document")
      ->check(CLI::IsMember({"each", "all"}))
      ->capture_default_str();
  verb.add_flag("--keep", run.keep, "With --hide all: do not delete the document at the end");
  verb.add_option("--samples-per-shape", run.samples_per_shape,
                  "For records and ruler: samples of each variant (default: --samples)")
      ->check(CLI::Range(1, 100000));
  verb.add_option("--heat-map", flags.heat_map,
                  "Draw the right answers by size and depth to FILE, as SVG")
      ->type_name("FILE");
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
  auto flags = std::make_shared<niah::Flags>();
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
      "  recollect niah --haystack books.txt --tokens 4k,16k --hide all --samples 10 --heat-map "
      "niah.svg\n"
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
      "contain a needle are ingested again. With --hide all the needles of all samples are in one\n"
      "document, which is ingested once. Documents (niah-…) are deleted at the end. After an\n"
      "interruption a run with --json FILE goes on: give the same command again.\n" +
      std::string(kCommonHelp));
  verb->callback([&command, flags, json] {
    if (json->count() > 0 && flags->json.empty()) command.options.json = true;
    command.run = [&command, flags] { return niah::RunVerb(command.options, *flags); };
  });
}

}  // namespace recollect::cli
