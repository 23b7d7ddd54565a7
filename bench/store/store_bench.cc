// The store as the engine uses it: commits, and batched reads of random chunks, warm and cold,
// beside what the disk itself does in the same run.
//
//   store_bench [--dir DIR] [--chunks 8192] [--batch 16] [--reads 400] [--json FILE]
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "CLI/CLI.hpp"
#include "bench/store/disk.h"
#include "nlohmann/json.hpp"
#include "store/rocks/rocks_store.h"

namespace recollect::bench {
namespace {

constexpr int64_t kKeyWidth = 128;
constexpr int kCommitChunks = 64;

struct Flags {
  std::string dir = "/tmp";
  std::string json;
  int64_t chunks = 8192;
  int64_t batch = 16;
  int64_t reads = 400;
};

store::DocumentInfo Fill(store::DocumentStore& store, const Flags& flags, nlohmann::json* out) {
  const auto progress = Checked(store.BeginIngest("bench", "bench", false, ""));
  std::vector<double> times;
  double bytes = 0;
  for (int64_t at = 0; at < flags.chunks; at += kCommitChunks) {
    const store::IngestBatch batch =
        MakeBatch(at, std::min(flags.chunks, at + kCommitChunks), kKeyWidth);
    const double start = Seconds();
    RECOLLECT_CHECK(store.CommitIngest(progress.owner, batch).ok());
    times.push_back(Seconds() - start);
    bytes += static_cast<double>(batch.chunks.size()) * kChunkTokens * kWidth * 2;
  }
  double total = 0;
  for (const double t : times) total += t;
  const auto info = Checked(store.PublishIngest(progress.owner, store::IngestBatch()));
  std::printf("commit of %d chunks: p50 %.2f ms, p99 %.2f ms, %.0f MB/s\n", kCommitChunks,
              Percentile(times, 0.5) * 1e3, Percentile(times, 0.99) * 1e3, bytes / total / 1e6);
  (*out)["commit"] = {{"chunks", kCommitChunks},
                      {"p50_ms", Percentile(times, 0.5) * 1e3},
                      {"p99_ms", Percentile(times, 0.99) * 1e3},
                      {"bytes_per_s", bytes / total}};
  return info;
}

// Batched reads by `threads` callers at once, each batch of random chunks.
void Read(store::DocumentStore& store, const Flags& flags, const std::string& directory,
          const store::DocumentInfo& info, int threads, bool cold, double sequential,
          nlohmann::json* out) {
  std::vector<std::vector<double>> times(static_cast<size_t>(threads));
  std::mt19937_64 random(42);
  double bytes = 0, total = 0;
  const int64_t rounds = flags.reads / threads / (cold ? 2 : 1);
  for (int64_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<ChunkRef>> refs(static_cast<size_t>(threads));
    for (auto& list : refs) list = RandomChunks(info, flags.batch, random);
    if (cold) DropCaches(directory);
    std::vector<std::thread> workers;
    const double start = Seconds();
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const double begin = Seconds();
        const auto chunks = store.ReadChunks(refs[static_cast<size_t>(t)]);
        times[static_cast<size_t>(t)].push_back(Seconds() - begin);
        for (const auto& chunk : chunks) RECOLLECT_CHECK(chunk.ok());
      });
    }
    for (std::thread& worker : workers) worker.join();
    total += Seconds() - start;
    bytes += static_cast<double>(threads * flags.batch) * kChunkTokens * kWidth * 2;
  }
  std::vector<double> all;
  for (const auto& list : times) all.insert(all.end(), list.begin(), list.end());
  const double p50 = Percentile(all, 0.5) * 1e3, p99 = Percentile(all, 0.99) * 1e3;
  std::printf("%-5s %8d %10.3f %10.3f %10.0f %11.0f %%\n", cold ? "cold" : "warm", threads, p50,
              p99, bytes / total / 1e6, 100 * bytes / total / sequential);
  (*out)["reads"].push_back({{"state", cold ? "cold" : "warm"},
                             {"threads", threads},
                             {"batch", flags.batch},
                             {"p50_ms", p50},
                             {"p99_ms", p99},
                             {"bytes_per_s", bytes / total},
                             {"of_sequential", bytes / total / sequential}});
}

int Main(const Flags& flags) {
  const std::string directory = flags.dir + "/recollect-store-bench";
  std::filesystem::remove_all(directory);
  const store::RocksOptions options{.directory = directory};
  nlohmann::json out;
  const store::DocumentInfo info = Fill(*Checked(store::OpenRocksStore(options)), flags, &out);
  const double opened = Seconds();
  auto store = Checked(store::OpenRocksStore(options));
  const double open_ms = (Seconds() - opened) * 1e3;
  const auto check = store->ReadChunks(std::vector<ChunkRef>{{info.owner, flags.chunks / 2}});
  RECOLLECT_CHECK(check[0].ok() && check[0]->states == MakeChunk(flags.chunks / 2).states);

  DropCaches(directory);
  const double mount = Seconds();
  RECOLLECT_CHECK(store->ReadLandmarkKeys(info.owner, info.chunks, kKeyWidth).ok());
  const double keys_ms = (Seconds() - mount) * 1e3;
  const double sequential = SequentialRead(directory);
  const double overhead = DirectoryBytes(directory) / static_cast<double>(info.stored_bytes);
  std::printf("open %.1f ms; all %ld landmark keys, cold: %.2f ms; on disk %.3f of the records\n",
              open_ms, static_cast<long>(info.chunks), keys_ms, overhead);
  std::printf("disk, files read front to back: %.0f MB/s\n", sequential / 1e6);
  std::printf("%-5s %8s %10s %10s %10s %13s\n", "state", "callers", "p50 ms", "p99 ms", "MB/s",
              "of sequential");
  out["open_ms"] = open_ms;
  out["landmarks_cold_ms"] = keys_ms;
  out["sequential_bytes_per_s"] = sequential;
  out["chunks"] = flags.chunks;
  for (const bool cold : {false, true}) {
    for (const int threads : {1, 2, 4, 8}) {
      Read(*store, flags, directory, info, threads, cold, sequential, &out);
    }
  }
  if (!flags.json.empty()) std::ofstream(flags.json) << out.dump(2) << "\n";
  store.reset();
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Flags flags;
  CLI::App app("Times commits and batched reads of the store.");
  app.add_option("--dir", flags.dir);
  app.add_option("--chunks", flags.chunks);
  app.add_option("--batch", flags.batch);
  app.add_option("--reads", flags.reads);
  app.add_option("--json", flags.json);
  CLI11_PARSE(app, argc, argv);
  return recollect::bench::Main(flags);
}
