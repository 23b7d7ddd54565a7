// Cost per token of each family's local state, and of what is mounted, by dilation and context,
// with random weights: entries that a token reads, counted and by formula, bytes, time alone and in
// a batch, and time per token of a prompt; beside them what this machine's measured ceilings
// predict. One thread.
//
//   families_bench [--config FILE]... [--dilations 1,4,16,64] [--lengths 1024,4096,...] [--batch 4]
//                  [--seconds 0.3] [--state-gib 6] [--minutes 6] [--json FILE]
//
// Without --config: every file of bench/model/configs, dense.json first: the others are of its
// size, and "x dense" is time divided by its. Predicted = time with an empty state, measured
// beside, + what the machine's ceilings, measured too, say of what is read by formula: bytes /
// read, or for a prompt fp32 products / product. "reached": predicted / taken. The sums of
// RAttention are in the bytes read and, since a state has them from its first position, in the
// empty state's time.
//
// Under its own pattern a config with "top_k" runs again with as many blocks as it allows, beside
// the dilated positions and, if it allows that, in their place. One with landmarks runs again with
// as many tokens mounted as the context says: each block then scores all their landmarks and
// reads the n_ret best chunks, and "empty" is one chunk of one token.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "bench/kernels/ceilings.h"
#include "bench/model/mounted.h"
#include "bench/model/sequences.h"
#include "bench/model/touched.h"
#include "kernels/gemm/gemm.h"
#include "tests/support/tiny_model.h"

namespace recollect::bench {
namespace {

using nlohmann::json;

constexpr int64_t kPromptRows = model::LayerState::kMaxAppend;

struct Arguments {
  std::vector<std::string> configs;
  std::vector<int64_t> dilations = {1, 4, 16, 64};
  std::vector<int64_t> lengths = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18};
  int batch = 4;
  double seconds = 0.3, state_gib = 6, minutes = 6;
  std::string json;
};

// Exits with the usage if the arguments are wrong. Lengths ascend; without --config the files of
// bench/model/configs are taken, by name.
Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Counts and times what a token of each family reads.");
  app.add_option("--config", arguments.configs)->allow_extra_args(false);
  app.add_option("--dilations", arguments.dilations)->delimiter(',');
  app.add_option("--lengths", arguments.lengths)->delimiter(',');
  app.add_option("--batch", arguments.batch)->check(CLI::PositiveNumber);
  app.add_option("--seconds", arguments.seconds);
  app.add_option("--state-gib", arguments.state_gib);
  app.add_option("--minutes", arguments.minutes);
  app.add_option("--json", arguments.json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (arguments.configs.empty()) {
    for (const auto& entry :
         std::filesystem::directory_iterator(RECOLLECT_SOURCE_DIR "/bench/model/configs")) {
      arguments.configs.push_back(entry.path());
    }
    std::sort(arguments.configs.begin(), arguments.configs.end());
  }
  std::sort(arguments.lengths.begin(), arguments.lengths.end());
  return arguments;
}

// The config's model with random weights, in the number format a service would choose.
std::unique_ptr<model::CpuModel> LoadRandom(const std::string& path) {
  const std::string text = ReadFile(path);
  auto config = model::ParseConfig(text);
  if (!config.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), config.status().ToString().c_str());
    std::exit(1);
  }
  const std::string directory =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/families_bench_", getpid());
  WriteTinyModel(directory, *config, /*seed=*/1);
  WriteFile(directory + "/config.json", text);
  auto model =
      model::CpuModel::Load(directory, kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32);
  std::filesystem::remove_all(directory);
  RECOLLECT_CHECK(model.ok());
  return *std::move(model);
}

// The header without a point.
void Print(const json& point) {
  if (point.is_null()) {
    std::printf("%6s %8s %6s %5s | %9s %9s | %9s %9s | %9s %9s %7s %8s %8s\n", "D", "context",
                "batch", "rows", "entries", "formula", "MiB read", "MiB kept", "ms/token",
                "predicted", "spread", "x dense", "reached");
    return;
  }
  const auto number = [&](const char* key) { return point[key].get<double>(); };
  std::printf(
      "%6.0f %8.0f %6.0f %5.0f | %9.1f %9.1f | %9.2f %9.2f | %9.3f %9.3f %6.1f%% %8s %7.1f%%\n",
      number("dilation"), number("context"), number("batch"), number("rows"),
      number("entries_per_head"), number("entries_per_head_formula"),
      number("read_bytes") / (1 << 20), number("state_bytes") / (1 << 20),
      number("s_per_token") * 1e3, number("s_per_token_predicted") * 1e3, number("spread") * 100,
      point.contains("of_dense") ? absl::StrFormat("%.3f", number("of_dense")).c_str() : "-",
      number("s_per_token_predicted") / number("s_per_token") * 100);
  std::fflush(stdout);
}

