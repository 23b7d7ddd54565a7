#include "bench/engine/mounted_tokens.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

#include "bench/engine/workload.h"
#include "bench/store/disk.h"
#include "engine/backend/cpu/cpu_landmarks.h"
#include "store/rocks/rocks_store.h"

namespace recollect::bench {
namespace {

constexpr char kPrompt[] = "The captain of the ship looked at the sea and said";

std::unique_ptr<store::DocumentStore> OpenStore(const std::string& data_dir) {
  store::RocksOptions rocks;
  rocks.directory = data_dir;
  auto store = store::OpenRocksStore(rocks);
  Require(store.status(), "store");
  return *std::move(store);
}

// The document's first `bytes`.
std::string TextOf(const std::string& data_dir, const std::string& document, int64_t bytes) {
  const auto store = OpenStore(data_dir);
  const auto info = store->Get(document);
  Require(info.status(), "document");
  const auto text = store->ReadText(info->owner, 0, bytes);
  Require(text.status(), "text");
  return *text;
}

double Least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

// The median of of[i] / to[i].
double Ratio(std::vector<double> of, const std::vector<double>& to) {
  for (size_t i = 0; i < of.size(); ++i) of[i] /= to[i];
  return Median(of);
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A landmark index that does ahead what it can for a landmark's later groups, or nothing.
class MountedTokens::Ahead final : public engine::LandmarkIndex {
 public:
  explicit Ahead(std::shared_ptr<engine::LandmarkIndex> landmarks)
      : landmarks_(std::move(landmarks)) {}
  std::string name() const override { return landmarks_->name(); }
  int64_t BytesOf(int64_t count, int64_t d_k) const override {
    return landmarks_->BytesOf(count, d_k);
  }
  absl::StatusOr<std::unique_ptr<engine::LandmarkKeys>> Keep(LargeVector<Bf16> keys) override {
    return landmarks_->Keep(std::move(keys));
  }
  void Search(std::span<engine::LandmarkQuery> queries) override {
    if (!allowed) {
      for (engine::LandmarkQuery& query : queries) query.later.clear();
    }
    landmarks_->Search(queries);
  }
  void AwaitSketches() { dynamic_cast<engine::CpuLandmarks&>(*landmarks_).AwaitSketches(); }

  std::atomic<bool> allowed{true};

 private:
  const std::shared_ptr<engine::LandmarkIndex> landmarks_;
};

MountedTokens::MountedTokens(engine::LoadedModel model, std::string data_dir, std::string document)
    : model_(std::move(model)),
      data_dir_(std::move(data_dir)),
      document_(std::move(document)),
      ahead_(std::make_shared<Ahead>(model_.landmarks)) {
  model_.landmarks = ahead_;
}

std::unique_ptr<engine::Engine> MountedTokens::OpenEngine(
    const engine::EngineOptions& options) const {
  auto engine = engine::Engine::Create(options, model_, OpenStore(data_dir_));
  Require(engine.status(), "engine");
  return *std::move(engine);
}

void MountedTokens::Mount(engine::Engine& engine) const {
  Require(engine.OpenSession({.mounts = {document_}}, {}).status(), "mount");
  ahead_->AwaitSketches();
}

void MountedTokens::TimePerToken(int rounds) {
  constexpr int64_t kTokens = 1024;
  constexpr char kSmall[] = "mount-bench-16k";
  const std::string text = TextOf(data_dir_, document_, 52000);
  const auto engine = OpenEngine({});
  if (!engine->GetDocument(kSmall).ok()) IngestText(*engine, kSmall, text);
  const struct {
    const char* name;
    std::vector<std::string> mounts;
    bool ahead;
  } cases[] = {{"16 K tokens", {kSmall}, true},
               {"the document", {document_}, true},
               {"the document, each group alone", {document_}, false},
               {"nothing", {}, true}};
  constexpr size_t kCases = std::size(cases);
  Mount(*engine);
  std::vector<double> wall[kCases], cpu[kCases];
  std::vector<int32_t> tokens[kCases];
  for (int i = 0; i <= rounds; ++i) {
    for (size_t at = 0; at < kCases; ++at) {
      ahead_->allowed = cases[at].ahead;
      const Generation made = Generate(*engine, cases[at].mounts, kPrompt, kTokens);
      tokens[at] = made.tokens;
      if (i == 0) continue;  // warms up
      wall[at].push_back(made.s_per_token * 1e3);
      cpu[at].push_back(made.cpu_s_per_token * 1e3);
    }
  }
  Require(tokens[1] == tokens[2] ? absl::OkStatus() : absl::InternalError("other tokens"),
          "groups together");
  for (size_t at = 0; at < kCases; ++at) {
    std::printf("a token with %-30s %.3f ms, median %.3f, x %.3f; CPU %.3f, median %.3f, x %.3f\n",
                cases[at].name, Least(wall[at]), Median(wall[at]), Ratio(wall[at], wall[0]),
                Least(cpu[at]), Median(cpu[at]), Ratio(cpu[at], cpu[0]));
  }
  std::fflush(stdout);
  Require(engine->DeleteDocument(kSmall), "delete");
}

// In an engine of its own for each turn: its window of latencies then holds nothing else.
void MountedTokens::LandmarkSteps() {
  constexpr int64_t kSteps = 128;
  constexpr int kTurns = 5;
  const engine::EngineOptions from_store = {.memory_budget_bytes = 0,
                                            .chunk_states_budget_bytes = 0};
  const struct {
    const char* name;
    engine::EngineOptions options;
    bool ahead, cold;
  } cases[] = {{"chunks kept in memory", {}, true, false},
               {"chunks kept in memory, each group alone", {}, false, false},
               {"chunks in the store", from_store, true, false},
               {"chunks in the store, not in the page cache", from_store, true, true}};
  constexpr size_t kCases = std::size(cases);
  std::vector<double> p50[kCases], p99[kCases];
  for (int i = 0; i < kTurns; ++i) {
    for (size_t at = 0; at < kCases; ++at) {
      ahead_->allowed = cases[at].ahead;
      const auto engine = OpenEngine(cases[at].options);
      Mount(*engine);
      const int64_t at_once = cases[at].cold ? 8 : kSteps;
      for (int64_t steps = 0; steps < kSteps; steps += at_once) {
        if (cases[at].cold) DropCaches(data_dir_);
        Generate(*engine, {document_}, kPrompt, 63 * at_once);
      }
      const engine::EngineStats stats = engine->stats();
      p50[at].push_back(stats.landmark_step_p50_ms);
      p99[at].push_back(stats.landmark_step_p99_ms);
    }
  }
  for (size_t at = 0; at < kCases; ++at) {
    std::vector<double> spread = p99[at];
    for (size_t i = 0; i < spread.size(); ++i) spread[i] /= p50[at][i];
    std::printf(
        "a landmark step, %-42s p50 %.2f ms, median of turns %.2f; p99 %.2f, %.2f; p99 / p50 %.2f, "
        "%.2f\n",
        cases[at].name, Least(p50[at]), Median(p50[at]), Least(p99[at]), Median(p99[at]),
        Least(spread), Median(spread));
  }
}

}  // namespace recollect::bench
