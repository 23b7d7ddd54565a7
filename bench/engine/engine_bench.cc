// The engine end to end on a model and a text: ingest, time per token by what is mounted, landmark
// steps by the tier that keeps their chunks, memory, mounting after a restart.
//
//   engine_bench --model DIR --text FILE [--tokens 1000000] [--threads 0] [--device cpu]
//                [--ingest-slice 1024] [--only-ingest] [--landmark-steps 256] [--data-dir DIR]
//                [--json FILE]
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "bench/engine/workload.h"
#include "bench/kernels/ceilings.h"
#include "bench/store/disk.h"
#include "engine/backend/devices.h"
#include "nlohmann/json.hpp"
#include "store/document_store.h"
#ifdef RECOLLECT_WITH_ROCKSDB
#include "store/rocks/rocks_store.h"
#endif

namespace recollect::bench {
namespace {

using nlohmann::json;

constexpr int kRepeats = 7;
constexpr int64_t kGenerated = 256;
constexpr const char* kPrompt = "What did the captain say about the white whale that night?";

struct Arguments {
  std::string model, text, json, data_dir = "engine_bench_data", device = "cpu";
  int64_t tokens = 1000000, ingest_slice = 1024, landmark_steps = 256;
  int threads = 0;
  bool only_ingest = false;
};

// `bytes` of text, repeated when the file is shorter; to the end of a character.
std::string TextOf(const std::string& path, double bytes) {
  const std::string once = ReadText(path);
  std::string text;
  while (static_cast<double>(text.size()) < bytes) text += once;
  size_t end = static_cast<size_t>(bytes);
  while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) ++end;
  text.resize(end);
  return text;
}

// What one thread's products of a format may reach.
struct ProductCeiling {
  const char* format;
  double flops;
};

// Before and after what is compared with them: the machine's speed drifts.
Ceilings Larger(const Ceilings& before, const Ceilings& after) {
  return {.fp32_flops = std::max(before.fp32_flops, after.fp32_flops),
          .bf16_flops = std::max(before.bf16_flops, after.bf16_flops),
          .int8_flops = std::max(before.int8_flops, after.int8_flops)};
}

// Quantised weights are multiplied as 8-bit integers.
ProductCeiling CeilingOf(DType dtype, const Ceilings& ceilings) {
  if (dtype == DType::kQuantized) return {"int8", ceilings.int8_flops};
  if (dtype == DType::kBf16) return {"bf16", ceilings.bf16_flops};
  return {"fp32", ceilings.fp32_flops};
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {
    auto loaded =
        engine::LoadModel(arguments.device, arguments.model, std::nullopt, arguments.threads);
    Require(loaded.status(), "model");
    loaded_ = *std::move(loaded);
    std::filesystem::remove_all(arguments.data_dir);
  }
  ~Bench() {
    engine_ = nullptr;
    std::filesystem::remove_all(arguments_.data_dir);
  }

  void Run() {
    Open({});
    Ingest();
    Write();
    if (!arguments_.only_ingest) Ask();
  }

 private:
  void Ask() {
    TimePerToken();
    Write();
#ifdef RECOLLECT_WITH_ROCKSDB
    LandmarkSteps();
    Memory();
    Reopen();
    Write();
#endif
  }

  // After each part: one that is stopped must not cost the others.
  void Write() const {
    std::fflush(stdout);
    if (!arguments_.json.empty()) std::ofstream(arguments_.json) << result_.dump(2) << "\n";
  }

  void Open(engine::EngineOptions options) {
    engine_ = nullptr;
    options.ingest_slice_tokens = arguments_.ingest_slice;
    auto engine = engine::Engine::Create(options, loaded_, OpenStore());
    Require(engine.status(), "engine");
    engine_ = *std::move(engine);
  }

  // Without RocksDB one in RAM, which an engine takes along when it goes: then all runs on one
  // engine, and what needs another is left out.
  std::unique_ptr<store::DocumentStore> OpenStore() const {
#ifdef RECOLLECT_WITH_ROCKSDB
    store::RocksOptions rocks;
    rocks.directory = arguments_.data_dir;
    auto store = store::OpenRocksStore(rocks);
    Require(store.status(), "store");
    return *std::move(store);
#else
    return store::CreateMemoryStore();
#endif
  }

  void Ingest();
  void CompareWithCeilings(const Ceilings& ceilings, double cpu_s_per_token);
  void TimePerToken();
  void LandmarkSteps();
  void Memory();
  void Reopen();

  const Arguments arguments_;
  engine::LoadedModel loaded_;
  std::unique_ptr<engine::Engine> engine_;
  json result_;
};

void Bench::Ingest() {
  // 16 K tokens first: warms up, and tells how many bytes a token has.
  const std::string small = TextOf(arguments_.text, 16384 * 3.0);
  const store::DocumentInfo first = IngestText(*engine_, "16k", small);
  const double bytes = static_cast<double>(first.bytes) / static_cast<double>(first.tokens);
  const std::string text = TextOf(arguments_.text, bytes * static_cast<double>(arguments_.tokens));
  const Ceilings before = MeasureCeilings();
  const Stopwatch watch;
  const store::DocumentInfo info = IngestText(*engine_, "big", text);
  const Cost cost = watch.cost();
  const Ceilings ceilings = Larger(before, MeasureCeilings());

  const model::Model& model = *loaded_.model;
  const auto tokens = static_cast<double>(info.tokens);
  const std::string device = engine_->stats().backend;
  std::printf("%s, layers on %s, %s, %lld parameters\n", CpuName().c_str(), device.c_str(),
              DTypeName(model.dtype()), static_cast<long long>(model.parameters()));
  std::printf("ingest            %lld tokens in %.1f s: %.0f tokens/s; %.0f tokens per CPU second",
              static_cast<long long>(info.tokens), cost.wall_s, tokens / cost.wall_s,
              tokens / cost.cpu_s);
  result_["cpu"] = CpuName();
  result_["backend"] = device;
  result_["ingest"] = {{"tokens", info.tokens},
                       {"wall_s", cost.wall_s},
                       {"cpu_s", cost.cpu_s},
                       {"tokens_per_s", tokens / cost.wall_s}};
  if (device == "cpu") CompareWithCeilings(ceilings, cost.cpu_s / tokens);
  std::printf("\n");
}

// The share of the time that the products would take if each reached the ceiling of its format.
void Bench::CompareWithCeilings(const Ceilings& ceilings, double cpu_s_per_token) {
  const DType dtype = loaded_.model->dtype();
  const IngestFlops flops = IngestFlopsPerToken(loaded_.model->config());
  // An adapter's weights are in no blocks.
  const DType unquantized = ceilings.bf16_flops > 0 ? DType::kBf16 : DType::kFloat32;
  const ProductCeiling layers = CeilingOf(dtype, ceilings);
  const ProductCeiling encoder =
      CeilingOf(dtype == DType::kQuantized ? unquantized : dtype, ceilings);
  const double share =
      (flops.layers / layers.flops + flops.encoder / encoder.flops) / cpu_s_per_token;
  std::printf(", %.1f %% of one thread's product ceiling: layers %s, %.1f GFLOP/s", 100 * share,
              layers.format, layers.flops * 1e-9);
  if (flops.encoder > 0) std::printf("; encoder %s, %.1f", encoder.format, encoder.flops * 1e-9);
  result_["ingest"]["fraction_of_ceiling"] = share;
  result_["ceilings"]["layers"] = {{"format", layers.format}, {"flops", layers.flops}};
  result_["ceilings"]["encoder"] = {{"format", encoder.format}, {"flops", encoder.flops}};
}

// The three take turns, so that whatever else the machine does falls on all of them.
void Bench::TimePerToken() {
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"nothing", {}}, {"16 K tokens", {"16k"}}, {"all tokens", {"big"}}};
  std::vector<std::vector<double>> wall(cases.size()), cpu(cases.size());
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const Generation generation = Generate(*engine_, cases[i].second, kPrompt, kGenerated);
      if (repeat == 0) continue;  // warms up
      wall[i].push_back(generation.s_per_token);
      cpu[i].push_back(generation.cpu_s_per_token);
    }
  }
  const double base = Median(wall[1]), base_cpu = Median(cpu[1]);
  for (size_t i = 0; i < cases.size(); ++i) {
    const double ms = Median(wall[i]) * 1e3, cpu_ms = Median(cpu[i]) * 1e3;
    std::printf("time per token    %-12s mounted: %.3f ms (x %.2f of 16 K); CPU %.3f ms (x %.2f)\n",
                cases[i].first, ms, Median(wall[i]) / base, cpu_ms, Median(cpu[i]) / base_cpu);
    result_["time_per_token"].push_back(
        {{"mounted", cases[i].first}, {"wall_ms", ms}, {"cpu_ms", cpu_ms}});
  }
}

