// What sparse keys cost (engine/session/sparse_keys.h): making them, their memory, and a search.
//
//   sparse_bench --tokenizer FILE --text FILE [--tokens 1000000 16000000] [--threads 2]
//                [--queries 50]
//
// Beyond the tokens of the text there are the same again, a quarter of them exchanged for others of
// it each time, so that words are as frequent as in the text and blocks differ. Blocks have 47 to
// 63 tokens. A query has the words of so many neighbouring tokens of the text. Of each query the
// best time of three counts; the least and the median of them are printed.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/engine/workload.h"
#include "bench/kernels/ceilings.h"
#include "engine/session/sparse_keys.h"
#include "model/text/tokenizer.h"
#include "model/text/words.h"

namespace recollect::bench {
namespace {

constexpr int kHits = 8;
constexpr int kRepeats = 3;
constexpr int64_t kLeastBlock = 47, kMostBlock = 63;

struct Arguments {
  std::string tokenizer, text;
  std::vector<int64_t> tokens = {1'000'000, 16'000'000};
  int threads = 2;
  int queries = 50;
};

std::vector<int32_t> TokensOf(const model::Tokenizer& tokenizer, const std::string& path) {
  auto tokens = tokenizer.Encode(ReadText(path));
  Require(tokens.status(), "text");
  return *std::move(tokens);
}

std::vector<int32_t> Repeated(const std::vector<int32_t>& text, int64_t count) {
  std::mt19937_64 random(1);
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  while (std::ssize(tokens) < count) {
    const size_t at = tokens.size() % text.size();
    const bool exchanged = tokens.size() >= text.size() && random() % 4 == 0;
    tokens.push_back(text[exchanged ? random() % text.size() : at]);
  }
  return tokens;
}

std::vector<int64_t> BlocksOf(int64_t tokens) {
  std::mt19937_64 random(2);
  std::vector<int64_t> blocks;
  for (int64_t left = tokens; left > 0; left -= blocks.back()) {
    const int64_t some =
        kLeastBlock + static_cast<int64_t>(random() % (kMostBlock + 1 - kLeastBlock));
    blocks.push_back(std::min(left, some));
  }
  return blocks;
}

std::vector<kernels::SparseTerm> Neighbours(const model::Words& words,
                                            const std::vector<int32_t>& text, size_t count,
                                            uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t at = random() % (text.size() - count);
  return engine::SparseQuery(words, std::span(text).subspan(at, count));
}

// The words of the greatest number of tokens, which have the longest lists.
std::vector<kernels::SparseTerm> MostFrequent(const model::Words& words,
                                              const std::vector<int32_t>& text, size_t count) {
  std::vector<int64_t> often(static_cast<size_t>(words.count()));
  std::vector<int32_t> example(often.size());
  for (const int32_t token : text) {
    const auto word = static_cast<size_t>(words.word(token));
    ++often[word];
    example[word] = token;
  }
  std::vector<size_t> order(often.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return often[a] > often[b]; });
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) tokens.push_back(example[order[i]]);
  return engine::SparseQuery(words, tokens);
}

// Milliseconds of the best of some repeats.
double TimeOf(ThreadPool* pool, const engine::SparseKeys& keys,
              const std::vector<kernels::SparseTerm>& query) {
  const engine::SparseKeys* const mounted[] = {&keys};
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Stopwatch watch;
    (void)engine::SearchSparse(pool, mounted, query, kHits).value();
    best = std::min(best, watch.cost().wall_s * 1e3);
  }
  return best;
}

void PrintSearch(const char* name, ThreadPool& pool, const engine::SparseKeys& keys,
                 const std::vector<std::vector<kernels::SparseTerm>>& queries) {
  std::vector<double> alone, together;
  for (const auto& query : queries) {
    alone.push_back(TimeOf(nullptr, keys, query));
    together.push_back(TimeOf(&pool, keys, query));
  }
  std::printf("  search, %-22s 1 thread %.2f, median %.2f ms; %d threads %.2f, median %.2f ms\n",
              name, *std::ranges::min_element(alone), Median(alone), pool.threads(),
              *std::ranges::min_element(together), Median(together));
  std::fflush(stdout);
}

void Measure(const model::Words& words, const std::vector<int32_t>& text, int64_t count,
             const Arguments& arguments) {
  const std::vector<int32_t> tokens = Repeated(text, count);
  const std::vector<int64_t> blocks = BlocksOf(count);
  ThreadPool pool(arguments.threads);
  const Stopwatch making;
  const engine::SparseKeys keys = engine::SparseKeys::Make(words, tokens, blocks, &pool);
  const Cost made = making.cost();
  std::printf("%lld tokens, %lld blocks: made in %.0f ms (CPU %.0f), %.1f MB, %.2f bytes a token\n",
              static_cast<long long>(count), static_cast<long long>(keys.blocks()),
              made.wall_s * 1e3, made.cpu_s * 1e3, static_cast<double>(keys.bytes()) * 1e-6,
              static_cast<double>(keys.bytes()) / static_cast<double>(count));
  for (const size_t length : {5, 12, 30, 63}) {
    std::vector<std::vector<kernels::SparseTerm>> queries;
    for (int q = 0; q < arguments.queries; ++q) {
      queries.push_back(Neighbours(words, text, length, static_cast<uint64_t>(q)));
    }
    PrintSearch((std::to_string(length) + " tokens").c_str(), pool, keys, queries);
  }
  PrintSearch("63 most frequent words", pool, keys, {MostFrequent(words, text, 63)});
}

void Run(const Arguments& arguments) {
  auto tokenizer = model::Tokenizer::Load(arguments.tokenizer);
  Require(tokenizer.status(), "tokenizer");
  const model::Words words = model::Words::Make(**tokenizer);
  const std::vector<int32_t> text = TokensOf(**tokenizer, arguments.text);
  std::printf("%s, %d words of %lld tokens, a text of %zu\n", CpuName().c_str(), words.count(),
              static_cast<long long>(words.tokens()), text.size());
  if (text.size() <= static_cast<size_t>(kMostBlock)) {
    Require(absl::InvalidArgumentError("a text of fewer than 64 tokens"), "text");
  }
  for (const int64_t count : arguments.tokens) Measure(words, text, count, arguments);
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Arguments arguments;
  CLI::App app("Measures sparse keys and their search.");
  app.add_option("--tokenizer", arguments.tokenizer)->required();
  app.add_option("--text", arguments.text)->required();
  app.add_option("--tokens", arguments.tokens);
  app.add_option("--threads", arguments.threads);
  app.add_option("--queries", arguments.queries, "of each length")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  recollect::bench::Run(arguments);
  return 0;
}
