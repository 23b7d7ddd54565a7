// The store over RADOS by the size of its objects, RocksDB on a disk, and RADOS through a cache on
// that disk: commits as the engine makes them, and reads of the chunks of one landmark step; and
// how long a list of many documents takes.
//
//   rados_bench --store rados:POOL --ceph-conf FILE --dir DIR [--chunks 4096] [--batch 8]
//               [--reads 200] [--rounds 3]
//
// It makes namespaces of its own, named after the size of objects and the time, and leaves them; in
// DIR it makes `rocks` and `cache`, which must not be there. Files in DIR are dropped from the page
// cache before they are read; what the OSDs have in memory they keep.
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/store/disk.h"
#include "store/format.h"
#include "store/rados/pool.h"
#include "store/rados/rados_store.h"
#include "store/rados/records.h"
#include "store/rocks/rocks_cache.h"
#include "store/rocks/rocks_store.h"

namespace recollect::bench {
namespace {

constexpr int64_t kKeyWidth = 64;
constexpr int64_t kCommitChunks = 260;  // of 16 384 tokens

struct Flags {
  std::string store, conf, directory;
  int64_t chunks = 4096;
  int64_t batch = 8;
  int64_t reads = 200;
  int64_t documents = 100'000;
  int64_t rounds = 3;
};

double Milliseconds(double seconds) { return seconds * 1e3; }

using Open = std::function<std::unique_ptr<store::DocumentStore>()>;

std::unique_ptr<store::DocumentStore> OpenRados(const store::RadosOptions& options,
                                                const std::string& cache_directory) {
  std::unique_ptr<store::RecordCache> cache;
  if (!cache_directory.empty()) cache = Checked(store::OpenRocksCache({cache_directory}));
  return Checked(store::OpenRadosStore(options, std::move(cache)));
}

// Reads of `batch` random chunks each, in milliseconds.
std::vector<double> Reads(store::DocumentStore& store, const store::DocumentInfo& info,
                          const Flags& flags, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> out;
  for (int64_t i = 0; i < flags.reads; ++i) {
    const std::vector<ChunkRef> refs = RandomChunks(info, flags.batch, random);
    const double start = Seconds();
    for (const auto& chunk : store.ReadChunks(refs)) RECOLLECT_CHECK(chunk.ok());
    out.push_back(Milliseconds(Seconds() - start));
  }
  return out;
}

void PrintRow(const std::string& name, const std::vector<double>& commits, double megabytes_per_s,
              double keys_ms, const std::vector<double>& reads) {
  std::printf("%-22s %10.1f %10.1f %8.1f %10.1f %10.2f %10.2f\n", name.c_str(),
              Percentile(commits, 0.5), Percentile(commits, 0.99), megabytes_per_s, keys_ms,
              Percentile(reads, 0.5), Percentile(reads, 0.99));
  std::fflush(stdout);
}

// Ingests a document, opens the store again, and reads. `cold` makes files on this disk cold.
void Run(const std::string& name, const std::string& id, const Flags& flags, const Open& open,
         const std::function<void()>& cold) {
  auto store = open();
  const auto progress = Checked(store->BeginIngest(id, "bench", false, ""));
  std::vector<double> commits;
  double total = 0;
  for (int64_t at = 0; at < flags.chunks; at += kCommitChunks) {
    store::IngestBatch batch = MakeBatch(at, std::min(flags.chunks, at + kCommitChunks), kKeyWidth);
    batch.resume_state.assign(100'000, 's');
    const double start = Seconds();
    RECOLLECT_CHECK(store->CommitIngest(progress.owner, batch).ok());
    total += Seconds() - start;
    commits.push_back(Milliseconds(Seconds() - start));
  }
  const auto info = Checked(store->PublishIngest(progress.owner, store::IngestBatch()));
  store.reset();
  cold();
  store = open();  // knows nothing
  const double mount = Seconds();
  RECOLLECT_CHECK(store->ReadLandmarkKeys(info.owner, info.chunks, kKeyWidth).ok());
  const double keys_ms = Milliseconds(Seconds() - mount);
  const std::vector<double> reads = Reads(*store, info, flags, 2);
  PrintRow(name, commits, static_cast<double>(info.stored_bytes) / total / 1e6, keys_ms, reads);
  if (store->state().cache_budget_bytes == 0) return;
  store.reset();
  cold();
  store = open();
  const std::vector<double> again = Reads(*store, info, flags, 2);
  const store::StoreState state = store->state();
  const double hits = static_cast<double>(state.cache_hits) /
                      static_cast<double>(state.cache_hits + state.cache_misses);
  PrintRow(absl::StrFormat("%s, %.0f %% hits", name, hits * 100), {}, 0, 0, again);
}

// Entries of documents that nobody reads, put into the catalog directly.
void Catalog(const store::RadosOptions& options, const Flags& flags) {
  const auto store = Checked(store::OpenRadosStore(options));
  const auto pool = Checked(store::rados::Pool::Connect(options));
  constexpr int64_t kPage = 1000;
  for (int64_t at = 0; at < flags.documents; at += kPage) {
    store::rados::Change change{.create = true};
    for (int64_t i = at; i < std::min(flags.documents, at + kPage); ++i) {
      store::DocumentInfo info;
      info.id = absl::StrCat("document ", i);
      info.owner = OwnerId{static_cast<uint64_t>(i + 1)};
      info.fingerprint = info.sha256 = std::string(64, 'f');
      const std::string key = store::DocumentKey(info.id);
      change.set[key] = store::EncodeDocument(key, info);
    }
    RECOLLECT_CHECK(pool->Apply(store::rados::kCatalogObject, change, "bench").ok());
  }
  std::vector<double> pages;
  std::string after;
  int64_t listed = 0;
  const double start = Seconds();
  while (true) {
    const double begin = Seconds();
    const auto page = Checked(store->List(after, kPage));
    pages.push_back(Seconds() - begin);
    if (page.empty()) break;
    listed += std::ssize(page);
    after = page.back().id;
  }
  const double total = Seconds() - start;
  std::vector<double> gets;
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const double begin = Seconds();
    const auto id = random() % static_cast<uint64_t>(flags.documents);
    RECOLLECT_CHECK(store->Get(absl::StrCat("document ", id)).ok());
    gets.push_back(Seconds() - begin);
  }
  std::printf(
      "%lld documents: all listed in %.2f s; a page of %lld: p50 %.1f ms, p99 %.1f ms; one "
      "by its id: p50 %.2f ms, p99 %.2f ms\n",
      static_cast<long long>(listed), total, static_cast<long long>(kPage),
      Milliseconds(Percentile(pages, 0.5)), Milliseconds(Percentile(pages, 0.99)),
      Milliseconds(Percentile(gets, 0.5)), Milliseconds(Percentile(gets, 0.99)));
}

int Main(const Flags& flags) {
  auto options = store::ParseRadosName(flags.store);
  if (!options.ok()) {
    std::fprintf(stderr, "%s\n", options.status().ToString().c_str());
    return 1;
  }
  options->conf_file = flags.conf;
  const std::string run =
      absl::StrCat("bench-", std::chrono::system_clock::now().time_since_epoch().count());
  const std::string rocks = flags.directory + "/rocks", cache = flags.directory + "/cache";
  const auto cold = [&] { DropCaches(flags.directory); };
  std::printf("%-22s %10s %10s %8s %10s %10s %10s\n", "", "commit p50", "p99 ms", "MB/s", "keys ms",
              "read p50", "p99 ms");
  for (int64_t round = 0; round < flags.rounds; ++round) {
    const std::string id = absl::StrCat("bench", round);
    const Open rados = [&] { return OpenRados(*options, ""); };
    for (const int64_t kib : {64, 256, 1024, 4096}) {
      options->object_bytes = kib << 10;
      options->name_space = absl::StrCat(run, "-", kib);
      Run(absl::StrCat("RADOS ", kib, " KiB"), id, flags, rados, cold);
    }
    options->object_bytes = store::RadosOptions().object_bytes;
    const Open cached = [&] { return OpenRados(*options, cache); };
    Run("RADOS, cache", absl::StrCat(id, "c"), flags, cached, cold);
    const Open on_disk = [&] { return Checked(store::OpenRocksStore({.directory = rocks})); };
    Run("RocksDB", id, flags, on_disk, cold);
  }
  options->name_space = run;
  Catalog(*options, flags);
  return 0;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Flags flags;
  CLI::App app("Times the store over RADOS by the size of its objects, and its catalog.");
  app.add_option("--store", flags.store)->required();
  app.add_option("--ceph-conf", flags.conf);
  app.add_option("--dir", flags.directory)->required();
  app.add_option("--rounds", flags.rounds);
  app.add_option("--chunks", flags.chunks);
  app.add_option("--batch", flags.batch);
  app.add_option("--reads", flags.reads);
  app.add_option("--documents", flags.documents);
  CLI11_PARSE(app, argc, argv);
  return recollect::bench::Main(flags);
}
