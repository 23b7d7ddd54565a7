#include "bench/engine/workload.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <future>
#include <utility>

#include "base/io/file.h"
#include "base/types.h"
#include "model/weights/weights.h"

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

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(path);
  Require(text.status(), "text");
  Require(text->empty() ? absl::InvalidArgumentError(path + ": empty") : absl::OkStatus(), "text");
  return *std::move(text);
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

IngestFlops IngestFlopsPerToken(const model::ModelConfig& config) {
  IngestFlops flops;
  if (config.documents() == DocumentKind::kText) return flops;  // no layer runs
  const int64_t d = config.d, inner = config.inner(), tokens = config.chunk_tokens;
  const auto ffn = [&](int64_t width) {
    return d * (model::FfnInputRows(config.ffn_kind, width) + width);
  };
  const auto per_token = [](int64_t products, int64_t of) {
    return 2.0 * static_cast<double>(products) / static_cast<double>(of);
  };
  int64_t layers = 0;
  for (int layer = 0; layer < config.n_low; ++layer) {
    layers += d * (model::MixerInputRows(config, config.mixer(layer)) + inner) + ffn(config.ffn);
  }
  // A landmark is a row of the layers, too; an adapter's CLS is one of the encoder alone.
  flops.layers =
      config.landmarks() ? per_token(layers * (tokens + 1), tokens) : per_token(layers, 1);
  if (config.documents() != DocumentKind::kChunks) return flops;
  const bool adapter = config.has_adapter();
  const int64_t encoder =  // q, k, v and out of its attention
      config.encoder_layers *
      (4 * d * inner + ffn(adapter ? config.adapter.encoder_ffn : config.ffn));
  const int64_t states = adapter ? tokens * d * config.state_width() : 0;
  flops.encoder = per_token(encoder * (tokens + 1) + d * config.d_r + states, tokens);
  return flops;
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace recollect::bench
