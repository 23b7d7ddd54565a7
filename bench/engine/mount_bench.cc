// What the first mount of a large document takes, beside what the machine can do with as many bytes
// in the same run; how long a search of its landmark keys takes before and after their sketch is
// there; and whether another session's tokens take longer while a document is mounted.
//
//   mount_bench --model DIR --data-dir DIR --document ID [--threads 2] [--cold]
//   mount_bench … --tokens [--times N] [--rounds 15] [--each 1024]
//                                     instead the time per token with the document mounted, in
//                                     turns of 1024 tokens; with the keys of its chunks N times
//   mount_bench … --steps [--times N] [--rounds 15] [--each 128]
//                                     that of its landmark steps
//   mount_bench --model DIR --data-dir DIR --document ID --from OTHER --times N
//                                     first writes the document: OTHER's chunks N times, with other
//                                     keys each time
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/large_vector.h"
#include "bench/engine/mounted_tokens.h"
#include "bench/engine/workload.h"
#include "bench/kernels/ceilings.h"
#include "bench/store/disk.h"
#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/devices.h"
#include "store/rocks/rocks_store.h"

namespace recollect::bench {
namespace {

constexpr int kRepeats = 5;
constexpr char kPrompt[] = "The captain of the ship looked at the sea and said";

struct Arguments {
  std::string model, data_dir, document, from;
  int threads = 2, times = 1, rounds = 15;
  int64_t each = 0;
  bool cold = false, tokens = false, steps = false;
};

// Milliseconds by the clock: the least and the median of kRepeats.
struct Times {
  double least = 0, median = 0;
};
template <typename Work>
Times Repeat(const Work& work) {
  std::vector<double> ms;
  for (int i = 0; i < kRepeats; ++i) {
    const Stopwatch watch;
    work();
    ms.push_back(watch.cost().wall_s * 1e3);
  }
  return {*std::min_element(ms.begin(), ms.end()), Median(ms)};
}

template <typename Work>
void OnThreads(int threads, const Work& work) {
  std::vector<std::thread> running;
  for (int i = 1; i < threads; ++i) running.emplace_back([&work, i] { work(i); });
  work(0);
  for (std::thread& thread : running) thread.join();
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}

  void Run() {
    auto loaded = engine::LoadModel("cpu", arguments_.model, std::nullopt, arguments_.threads);
    Require(loaded.status(), "model");
    loaded_ = *std::move(loaded);
    width_ = loaded_.model->config().key_width();
    {
      const auto store = OpenStore();
      if (!arguments_.from.empty()) Write(*store);
      info_ = Ok(store->Get(arguments_.document), "document");
    }
    bytes_ = info_.chunks * width_ * static_cast<int64_t>(sizeof(Bf16));
    std::printf("%s, %d threads; %lld tokens, %lld chunks, %.1f MiB of landmark keys\n",
                CpuName().c_str(), arguments_.threads, static_cast<long long>(info_.tokens),
                static_cast<long long>(info_.chunks), Mib(bytes_));
    if (arguments_.tokens || arguments_.steps) {
      MountedTokens tokens(loaded_, arguments_.data_dir, arguments_.document, arguments_.times);
      const auto each = [&](int64_t usual) {
        return arguments_.each > 0 ? arguments_.each : usual;
      };
      if (arguments_.tokens) tokens.TimePerToken(arguments_.rounds, each(1024));
      if (arguments_.steps) tokens.LandmarkSteps(arguments_.rounds, each(128));
      return;
    }
    Ceilings();
    Reading();
    Keeping();
    Mounting();
  }

 private:
  template <typename T>
  static T Ok(absl::StatusOr<T> value, const char* what) {
    Require(value.status(), what);
    return *std::move(value);
  }
  static double Mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
  void Print(const char* what, Times ms, double of) const {
    std::printf("%-44s %7.1f ms, median %7.1f: %5.1f GB/s, x %.2f of the copy\n", what, ms.least,
                ms.median, static_cast<double>(bytes_) / ms.least * 1e-6, ms.least / of);
    std::fflush(stdout);
  }
  std::unique_ptr<store::DocumentStore> OpenStore() const {
    if (arguments_.cold) DropCaches(arguments_.data_dir);
    store::RocksOptions rocks;
    rocks.directory = arguments_.data_dir;
    return Ok(store::OpenRocksStore(rocks), "store");
  }