// What is measured at all lengths.
struct Case {
  std::string family;
  const model::CpuModel& model;
  model::LocalPatterns patterns;
  int64_t dilation = 0;  // of them, to tell them apart; below 1 where there is none
  bool mounted = false;
};

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}

  void Run() {
    std::printf("%s, one thread: memory read %.1f GB/s, fp32 product %.1f GFLOP/s\n",
                CpuName().c_str(), ceilings_.read_bytes / 1e9, ceilings_.fp32_flops / 1e9);
    for (const std::string& path : arguments_.configs) RunFamily(path);
    if (arguments_.json.empty()) return;
    std::ofstream(arguments_.json) << json{{"cpu", CpuName()},
                                           {"threads", 1},
                                           {"read_byte_per_s", ceilings_.read_bytes},
                                           {"fp32_flop_per_s", ceilings_.fp32_flops},
                                           {"left_out", left_out_},
                                           {"points", points_}}
                                          .dump(1)
                                   << "\n";
  }

 private:
  void RunFamily(const std::string& path);
  void RunAdded(const Case& own);
  void RunCase(const Case& what);
  void Point(const Case& what, Sequences& sequences, int64_t length, int64_t rows, int batch);

  // Whether the states of a batch fit. Twice their entries: vectors grow by doubling. A state whose
  // queries choose blocks keeps every position.
  bool Fits(const model::ModelConfig& config, const model::LocalState& state, int64_t length,
            int batch) const {
    Touched kept = StateByFormula(config, state, length);
    if (state.pattern.blocks().count > 0)
      kept.entries = static_cast<double>(CountHeads(config, state) * length);
    return 2 * kept.bytes(config) * batch <= arguments_.state_gib * (1 << 30);
  }
  bool Late() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
    return spent.count() > arguments_.minutes * 60;
  }
  void LeaveOut(const std::string& what, const char* why) {
    std::printf("left out: %s (%s)\n", what.c_str(), why);
    left_out_.push_back(what + ": " + why);
  }

  const Arguments arguments_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const Ceilings ceilings_ = MeasureCeilings();
  std::map<std::tuple<int64_t, int64_t, int>, double> dense_s_;  // by (length, rows, batch)
  json points_ = json::array(), left_out_ = json::array();
};

void Bench::RunFamily(const std::string& path) {
  const std::string family = std::filesystem::path(path).stem();
  const std::unique_ptr<model::CpuModel> model = LoadRandom(path);
  const model::ModelConfig& config = model->config();
  std::printf("\n%s: %lld parameters, %.1f MiB of weights\n", family.c_str(),
              static_cast<long long>(model->parameters()),
              static_cast<double>(model->weight_bytes()) / (1 << 20));
  Print({});
  bool any = false;
  for (const int64_t dilation : arguments_.dilations) {
    const model::LocalPatterns patterns =
        config.local.With(&model::LocalPattern::dilation, dilation);
    if (!model::ValidatePatterns(config, patterns).ok()) continue;
    any = true;
    RunCase({family, *model, patterns, dilation});
  }
  const model::LocalPattern* everywhere = config.local.everywhere();
  const Case own{family, *model, config.local, everywhere != nullptr ? everywhere->dilation : 0};
  if (!any) RunCase(own);
  RunAdded(own);
}

// What a request may add to the config's own pattern.
void Bench::RunAdded(const Case& own) {
  const model::ModelConfig& config = own.model.config();
  if (config.top_k.max > 0) {
    std::printf("with the best %lld blocks of %lld:\n", static_cast<long long>(config.top_k.max),
                static_cast<long long>(config.top_k.block));
    Case blocks = own;
    blocks.patterns = config.local.WithBlocks(config.top_k.With(config.top_k.max));
    RunCase(blocks);
    blocks.dilation = model::kNoDilation;
    blocks.patterns = blocks.patterns.With(&model::LocalPattern::dilation, model::kNoDilation);
    if (model::ValidatePatterns(config, blocks.patterns).ok()) RunCase(blocks);
  }
  if (config.landmarks()) {
    std::printf("with as many tokens mounted, of whose chunks a block reads %d:\n", config.n_ret);
    Case mounted = own;
    mounted.mounted = true;
    RunCase(mounted);
  }
}

