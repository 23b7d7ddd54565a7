// Approximate landmark search (--index ivf) beside exact search, on keys that the model made of
// texts and on queries that its sessions ask: recall, time of a search, time to make the lists,
// memory.
//
//   landmark_bench --model DIR --keys FILE --text FILE …      adds the keys of texts to FILE, each
//                                                             text a document; and queries
//   landmark_bench --model DIR --keys FILE --reading FILE     adds the queries of reading a text
//   landmark_bench --model DIR --keys FILE --chunks N …       compares; beyond the keys in FILE are
//                                                             keys recombined of them
//                  [--threads 2] [--queries 100]
//                  [--exact]  without the lists, which take minutes to make for many keys
//                  [--appended]  and with keys that come one by one, as a session's own
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/engine/landmark_keys.h"
#include "bench/engine/workload.h"
#include "bench/kernels/ceilings.h"
#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/cpu/faiss_lists.h"
#include "engine/backend/devices.h"

namespace recollect::bench {
namespace {

constexpr int kHits = 8;
constexpr int kRepeats = 3;
// Chunks between the two keys that are recombined, times the round: those of other books.
constexpr int64_t kApart = 99991;
constexpr int64_t kReadingBytes = 60000;

struct Arguments {
  std::string model, keys, reading;
  std::vector<std::string> texts;
  std::vector<int64_t> chunks;
  int threads = 2;
  size_t queries = 100;
  bool exact = false, appended = false;
};

// `chunks` keys: those of the set, and beyond them keys that have the encoder's numbers (d_r) of
// one and the lexicon's of another, in other pairs each time that the set begins again. Either part
// is then one that the model makes; noise would have no form that a sketch or a list could find.
std::vector<Bf16> KeysOf(const LandmarkSet& set, int64_t d_r, int64_t chunks) {
  const auto size = static_cast<size_t>(chunks * set.d_k);
  std::vector<Bf16> keys(set.keys.begin(),
                         set.keys.begin() + static_cast<int64_t>(std::min(size, set.keys.size())));
  keys.reserve(size);
  for (int64_t at = set.chunks(); at < chunks; ++at) {
    const int64_t first = at % set.chunks();
    const int64_t second = (first + at / set.chunks() * kApart) % set.chunks();
    const auto encoder = set.keys.begin() + first * set.d_k;
    const auto lexicon = set.keys.begin() + second * set.d_k + d_r;
    keys.insert(keys.end(), encoder, encoder + d_r);
    keys.insert(keys.end(), lexicon, lexicon + set.d_k - d_r);
  }
  return keys;
}

using Hits = std::vector<kernels::ScoredCandidate>;

struct Searched {
  std::vector<Hits> hits;
  // Medians over the queries of the best of kRepeats; CPU time of all threads together.
  double wall_ms = 0, cpu_ms = 0;
};

class Times {
 public:
  // Adds the best of kRepeats calls, after one that warms up.
  template <typename Body>
  void Add(const Body& search) {
    search();
    double wall_s = std::numeric_limits<double>::infinity(), cpu_s = wall_s;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      const Stopwatch watch;
      search();
      const Cost cost = watch.cost();
      wall_s = std::min(wall_s, cost.wall_s);
      cpu_s = std::min(cpu_s, cost.cpu_s);
    }
    wall_ms_.push_back(wall_s * 1e3);
    cpu_ms_.push_back(cpu_s * 1e3);
  }
  Searched With(std::vector<Hits> hits) const {
    return {std::move(hits), Median(wall_ms_), Median(cpu_ms_)};
  }