  // Keys as the model makes them: the encoder's numbers of one chunk beside the lexical ones of
  // another, which differs from time to time.
  void Write(store::DocumentStore& store) {
    constexpr int64_t kChunks = 1024, kStride = 7919;
    const store::DocumentInfo from = Ok(store.Get(arguments_.from), "source");
    const int64_t dense = loaded_.model->config().d_r;
    const auto keys = Ok(store.ReadLandmarkKeys(from.owner, from.chunks, width_), "keys");
    const auto begun =
        Ok(store.BeginIngest(arguments_.document, from.fingerprint, false, ""), "new");
    for (int64_t time = 0; time < arguments_.times; ++time) {
      for (int64_t first = 0; first < from.chunks; first += kChunks) {
        const int64_t end = std::min(first + kChunks, from.chunks);
        store::IngestBatch batch;
        std::vector<ChunkRef> refs;
        for (int64_t i = first; i < end; ++i) {
          const auto begin = keys.begin() + i * width_;
          const auto other = keys.begin() + (i + time * kStride) % from.chunks * width_;
          batch.landmark_keys.insert(batch.landmark_keys.end(), begin, begin + dense);
          batch.landmark_keys.insert(batch.landmark_keys.end(), other + dense, other + width_);
          refs.push_back({from.owner, i});
        }
        for (absl::StatusOr<store::ChunkRecord>& chunk : store.ReadChunks(refs)) {
          batch.chunks.push_back(Ok(std::move(chunk), "chunk"));
          batch.chunks.back().text_begin += time * from.bytes;
          batch.chunks.back().text_end += time * from.bytes;
        }
        if (end == from.chunks) {
          batch.tokens = Ok(store.ReadTokens(from.owner, 0, from.tokens), "tokens");
          batch.text = Ok(store.ReadText(from.owner, 0, from.bytes), "text");
        }
        Require(store.CommitIngest(begun.owner, batch), "commit");
      }
    }
    Require(store.PublishIngest(begun.owner, {}).status(), "publish");
  }

  // A copy of as many bytes, on all threads, into memory that is new to the process: what reading
  // keys into RAM takes at least, one copy from the page cache.
  void Ceilings() {
    const auto size = static_cast<size_t>(bytes_);
    std::vector<char> from(size, 1);
    const auto copy = [&](char* to) {
      OnThreads(arguments_.threads, [&](int thread) {
        const size_t part = size / static_cast<size_t>(arguments_.threads);
        const size_t begin = part * static_cast<size_t>(thread);
        std::memcpy(to + begin, from.data() + begin, part);
      });
    };
    LargeVector<char> kept(size);
    copy(kept.data());
    Print("copy into memory that is there", Repeat([&] { copy(kept.data()); }), copy_ms_);
    const Times fresh = Repeat([&] {
      LargeVector<char> other(size);
      copy(other.data());
    });
    copy_ms_ = fresh.least;
    Print("copy into new memory, huge pages", fresh, copy_ms_);
    Print("copy into new memory, small pages", Repeat([&] {
            const std::unique_ptr<char[]> other(new char[size]);
            copy(other.get());
          }),
          copy_ms_);
  }

  void Reading() {
    for (const char* how : {"keys from the store, one thread, a vector", "keys from the store"}) {
      std::vector<double> ms;
      for (int i = 0; i < kRepeats; ++i) {
        const auto store = OpenStore();
        const Stopwatch watch;
        if (how[19] == ',') {
          Require(store->ReadLandmarkKeys(info_.owner, info_.chunks, width_).status(), how);
        } else {
          keys_ = LargeVector<Bf16>(static_cast<size_t>(info_.chunks * width_));
          Require(store->FillLandmarkKeys(info_.owner, info_.chunks, width_, keys_.data()), how);
        }
        ms.push_back(watch.cost().wall_s * 1e3);
      }
      Print(how, {*std::min_element(ms.begin(), ms.end()), Median(ms)}, copy_ms_);
    }
  }

