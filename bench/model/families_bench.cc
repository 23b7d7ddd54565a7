// Cost per token of each family's local state by dilation and context, with random weights: entries
// of the state that a token reads, counted and by formula, bytes, time alone and in a batch, and
// time per token of a prompt; beside them what this machine's measured ceilings predict. One
// thread.
//
//   families_bench [--config FILE]... [--dilations 1,4,16,64] [--lengths 1024,4096,...] [--batch 4]
//                  [--seconds 0.3] [--state-gib 6] [--minutes 3] [--json FILE]
//
// Without --config: every file of bench/model/configs, dense.json first: the others are of its
// size, and "x dense" is time divided by its. Predicted = time with an empty state, measured
// beside, + what the machine's ceilings, measured too, say of the entries by formula: bytes / read,
// or for a prompt fp32 products / product. "reached": predicted / taken. The sums of RAttention are
// in the bytes read and, since a state has them from its first position, in the empty state's time.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "bench/kernels/ceilings.h"
#include "bench/model/sequences.h"
#include "bench/model/touched.h"
#include "kernels/gemm.h"
#include "tests/support/tiny_model.h"

namespace recollect::bench {
namespace {

using nlohmann::json;

constexpr int64_t kPromptRows = model::LayerState::kMaxAppend;

double EntryBytes(const model::ModelConfig& config) {
  return 2.0 * config.head_dim * sizeof(float);
}

struct Arguments {
  std::vector<std::string> configs;
  std::vector<int64_t> dilations = {1, 4, 16, 64};
  std::vector<int64_t> lengths = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18};
  int batch = 4;
  double seconds = 0.3, state_gib = 6, minutes = 3;
  std::string json;
};

template <typename Number>
bool ReadNumbers(const std::string& text, std::vector<Number>& numbers) {
  numbers.clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(part, &numbers.emplace_back())) return false;
  }
  return true;
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  bool good = argc % 2 == 1;
  for (int i = 1; good && i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--config") {
      arguments.configs.push_back(value);
    } else if (name == "--dilations") {
      good = ReadNumbers(value, arguments.dilations);
    } else if (name == "--lengths") {
      good = ReadNumbers(value, arguments.lengths);
    } else if (name == "--batch") {
      good = absl::SimpleAtoi(value, &arguments.batch);
    } else if (name == "--seconds") {
      good = absl::SimpleAtod(value, &arguments.seconds);
    } else if (name == "--state-gib") {
      good = absl::SimpleAtod(value, &arguments.state_gib);
    } else if (name == "--minutes") {
      good = absl::SimpleAtod(value, &arguments.minutes);
    } else {
      good = name == "--json";
      arguments.json = value;
    }
  }
  if (!good || arguments.batch < 1) {
    std::fprintf(stderr,
                 "usage: families_bench [--config FILE]... [--dilations LIST] [--lengths LIST] "
                 "[--batch N] [--seconds S] [--state-gib G] [--minutes M] [--json FILE]\n");
    std::exit(2);
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
std::unique_ptr<model::Model> LoadRandom(const std::string& path) {
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
  auto model = model::Model::Load(
      directory, {.dtype = kernels::Bf16Supported() ? DType::kBf16 : DType::kFloat32});
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
  void RunPattern(const std::string& family, const model::Model& model,
                  const model::LocalPatterns& patterns, int64_t dilation);
  void Point(const std::string& family, const model::Model& model, Sequences& sequences,
             int64_t dilation, int64_t length, int64_t rows, int batch);

  // Whether the states of a batch fit. Twice their entries: vectors grow by doubling.
  bool Fits(const model::ModelConfig& config, const model::LocalState& state, int64_t length,
            int batch) const {
    const double entries = static_cast<double>(EntriesByFormula(state, length)) * batch;
    return 2 * entries * EntryBytes(config) <= arguments_.state_gib * (1 << 30);
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
  const std::unique_ptr<model::Model> model = LoadRandom(path);
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
    RunPattern(family, *model, patterns, dilation);
  }
  if (!any) RunPattern(family, *model, config.local, 0);
}

void Bench::RunPattern(const std::string& family, const model::Model& model,
                       const model::LocalPatterns& patterns, int64_t dilation) {
  Sequences filled(model, patterns);
  for (const int64_t length : arguments_.lengths) {
    const std::string what = absl::StrCat(family, " D ", dilation, " at ", length);
    if (Late()) {
      LeaveOut(what, "--minutes");
    } else if (!Fits(model.config(), filled.state(), length, 1)) {
      LeaveOut(what, "--state-gib");
    } else {
      filled.FillTo(length);
      Point(family, model, filled, dilation, length, 1, 1);
      if (arguments_.batch > 1 && Fits(model.config(), filled.state(), length, arguments_.batch)) {
        filled.SetBatch(arguments_.batch);
        Point(family, model, filled, dilation, length, 1, arguments_.batch);
        filled.SetBatch(1);
      } else if (arguments_.batch > 1) {
        LeaveOut(what + " in a batch", "--state-gib");
      }
      Point(family, model, filled, dilation, length, kPromptRows, 1);
    }
  }
}

void Bench::Point(const std::string& family, const model::Model& model, Sequences& sequences,
                  int64_t dilation, int64_t length, int64_t rows, int batch) {
  const model::ModelConfig& config = model.config();
  Sequences nothing(model, sequences.state().pattern);
  nothing.SetBatch(batch);
  const double empty = nothing.Measure(rows, rows > 1 ? 3 : 21, 0).median_s;
  const PositionCost cost =
      sequences.Measure(rows, rows > 1 ? 2 : 5, rows > 1 ? 0 : arguments_.seconds);
  RECOLLECT_CHECK(cost.entries == cost.entries_formula);
  const double entry_bytes = cost.entries * EntryBytes(config);
  const double sum_bytes = static_cast<double>(SumBytes(sequences.state()));
  // Of an entry, the key with the query and the value with its weight.
  const double flops = 4.0 * config.head_dim * cost.entries;
  const double predicted =
      empty + (rows > 1 ? flops / ceilings_.fp32_flops : entry_bytes / ceilings_.read_bytes);
  if (dilation == 1) dense_s_.emplace(std::tuple{length, rows, batch}, cost.median_s);
  const auto dense = dense_s_.find({length, rows, batch});
  const double heads = static_cast<double>(CountHeads(sequences.state()));
  points_.push_back({{"family", family},
                     {"dilation", dilation},
                     {"context", length},
                     {"batch", batch},
                     {"rows", rows},
                     {"entries_per_head", cost.entries / heads},
                     {"entries_per_head_formula", cost.entries_formula / heads},
                     {"read_bytes", entry_bytes + sum_bytes},
                     {"read_bytes_formula", cost.entries_formula * EntryBytes(config) + sum_bytes},
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
