// The store over RADOS by the size of its objects: commits as the engine makes them, and reads of
// the chunks of one landmark step; and how long a list of many documents takes.
//
//   rados_bench --store rados:POOL --ceph-conf FILE [--chunks 4096] [--batch 8] [--reads 200]
//
// It makes namespaces of its own, named after the size of objects and the time, and leaves them.
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "bench/store/disk.h"
#include "store/format.h"
#include "store/rados/pool.h"
#include "store/rados/rados_store.h"
#include "store/rados/records.h"

namespace recollect::bench {
namespace {

constexpr int64_t kWidth = 256;  // of the shipped model: 63 x 256 bf16 are 32 256 bytes
constexpr int64_t kKeyWidth = 64;
constexpr int64_t kCommitChunks = 260;  // of 16 384 tokens

struct Flags {
  std::string store, conf;
  int64_t chunks = 4096;
  int64_t batch = 8;
  int64_t reads = 200;
  int64_t documents = 100'000;
};

double Milliseconds(double seconds) { return seconds * 1e3; }

void Objects(store::RadosOptions options, const Flags& flags) {
  auto store = store::OpenRadosStore(options);
  RECOLLECT_CHECK(store.ok());
  const auto progress = (*store)->BeginIngest("bench", "bench", false, "");
  RECOLLECT_CHECK(progress.ok());
  std::mt19937_64 random(1);
  std::vector<double> commits;
  for (int64_t at = 0; at < flags.chunks; at += kCommitChunks) {
    store::IngestBatch batch;
    for (int64_t i = at; i < std::min(flags.chunks, at + kCommitChunks); ++i) {
      store::ChunkRecord& chunk = batch.chunks.emplace_back();
      chunk.rows = kChunkTokens;
      chunk.states.resize(kChunkTokens * kWidth);
      for (Bf16& x : chunk.states) x.bits = static_cast<uint16_t>(random());
    }
    batch.landmark_keys.resize(batch.chunks.size() * kKeyWidth);
    batch.tokens.resize(batch.chunks.size() * kChunkTokens);
    batch.text.assign(batch.chunks.size() * 180, 'x');
    batch.resume_state.assign(100'000, 's');
    const double start = Seconds();
    RECOLLECT_CHECK((*store)->CommitIngest(progress->owner, batch).ok());
    commits.push_back(Seconds() - start);
  }
  const auto info = (*store)->PublishIngest(progress->owner, store::IngestBatch());
  RECOLLECT_CHECK(info.ok());
  double total = 0;
  for (const double seconds : commits) total += seconds;
  *store = *store::OpenRadosStore(options);  // knows nothing
  const double mount = Seconds();
  RECOLLECT_CHECK((*store)->ReadLandmarkKeys(info->owner, info->chunks, kKeyWidth).ok());
  const double keys = Seconds() - mount;
  std::vector<double> reads;
  for (int64_t i = 0; i < flags.reads; ++i) {
    std::vector<ChunkRef> refs;
    for (int64_t k = 0; k < flags.batch; ++k) {
      refs.push_back(
          {info->owner, static_cast<int64_t>(random() % static_cast<uint64_t>(info->chunks))});
    }
    const double start = Seconds();
    for (const auto& chunk : (*store)->ReadChunks(refs)) RECOLLECT_CHECK(chunk.ok());
    reads.push_back(Seconds() - start);
  }
  std::printf("%8lld %12.1f %12.1f %10.1f %12.1f %12.2f %12.2f\n",
              static_cast<long long>(options.object_bytes >> 10),
              Milliseconds(Percentile(commits, 0.5)), Milliseconds(Percentile(commits, 0.99)),
              static_cast<double>(info->stored_bytes) / total / 1e6, Milliseconds(keys),
              Milliseconds(Percentile(reads, 0.5)), Milliseconds(Percentile(reads, 0.99)));
}

// Entries of documents that nobody reads, put into the catalog directly.
void Catalog(const store::RadosOptions& options, const Flags& flags) {
  auto store = store::OpenRadosStore(options);
  RECOLLECT_CHECK(store.ok());
  const auto pool = store::Pool::Connect(options);
  RECOLLECT_CHECK(pool.ok());
  constexpr int64_t kPage = 1000;
  for (int64_t at = 0; at < flags.documents; at += kPage) {
    store::Change change;
    change.create = true;
    for (int64_t i = at; i < std::min(flags.documents, at + kPage); ++i) {
      store::DocumentInfo info;
      info.id = absl::StrCat("document ", i);
      info.owner = OwnerId{static_cast<uint64_t>(i + 1)};
      info.fingerprint = info.sha256 = std::string(64, 'f');
      const std::string key = store::DocumentKey(info.id);
      change.set[key] = store::EncodeDocument(key, info);
    }
    RECOLLECT_CHECK((*pool)->Apply(store::kCatalogObject, change, "bench").ok());
  }
  std::vector<double> pages;
  std::string after;
  int64_t listed = 0;
  const double start = Seconds();
  while (true) {
    const double begin = Seconds();
    const auto page = (*store)->List(after, kPage);
    RECOLLECT_CHECK(page.ok());
    pages.push_back(Seconds() - begin);
    if (page->empty()) break;
    listed += static_cast<int64_t>(page->size());
    after = page->back().id;
  }
  const double total = Seconds() - start;
  std::vector<double> gets;
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const double begin = Seconds();
    const auto id = random() % static_cast<uint64_t>(flags.documents);
    RECOLLECT_CHECK((*store)->Get(absl::StrCat("document ", id)).ok());
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
  std::printf("%8s %12s %12s %10s %12s %12s %12s\n", "KiB", "commit p50", "commit p99", "MB/s",
              "all keys ms", "read p50 ms", "read p99 ms");
  for (const int64_t kib : {64, 256, 1024, 4096}) {
    options->object_bytes = kib << 10;
    options->name_space = absl::StrCat(run, "-", kib);
    Objects(*options, flags);
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
  app.add_option("--chunks", flags.chunks);
  app.add_option("--batch", flags.batch);
  app.add_option("--reads", flags.reads);
  app.add_option("--documents", flags.documents);
  CLI11_PARSE(app, argc, argv);
  return recollect::bench::Main(flags);
}