// A fresh engine for each: its window of latencies then holds nothing else. What one tier has no
// room for comes from the next: what a hop costs is the difference. For "disk" the store's files
// leave the page cache again and again.
void Bench::LandmarkSteps() {
  struct Case {
    const char* tier;
    int64_t steps_at_once;
    engine::EngineOptions options;
  };
  const int64_t all = arguments_.landmark_steps;
  const engine::EngineOptions store = {.memory_budget_bytes = 0, .chunk_states_budget_bytes = 0};
  const Case cases[] = {{"disk", 8, store},
                        {"store", all, store},
                        {"states", all, {.memory_budget_bytes = 0}},
                        {"memory", all, {}}};
  for (const auto& [tier, steps_at_once, options] : cases) {
    Open(options);
    for (int64_t steps = 0; steps < all; steps += steps_at_once) {
      if (steps_at_once < all) DropCaches(arguments_.data_dir);
      Generate(*engine_, {"big"}, kPrompt, 63 * steps_at_once);
    }
    const engine::EngineStats stats = engine_->stats();
    std::printf(
        "landmark step     chunks kept up to %-6s: p50 %.2f ms, p99 of %lld %.2f ms (%lld memory, "
        "%lld states, %lld store hits; %lld reads, p50 %.2f ms, p99 %.2f ms, %.1f KiB each)\n",
        tier, stats.landmark_step_p50_ms, static_cast<long long>(all), stats.landmark_step_p99_ms,
        static_cast<long long>(stats.chunk_hits_memory),
        static_cast<long long>(stats.chunk_hits_states),
        static_cast<long long>(stats.chunk_hits_store), static_cast<long long>(stats.store_reads),
        stats.store_read_p50_ms, stats.store_read_p99_ms,
        static_cast<double>(stats.store_read_bytes) / 1024 /
            static_cast<double>(std::max<int64_t>(stats.store_reads, 1)));
    result_["landmark_step"].push_back({{"kept_up_to", tier},
                                        {"p50_ms", stats.landmark_step_p50_ms},
                                        {"p99_ms", stats.landmark_step_p99_ms},
                                        {"store_read_p50_ms", stats.store_read_p50_ms},
                                        {"store_read_p99_ms", stats.store_read_p99_ms}});
    Write();
  }
}