  void Keeping() {
    const kernels::SketchShape shape{width_, loaded_.model->config().d_r};
    engine::CpuLandmarks landmarks(std::make_shared<engine::ComputeThreads>(arguments_.threads),
                                   shape);
    const Stopwatch watch;
    const auto kept = Ok(landmarks.Keep(std::move(keys_)), "keys");
    const double keep_ms = watch.cost().wall_s * 1e3;
    engine::LandmarkQuery query;
    query.u.resize(static_cast<size_t>(width_));
    for (size_t i = 0; i < query.u.size(); ++i) query.u[i] = static_cast<float>(i % 7) - 3;
    query.runs = {{kept.get(), info_.chunks}};
    query.n = 8;
    const Times plain = Repeat([&] { landmarks.Search(std::span(&query, 1)); });
    const auto found = query.best;
    landmarks.AwaitSketches();
    const Cost made = watch.cost();
    const Times sketched = Repeat([&] { landmarks.Search(std::span(&query, 1)); });
    Require(query.best == found ? absl::OkStatus() : absl::InternalError("other hits"), "sketch");
    std::printf(
        "keys kept after %.1f ms; their sketch after %.0f ms, %.0f ms of CPU with searches; "
        "a search meanwhile %.1f ms, after it %.1f ms\n",
        keep_ms, made.wall_s * 1e3, made.cpu_s * 1e3, plain.median, sketched.median);
    std::fflush(stdout);
  }

  std::unique_ptr<engine::Engine> OpenEngine() {
    return Ok(engine::Engine::Create({}, loaded_, OpenStore()), "engine");
  }

  // With another session that generates all the time.
  void Mounting() {
    std::vector<double> alone, busy, quiet_tokens, mounting_tokens;
    for (int i = 0; i < kRepeats; ++i) {
      const auto engine = OpenEngine();
      Generate(*engine, {}, kPrompt, 64);
      const Stopwatch watch;
      Require(engine->OpenSession({.mounts = {arguments_.document}}, {}).status(), "mount");
      alone.push_back(watch.cost().wall_s * 1e3);
    }
    Print("first mount", {*std::min_element(alone.begin(), alone.end()), Median(alone)}, copy_ms_);
    for (int i = 0; i < kRepeats; ++i) {
      const auto engine = OpenEngine();
      Generate(*engine, {}, kPrompt, 64);
      std::atomic<bool> stop{false};
      std::atomic<int> phase{0};
      std::thread other([&] {
        while (!stop) {
          const int before = phase;
          const double ms = Generate(*engine, {}, kPrompt, 32).s_per_token * 1e3;
          if (before != phase) continue;
          (before == 0 ? quiet_tokens : mounting_tokens).push_back(ms);
        }
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      phase = 1;
      const Stopwatch watch;
      Require(engine->OpenSession({.mounts = {arguments_.document}}, {}).status(), "mount");
      busy.push_back(watch.cost().wall_s * 1e3);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its sketch is being made
      phase = 2;
      stop = true;
      other.join();
    }
    Print("first mount while another session generates",
          {*std::min_element(busy.begin(), busy.end()), Median(busy)}, copy_ms_);
    std::printf(
        "a token of that session: %.3f ms before, %.3f ms during the mount and the making of "
        "the sketch, most %.3f and %.3f (32 tokens at a time)\n",
        Median(quiet_tokens), Median(mounting_tokens),
        *std::max_element(quiet_tokens.begin(), quiet_tokens.end()),
        *std::max_element(mounting_tokens.begin(), mounting_tokens.end()));
  }

  const Arguments arguments_;
  engine::LoadedModel loaded_;
  store::DocumentInfo info_;
  int64_t width_ = 0, bytes_ = 0;
  double copy_ms_ = 1;
  LargeVector<Bf16> keys_;
};

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Arguments arguments;
  CLI::App app("Times the first mount of a document that is in a data directory.");
  app.add_option("--model", arguments.model)->required();
  app.add_option("--data-dir", arguments.data_dir)->required();
  app.add_option("--document", arguments.document)->required();
  app.add_option("--threads", arguments.threads);
  app.add_option("--from", arguments.from);
  app.add_option("--times", arguments.times);
  app.add_option("--rounds", arguments.rounds, "of --tokens and --steps");
  app.add_option("--each", arguments.each, "tokens or landmark steps of a turn");
  app.add_flag("--steps", arguments.steps);
  app.add_flag("--tokens", arguments.tokens);
  app.add_flag("--cold", arguments.cold, "without the page cache of the store's files");
  CLI11_PARSE(app, argc, argv);
  recollect::bench::Bench(arguments).Run();
  return 0;
}