void Bench::RunCase(const Case& what) {
  const model::ModelConfig& config = what.model.config();
  Sequences filled(what.model, what.patterns);
  for (const int64_t length : arguments_.lengths) {
    const std::string name = absl::StrCat(what.family, " D ", what.dilation,
                                          what.patterns.blocks().count > 0 ? " with blocks" : "",
                                          what.mounted ? " mounted" : "", " at ", length);
    if (Late()) {
      LeaveOut(name, "--minutes");
    } else if (!Fits(config, filled.state(), length, 1)) {
      LeaveOut(name, "--state-gib");
    } else {
      filled.FillTo(length);
      std::optional<Mounted> mounted;
      if (what.mounted) {
        const int64_t chunks = std::max<int64_t>(length / config.chunk_tokens, 1);
        filled.Mount(mounted.emplace(what.model, chunks, config.chunk_tokens));
      }
      Point(what, filled, length, 1, 1);
      if (arguments_.batch > 1 && Fits(config, filled.state(), length, arguments_.batch)) {
        filled.SetBatch(arguments_.batch);
        Point(what, filled, length, 1, arguments_.batch);
        filled.SetBatch(1);
      } else if (arguments_.batch > 1) {
        LeaveOut(name + " in a batch", "--state-gib");
      }
      Point(what, filled, length, kPromptRows, 1);
    }
  }
}

void Bench::Point(const Case& what, Sequences& sequences, int64_t length, int64_t rows, int batch) {
  const model::ModelConfig& config = what.model.config();
  Sequences nothing(what.model, what.patterns);
  std::optional<Mounted> least;
  if (what.mounted) nothing.Mount(least.emplace(what.model, 1, 1));
  nothing.SetBatch(batch);
  // With mounts a sample is a whole block already.
  const bool prompt = rows > 1;
  const double empty = nothing.Measure(rows, prompt || what.mounted ? 3 : 21, 0).median_s;
  const PositionCost cost = sequences.Measure(rows,
                                              prompt         ? 2
                                              : what.mounted ? 3
                                                             : 5,
                                              prompt ? 0 : arguments_.seconds);
  RECOLLECT_CHECK(cost.counted == cost.formula);
  const Touched& formula = cost.formula;
  const double sum_bytes = static_cast<double>(SumBytes(sequences.state()));
  // Landmark keys are scored by one query at a time in a prompt, too.
  const double predicted = empty + (prompt ? formula.flops(config) / ceilings_.fp32_flops +
                                                 formula.key_bytes(config) / ceilings_.read_bytes
                                           : formula.bytes(config) / ceilings_.read_bytes);
  if (what.dilation == 1) dense_s_.emplace(std::tuple{length, rows, batch}, cost.median_s);
  const auto dense = dense_s_.find({length, rows, batch});
  const double heads = static_cast<double>(CountHeads(config, sequences.state()));
  const auto entries = [&](const Touched& touched) {
    return (touched.entries + touched.memory) / heads;
  };
  points_.push_back({{"family", what.family},
                     {"dilation", what.dilation},
                     {"blocks", what.patterns.blocks().count},
                     {"mounted", what.mounted},
                     {"context", length},
                     {"batch", batch},
                     {"rows", rows},
                     {"entries_per_head", entries(cost.counted)},
                     {"entries_per_head_formula", entries(formula)},
                     {"read_bytes", cost.counted.bytes(config) + sum_bytes},
                     {"read_bytes_formula", formula.bytes(config) + sum_bytes},
                     {"state_bytes", sequences.state().bytes()},
                     {"s_per_token", cost.median_s},
                     {"s_per_token_predicted", predicted},
                     {"s_per_token_empty", empty},
                     {"spread", cost.spread}});
  json& point = points_.back();
  if (dense != dense_s_.end()) point["of_dense"] = cost.median_s / dense->second;
  Print(point);
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Bench(recollect::bench::Parse(argc, argv)).Run();
  return 0;
}
