// How long a list of documents takes, and one that a filter on their metadata chooses, as the mount
// of a wildcard with a filter does it. Each document has three keys of metadata.
//
//   catalog_bench [--dir /dev/shm] [--documents 10000] [--rounds 11]
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/store/disk.h"
#include "store/metadata_filter.h"
#include "store/rocks/rocks_store.h"

namespace recollect::bench {
namespace {

void Fill(store::DocumentStore& store, int64_t documents) {
  for (int64_t i = 0; i < documents; ++i) {
    const std::string id = absl::StrFormat("notes/%08d", i);
    const auto progress = Checked(store.BeginIngest(id, "bench", false, ""));
    store::IngestBatch batch;
    batch.text = "x";
    batch.tokens = {1};
    batch.metadata =
        absl::StrCat(R"({"author":"somebody of many","lang":"en","year":)", 1900 + i % 100, "}");
    RECOLLECT_CHECK(store.PublishIngest(progress.owner, batch).ok());
  }
}

void Time(store::DocumentStore& store, const char* what, int rounds, int64_t limit,
          absl::string_view beginning, const std::string& filter) {
  const auto parsed = Checked(store::MetadataFilter::Parse(filter, "filter"));
  std::vector<double> times;
  size_t found = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = Seconds();
    found = Checked(store::ListMatching(store, "", limit, beginning, parsed)).size();
    times.push_back(Seconds() - start);
  }
  std::printf("%-28s %6zu documents, p50 %8.2f ms, p99 %8.2f ms\n", what, found,
              Percentile(times, 0.5) * 1e3, Percentile(times, 0.99) * 1e3);
}

int Main(int argc, char** argv) {
  CLI::App app("Times of lists and filters over many small documents");
  std::string dir = "/dev/shm";
  int64_t documents = 10000;
  int rounds = 11;
  app.add_option("--dir", dir);
  app.add_option("--documents", documents);
  app.add_option("--rounds", rounds);
  CLI11_PARSE(app, argc, argv);
  const std::string path = dir + "/catalog_bench";
  std::filesystem::remove_all(path);
  {
    const auto store = Checked(store::OpenRocksStore({.directory = path}));
    Fill(*store, documents);
    constexpr char kYear[] = R"({"type":"eq","key":"year","value":1950})";
    Time(*store, "a page of 100", rounds, 100, "", "");
    Time(*store, "a page of 100, filtered", rounds, 100, "", kYear);
    Time(*store, "all that a filter matches", rounds, documents, "notes/", kYear);
    Time(*store, "all", rounds, documents, "notes/", "");
  }
  std::filesystem::remove_all(path);
  return 0;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) { return recollect::bench::Main(argc, argv); }