void Bench::Memory() {
  Open({});
  Generate(*engine_, {"big", "16k"}, kPrompt, kGenerated);
  const engine::EngineStats stats = engine_->stats();
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::printf(
      "memory            resident %.0f MiB; landmark keys %.1f of %.0f MiB, memory K,V %.1f of "
      "%.0f, chunk states %.1f of %.0f, store %.0f on disk; weights %.0f\n",
      mib(ResidentBytes()), mib(stats.landmark_bytes), mib(stats.landmark_budget_bytes),
      mib(stats.memory_bytes), mib(stats.memory_budget_bytes), mib(stats.chunk_states_bytes),
      mib(stats.chunk_states_budget_bytes), mib(stats.store_bytes),
      mib(loaded_.model->weight_bytes()));
  result_["memory"] = {{"resident_bytes", ResidentBytes()},
                       {"landmark_bytes", stats.landmark_bytes},
                       {"memory_bytes", stats.memory_bytes},
                       {"chunk_states_bytes", stats.chunk_states_bytes},
                       {"store_bytes", stats.store_bytes}};
}

// With the store's files out of the page cache, as after the machine's restart.
void Bench::Reopen() {
  engine_ = nullptr;
  DropCaches(arguments_.data_dir);
  const Stopwatch opening;
  Open({});
  const double open_ms = opening.cost().wall_s * 1e3;
  const Stopwatch mounting;
  Require(engine_->OpenSession({.mounts = {"big"}}).status(), "mount");
  const double mount_ms = mounting.cost().wall_s * 1e3;
  std::printf("restart           opening %.0f ms, mounting %lld tokens %.1f ms\n", open_ms,
              static_cast<long long>(engine_->GetDocument("big")->tokens), mount_ms);
  result_["restart"] = {{"open_ms", open_ms}, {"mount_ms", mount_ms}};
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Arguments arguments;
  CLI::App app("Times the engine on a model and a text.");
  app.add_option("--model", arguments.model)->required();
  app.add_option("--text", arguments.text)->required();
  app.add_option("--tokens", arguments.tokens);
  app.add_option("--threads", arguments.threads);
  app.add_option("--device", arguments.device, "cpu, cuda:N or auto");
  app.add_option("--ingest-slice", arguments.ingest_slice, "in tokens");
  app.add_flag("--only-ingest", arguments.only_ingest);
  app.add_option("--landmark-steps", arguments.landmark_steps, "for each tier");
  app.add_option("--data-dir", arguments.data_dir);
  app.add_option("--json", arguments.json);
  CLI11_PARSE(app, argc, argv);
  recollect::bench::Bench(arguments).Run();
  return 0;
}
