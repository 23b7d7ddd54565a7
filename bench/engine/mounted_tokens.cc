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

// A landmark index that does ahead what it can for a landmark's later groups, or nothing; and that
// keeps the keys of large documents several times, so that a search is one of as many chunks. Keys
// are as the model makes them: the encoder's numbers of one chunk stand beside the lexical ones of
// another, which differs from time to time. Hits are those chunks.
class MountedTokens::Index final : public engine::LandmarkIndex {
 public:
  Index(std::shared_ptr<engine::LandmarkIndex> landmarks, const model::ModelConfig& config,
        int64_t times)
      : landmarks_(std::move(landmarks)),
        width_(config.key_width()),
        dense_(config.d_r),
        times_(times) {}
  std::string name() const override { return landmarks_->name(); }
  absl::StatusOr<std::unique_ptr<engine::LandmarkKeys>> Keep(LargeVector<Bf16> keys) override {
    if (!Repeats(std::ssize(keys) / width_)) return landmarks_->Keep(std::move(keys));
    const int64_t count = std::ssize(keys) / width_;
    LargeVector<Bf16> all(static_cast<size_t>(times_ * count * width_));
    for (int64_t i = 0; i < times_ * count; ++i) {
      const auto key = keys.begin() + i % count * width_;
      const auto other = keys.begin() + (i + i / count * kStride) % count * width_;
      const auto to = std::copy(key, key + dense_, all.begin() + i * width_);
      std::copy(other + dense_, other + width_, to);
    }
    return landmarks_->Keep(std::move(all));
  }
  void Search(std::span<engine::LandmarkQuery> queries) override {
    std::vector<std::vector<engine::KeyRun>> asked;
    for (engine::LandmarkQuery& query : queries) {
      if (!ahead) query.later.clear();
      asked.push_back(query.runs);
      for (engine::KeyRun& run : query.runs) run.count *= Repeats(run.count) ? times_ : 1;
    }
    landmarks_->Search(queries);
    for (size_t q = 0; q < queries.size(); ++q) {
      queries[q].runs = asked[q];
      for (kernels::ScoredCandidate& found : queries[q].best) {
        found.candidate = ChunkOf(found.candidate, asked[q]);
      }
    }
  }
  void AwaitSketches() { dynamic_cast<engine::CpuLandmarks&>(*landmarks_).AwaitSketches(); }

  std::atomic<bool> ahead{true};

 private:
  static constexpr int64_t kStride = 7919;
  // Of one of 16 K tokens and of sessions' own, the keys are kept once.
  bool Repeats(int64_t count) const { return times_ > 1 && count > 1024; }
  int64_t ChunkOf(int64_t candidate, const std::vector<engine::KeyRun>& runs) const {
    int64_t first = 0;
    for (const engine::KeyRun& run : runs) {
      const int64_t count = run.count * (Repeats(run.count) ? times_ : 1);
      if (candidate < count) return first + candidate % run.count;
      candidate -= count;
      first += run.count;
    }
    return first;
  }

  const std::shared_ptr<engine::LandmarkIndex> landmarks_;
  const int64_t width_, dense_, times_;
};

MountedTokens::MountedTokens(engine::LoadedModel model, std::string data_dir, std::string document,
                             int64_t times)
    : model_(std::move(model)),
      data_dir_(std::move(data_dir)),
      document_(std::move(document)),
      index_(std::make_shared<Index>(model_.landmarks, model_.model->config(), times)) {
  model_.landmarks = index_;
}

std::unique_ptr<engine::Engine> MountedTokens::OpenEngine(
    const engine::EngineOptions& options) const {
  auto engine = engine::Engine::Create(options, model_, OpenStore(data_dir_));
  Require(engine.status(), "engine");
  return *std::move(engine);
}

void MountedTokens::Mount(engine::Engine& engine) const {
  Require(engine.OpenSession({.mounts = {document_}}, {}).status(), "mount");
  index_->AwaitSketches();
}

void MountedTokens::TimePerToken(int rounds, int64_t tokens_each) {
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
      index_->ahead = cases[at].ahead;
      const Generation made = Generate(*engine, cases[at].mounts, kPrompt, tokens_each);
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
void MountedTokens::LandmarkSteps(int rounds, int64_t steps_each) {
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
  for (int i = 0; i < rounds; ++i) {
    for (size_t at = 0; at < kCases; ++at) {
      index_->ahead = cases[at].ahead;
      const auto engine = OpenEngine(cases[at].options);
      Mount(*engine);
      const int64_t at_once = cases[at].cold ? std::min<int64_t>(8, steps_each) : steps_each;
      for (int64_t steps = 0; steps < steps_each; steps += at_once) {
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
