#include "bench/engine/workload.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <future>

#include "base/types.h"

namespace recollect::bench {
namespace {

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Events final : public engine::GenerateEvents {
 public:
  void OnTokens(const std::vector<int32_t>& tokens, const std::string&) override {
    result.insert(result.end(), tokens.begin(), tokens.end());
  }
  void OnRetrieval(const engine::Retrieval&) override {}
  void OnDone(engine::FinishReason, const engine::Usage& usage) override { ended.set_value(usage); }
  void OnError(const absl::Status& status) override { Require(status, "generate"); }

  std::vector<int32_t> result;
  std::promise<engine::Usage> ended;
};

}  // namespace

void Require(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

Stopwatch::Stopwatch() : wall_(Seconds(CLOCK_MONOTONIC)), cpu_(Seconds(CLOCK_PROCESS_CPUTIME_ID)) {}

Cost Stopwatch::cost() const {
  return {Seconds(CLOCK_MONOTONIC) - wall_, Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_};
}

store::DocumentInfo IngestText(engine::Engine& engine, const std::string& id,
                               const std::string& text) {
  auto stream = engine.BeginIngest(id, /*from_tokens=*/false, {});
  Require(stream.status(), "begin ingest");
  constexpr size_t kMessage = 1 << 18;
  for (size_t at = 0; at < text.size(); at += kMessage) {
    std::promise<absl::Status> appended;
    (*stream)->Append(
        static_cast<int64_t>(at), text.substr(at, kMessage),
        [&](absl::StatusOr<engine::IngestStatus> status) { appended.set_value(status.status()); });
    Require(appended.get_future().get(), "append");
  }
  std::promise<store::DocumentInfo> published;
  (*stream)->Finish([&](absl::StatusOr<store::DocumentInfo> info) {
    Require(info.status(), "finish");
    published.set_value(*info);
  });
  return published.get_future().get();
}

Generation Generate(engine::Engine& engine, const std::vector<std::string>& mounts,
                    const std::string& prompt, int64_t tokens) {
  auto events = std::make_shared<Events>();
  engine::GenerateRequest request;
  request.session_options.mounts = mounts;
  request.prompt.text = prompt;
  request.max_tokens = tokens;
  request.ignore_eos = true;
  const Stopwatch watch;
  engine.Generate(request, events);
  const engine::Usage usage = events->ended.get_future().get();
  const Cost cost = watch.cost();
  return {events->result,
          absl::ToDoubleSeconds(usage.generation_time) / static_cast<double>(tokens - 1),
          cost.cpu_s / static_cast<double>(tokens)};
}

double IngestFlopsPerToken(const model::ModelConfig& config) {
  if (config.documents() == DocumentKind::kText) return 0;  // no layer runs
  const double d = static_cast<double>(config.d), inner = static_cast<double>(config.inner());
  const double ffn = 3.0 * d * static_cast<double>(config.ffn);
  const double layer = 6.0 * d * inner + ffn;          // o, q, k, v, g; out
  const double encoder_layer = 4.0 * d * inner + ffn;  // q, k, v; out
  const double block = kBlockRows * (config.n_low * layer + config.encoder_layers * encoder_layer) +
                       d * static_cast<double>(config.d_r);
  return 2.0 * block / kChunkTokens;
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace recollect::bench