 private:
  std::vector<double> wall_ms_, cpu_ms_;
};

engine::LandmarkQuery QueryOf(const RealQuery& asked, const engine::LandmarkKeys& keys,
                              int64_t chunks) {
  engine::LandmarkQuery query;
  query.u = asked.u;
  query.runs = {{&keys, chunks}};
  query.n = kHits;
  return query;
}

// One query at a time, as of one session that decodes.
Searched Search(engine::CpuLandmarks& landmarks, const engine::LandmarkKeys& keys, int64_t chunks,
                const std::vector<RealQuery>& queries) {
  std::vector<Hits> hits;
  Times times;
  for (const RealQuery& asked : queries) {
    engine::LandmarkQuery query = QueryOf(asked, keys, chunks);
    times.Add([&] { landmarks.Search(std::span(&query, 1)); });
    hits.push_back(query.best);
  }
  return times.With(std::move(hits));
}

// Two queries at a time, as of one landmark of a session: what the second one ends with is known to
// the first search. Times are those of both.
Searched SearchPairs(engine::CpuLandmarks& landmarks, const engine::LandmarkKeys& keys,
                     int64_t chunks, int64_t d_r, const std::vector<RealQuery>& queries) {
  std::vector<Hits> hits;
  Times times;
  for (size_t i = 0; i + 1 < queries.size(); i += 2) {
    engine::LandmarkQuery pair[] = {QueryOf(queries[i], keys, chunks),
                                    QueryOf(queries[i + 1], keys, chunks)};
    pair[0].later = {{pair[1].u.begin() + d_r, pair[1].u.end()}};
    times.Add([&] {
      landmarks.Search(std::span(pair, 1));
      if (!pair[0].ahead.empty()) pair[1].known = std::move(pair[0].ahead.front());
      landmarks.Search(std::span(pair + 1, 1));
    });
    hits.push_back(pair[0].best);
    hits.push_back(pair[1].best);
  }
  return times.With(std::move(hits));
}

// Keys whose sketch, of enough of them, is made.
std::unique_ptr<engine::LandmarkKeys> KeepSketched(engine::CpuLandmarks& landmarks,
                                                   const std::vector<Bf16>& keys, int64_t d_k,
                                                   bool appended) {
  std::unique_ptr<engine::LandmarkKeys> kept;
  if (appended) {
    kept = *landmarks.Keep({});
    const auto width = static_cast<size_t>(d_k);
    for (size_t at = 0; at < keys.size(); at += width) {
      Require(kept->Append(std::span(keys).subspan(at, width)), "append");
    }
  } else {
    kept = *landmarks.Keep(keys);
  }
  landmarks.AwaitSketches();
  return kept;
}

// Exact search alone, beside the time in which the threads read the same keys front to back.
void CompareExact(const LandmarkSet& set, int64_t d_r, int64_t chunks, const Arguments& arguments,
                  std::vector<RealQuery> queries) {
  if (queries.size() % 2 == 1) queries.pop_back();
  const auto threads = std::make_shared<engine::ComputeThreads>(arguments.threads);
  engine::CpuLandmarks reading_all(threads), landmarks(threads, {set.d_k, d_r});
  const std::vector<Bf16> keys = KeysOf(set, d_r, chunks);
  Searched plain;
  {
    const auto kept = *reading_all.Keep(keys);
    plain = Search(reading_all, *kept, chunks, queries);
  }
  const Stopwatch making;
  const auto kept = KeepSketched(landmarks, keys, set.d_k, arguments.appended);
  const Cost made = making.cost();
  const Searched alone = Search(landmarks, *kept, chunks, queries);
  const Searched pairs = SearchPairs(landmarks, *kept, chunks, d_r, queries);
  if (alone.hits != plain.hits || pairs.hits != plain.hits) {
    Require(absl::InternalError("other hits"), "sketch");
  }
  std::printf(
      "%lld chunks: %zu queries; sketch made in %.0f ms (CPU %.0f)\n"
      "  search    all keys read %.2f ms (CPU %.2f, %.1f GB/s), by a sketch %.2f ms (CPU %.2f), "
      "both groups of a landmark %.2f ms (CPU %.2f)\n",
      static_cast<long long>(chunks), queries.size(), made.wall_s * 1e3, made.cpu_s * 1e3,
      plain.wall_ms, plain.cpu_ms,
      static_cast<double>(keys.size() * sizeof(Bf16)) / plain.wall_ms * 1e-6, alone.wall_ms,
      alone.cpu_ms, pairs.wall_ms, pairs.cpu_ms);
  std::fflush(stdout);
}

bool Has(const Hits& hits, int64_t chunk) {
  return std::ranges::count(hits, chunk, &kernels::ScoredCandidate::candidate) > 0;
}

void PrintRecall(const std::vector<RealQuery>& queries, const Searched& exact,
                 const Searched& found) {
  const char* const names[] = {"passkeys", "quotes", "running text"};
  for (const QueryKind kind : {QueryKind::kPasskey, QueryKind::kQuote, QueryKind::kRunning}) {
    int64_t all = 0, same = 0, asked = 0, gold_exact = 0, gold_found = 0;
    for (size_t i = 0; i < queries.size(); ++i) {
      if (queries[i].kind != kind) continue;
      ++asked;
      for (const auto& hit : exact.hits[i]) {
        ++all;
        same += Has(found.hits[i], hit.candidate) ? 1 : 0;
      }
      gold_exact += Has(exact.hits[i], queries[i].gold) ? 1 : 0;
      gold_found += Has(found.hits[i], queries[i].gold) ? 1 : 0;
    }
    if (asked == 0) continue;
    std::printf("  recall@8  %-12s of %lld queries: %.3f", names[static_cast<int>(kind)],
                static_cast<long long>(asked),
                static_cast<double>(same) / static_cast<double>(all));
    if (kind != QueryKind::kRunning) {
      std::printf("; the chunk that answers: exact finds %lld, approximate %lld",
                  static_cast<long long>(gold_exact), static_cast<long long>(gold_found));
    }
    std::printf("\n");
  }
}

void Compare(const LandmarkSet& set, int64_t d_r, int64_t chunks, const Arguments& arguments) {
  std::vector<RealQuery> queries;
  std::mt19937_64 random(1);
  for (const QueryKind kind : {QueryKind::kPasskey, QueryKind::kQuote, QueryKind::kRunning}) {
    std::vector<RealQuery> of_kind;
    for (const RealQuery& query : set.queries) {
      if (query.kind == kind && query.gold < chunks) of_kind.push_back(query);
    }
    std::shuffle(of_kind.begin(), of_kind.end(), random);
    of_kind.resize(std::min(of_kind.size(), arguments.queries));
    queries.insert(queries.end(), of_kind.begin(), of_kind.end());
  }
  if (arguments.exact || arguments.appended)
    return CompareExact(set, d_r, chunks, arguments, std::move(queries));
  const auto threads = std::make_shared<engine::ComputeThreads>(arguments.threads);
  engine::CpuLandmarks reading_all(threads), landmarks(threads, {set.d_k, d_r});
  std::vector<Bf16> keys = KeysOf(set, d_r, chunks);
  const Stopwatch making;
  auto made = engine::FaissListMaker(d_r).Make(keys, set.d_k, [] { return false; });
  Require(made.status(), "lists");
  const Cost cost = making.cost();
  const auto lists = std::make_shared<const engine::LandmarkLists>(*std::move(made));
  std::printf(
      "%lld chunks, %lld of them real: %lld lists made in %.1f s (CPU %.1f s), %.1f MiB beside "
      "%.1f MiB of keys\n",
      static_cast<long long>(chunks), static_cast<long long>(std::min(chunks, set.chunks())),
      static_cast<long long>(lists->lists()), cost.wall_s, cost.cpu_s,
      static_cast<double>(lists->bytes()) / (1 << 20),
      static_cast<double>(keys.size() * sizeof(Bf16)) / (1 << 20));
  // One copy of the keys at a time: with four million it is 5 GB.
  auto kept = *reading_all.Keep(std::move(keys));
  const Searched plain = Search(reading_all, *kept, chunks, queries);
  kept = nullptr;
  keys = KeysOf(set, d_r, chunks);
  kept = *landmarks.Keep(std::move(keys));
  landmarks.AwaitSketches();
  const Searched exact = Search(landmarks, *kept, chunks, queries);
  if (exact.hits != plain.hits) Require(absl::InternalError("other hits"), "sketch");
  kept = nullptr;
  keys = KeysOf(set, d_r, chunks);
  engine::OrderKeys(*lists, keys);
  kept = *landmarks.Keep({});
  Require(kept->UseLists({std::move(keys), lists}), "lists");
  landmarks.AwaitSketches();
  const Searched found = Search(landmarks, *kept, chunks, queries);
  std::printf(
      "  search    all keys read %.2f ms (CPU %.2f), exact by a sketch %.2f ms (CPU %.2f), "
      "approximate %.2f ms (CPU %.2f)\n",
      plain.wall_ms, plain.cpu_ms, exact.wall_ms, exact.cpu_ms, found.wall_ms, found.cpu_ms);
  PrintRecall(queries, exact, found);
  std::fflush(stdout);
}

void Run(const Arguments& arguments) {
  auto loaded = engine::LoadModel("cpu", arguments.model, std::nullopt, arguments.threads);
  Require(loaded.status(), "model");
  for (const std::string& text : arguments.texts) {
    LandmarkSet set;
    AddText(*loaded, ReadText(text), set);
    Append(set, arguments.keys);
  }
  if (!arguments.reading.empty()) {
    LandmarkSet set;
    AddReading(*loaded, ReadText(arguments.reading).substr(0, kReadingBytes), set);
    Append(set, arguments.keys);
  }
  if (arguments.chunks.empty()) return;
  const LandmarkSet set = Load(arguments.keys, loaded->model->config().key_width());
  std::printf("%s, %d threads, keys of %lld numbers\n", CpuName().c_str(), arguments.threads,
              static_cast<long long>(set.d_k));
  for (const int64_t chunks : arguments.chunks) {
    Compare(set, loaded->model->config().d_r, chunks, arguments);
  }
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Arguments arguments;
  CLI::App app("Compares approximate landmark search with exact search.");
  app.add_option("--model", arguments.model)->required();
  app.add_option("--keys", arguments.keys)->required();
  app.add_option("--text", arguments.texts);
  app.add_option("--reading", arguments.reading);
  app.add_option("--chunks", arguments.chunks);
  app.add_option("--threads", arguments.threads);
  app.add_flag("--exact", arguments.exact);
  app.add_flag("--appended", arguments.appended);
  app.add_option("--queries", arguments.queries, "of each kind");
  CLI11_PARSE(app, argc, argv);
  recollect::bench::Run(arguments);
  return 0;
}
