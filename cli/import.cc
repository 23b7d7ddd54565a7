#include "convert/import.h"

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

volatile sig_atomic_t interrupted = 0;

// An interrupted import takes away what it wrote instead of dying at once.
class CatchInterrupts {
 public:
  CatchInterrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~CatchInterrupts() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
  }

 private:
  struct sigaction old_interrupt_, old_terminate_;
};

struct ImportFlags {
  std::string from;
  std::string directory;
  std::string out;
  std::string dtype = "bf16";
  std::optional<int64_t> head_dim;
  std::optional<int64_t> chunk;
};

Json ReportJson(const convert::ImportReport& report, const ImportFlags& flags) {
  Json json = {{"out", flags.out},
               {"checkpoint", report.checkpoint},
               {"architecture", report.config["architecture"]},
               {"tensors", report.tensors},
               {"parameters", report.parameters},
               {"bytes", report.bytes},
               {"dtype", flags.dtype},
               {"assumptions", report.assumptions},
               {"sha256",
                {{"config.json", report.sha256.config},
                 {"model.safetensors", report.sha256.weights},
                 {"tokenizer.model", report.sha256.tokenizer}}},
               {"config", report.config}};
  json["fingerprint"] = {{"bf16", report.bf16_fingerprint}, {"fp32", report.fp32_fingerprint}};
  if (report.step.has_value()) json["step"] = *report.step;
  return json;
}

void PrintReport(const convert::ImportReport& report, const ImportFlags& flags) {
  const auto& config = report.config;
  std::printf("%s: %s, %lld layers of width %lld, %lld tensors, %lld parameters, %.1f MiB of %s\n",
              flags.out.c_str(), config["architecture"].get<std::string>().c_str(),
              config["layers"].get<long long>(), config["d"].get<long long>(),
              static_cast<long long>(report.tensors), static_cast<long long>(report.parameters),
              static_cast<double>(report.bytes) / (1 << 20), flags.dtype.c_str());
  std::printf("%-24s %s\n", "checkpoint", report.checkpoint.c_str());
  if (report.step.has_value())
    std::printf("%-24s %lld\n", "step", static_cast<long long>(*report.step));
  for (const std::string& text : report.assumptions)
    std::printf("%-24s %s\n", "assumed", text.c_str());
  std::printf("%-24s %s\n", "config.json", report.sha256.config.c_str());
  std::printf("%-24s %s\n", "model.safetensors", report.sha256.weights.c_str());
  std::printf("%-24s %s\n", "tokenizer.model", report.sha256.tokenizer.c_str());
  std::printf("%-24s %s\n", "fingerprint, run in bf16", report.bf16_fingerprint.c_str());
  std::printf("%-24s %s\n", "fingerprint, run in fp32", report.fp32_fingerprint.c_str());
}

absl::Status Import(const Options& common, const ImportFlags& flags) {
  convert::ImportOptions options;
  options.from_dir = flags.directory;
  options.out_dir = flags.out;
  options.plan.family =
      flags.from == "rat-hub" ? convert::HubFamily::kRat : convert::HubFamily::kRatPlus;
  options.plan.head_dim = flags.head_dim;
  options.plan.chunk = flags.chunk;
  options.type = flags.dtype == "fp32" ? convert::WeightType::kF32 : convert::WeightType::kBf16;
  std::optional<CatchInterrupts> guard;  // until weights are written, there is nothing to take away
  std::optional<ProgressBar> bar;
  options.progress = [&](int64_t done, int64_t total) {
    if (!bar.has_value()) {
      guard.emplace();
      bar.emplace(flags.out, total);
    }
    bar->Update(done,
                absl::StrFormat("%.1f of %.1f million parameters", static_cast<double>(done) * 1e-6,
                                static_cast<double>(total) * 1e-6));
    return interrupted == 0;
  };
  const auto report = convert::Import(options);
  bar.reset();
  RETURN_IF_ERROR(report.status());
  if (common.json) {
    PrintJson(ReportJson(*report, flags));
  } else {
    PrintReport(*report, flags);
  }
  return absl::OkStatus();
}

}  // namespace

void AddImport(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand(
      "import", "Convert a published RAT+ or RAT checkpoint into a model directory");
  auto flags = std::make_shared<ImportFlags>();
  verb->add_option("--from", flags->from,
                   "Layout, as published: ratplus-hub, or rat-hub (RAT, and its hybrids)")
      ->required()
      ->check(CLI::IsMember({"ratplus-hub", "rat-hub"}));
  verb->add_option("DIR", flags->directory,
                   "Folder with one checkpoint (.pt, .pth, .ckpt, .bin) and tokenizer.model")
      ->required();
  verb->add_option("--out", flags->out, "Model directory to make; must be empty or absent")
      ->required()
      ->type_name("DIR");
  verb->add_option("--dtype", flags->dtype, "Number format of the weights written")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
  verb->add_option("--head-dim", flags->head_dim,
                   "Width of a head, when the checkpoint has no configuration (default: 128)")
      ->check(CLI::Range(2, 4096));
  verb->add_option("--chunk", flags->chunk,
                   "Chunk length of a RAT model, when the checkpoint has no configuration")
      ->check(CLI::Range(1, 1 << 24));
  verb->footer(
      "\nExamples:\n"
      "  ls ratplus-1b        # the published checkpoint and LLaMA's SentencePiece model\n"
      "    ratplus_1b.pt  tokenizer.model\n"
      "  recollect import --from ratplus-hub ratplus-1b --out models/ratplus-1b\n"
      "  recollect import --from rat-hub rat-1b --out models/rat-1b --dtype fp32 --json\n"
      "\n"
      "The checkpoint is read as data: nothing in it is executed, and one that asks to run\n"
      "code is refused (exit code 4). All missing, surplus and misshapen tensors are reported\n"
      "at once. --out is written completely or not at all. Values that neither the checkpoint's\n"
      "configuration nor its shapes give are assumed and listed; correct them in config.json.\n"
      "Checksums of files are SHA-256. Documents are bound to the fingerprint, which covers\n"
      "these files and the number format in which the model runs (recollect serve --dtype), so\n"
      "there are two.\n"
      "\n"
      "Also --json: recollect --help\n");
  verb->callback([&command, flags] {
    command.run = [&command, flags] { return Import(command.options, *flags); };
  });
}

}  // namespace recollect::cli
