// How fast a byte-level BPE turns text into tokens, and the ids themselves, for a comparison with
// PyPI's tokenizers on the same texts (tokenizer_bench.py, tests/model/text/bpe_parity.py). Times
// are those of the processor: one thread, and what else runs on the machine does not count.
//
//   build/release/bin/tokenizer_bench --tokenizer tokenizer.json --repeat 3 book.txt
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/status.h"
#include "model/text/bpe_tokenizer.h"

namespace recollect::bench {
namespace {

struct Arguments {
  std::string tokenizer;
  std::vector<std::string> texts;
  std::string ids;
  int repeat = 1;
};

absl::Status WriteIds(const std::string& path, const std::vector<int32_t>& ids) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return absl::InvalidArgumentError(absl::StrCat("cannot write ", path));
  const size_t written = std::fwrite(ids.data(), sizeof(int32_t), ids.size(), file);
  if (std::fclose(file) != 0 || written != ids.size()) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot write all of ", path));
  }
  return absl::OkStatus();
}

absl::Status Run(const Arguments& arguments) {
  const auto seconds = [](std::clock_t begin) {
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(arguments.tokenizer));
  const std::clock_t loading = std::clock();
  ASSIGN_OR_RETURN(model::BpeVocabulary vocabulary, model::BpeVocabulary::FromTokenizerJson(json));
  ASSIGN_OR_RETURN(const auto tokenizer, model::BpeTokenizer::Create(std::move(vocabulary)));
  std::printf("%s: %ld tokens, loaded in %.3f s\n", arguments.tokenizer.c_str(),
              static_cast<long>(tokenizer->vocab_size()), seconds(loading));
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (const std::string& path : arguments.texts) {
    ASSIGN_OR_RETURN(texts.emplace_back(), ReadWholeFile(path));
    bytes += texts.back().size();
  }
  double best = 0;
  std::vector<int32_t> all;
  for (int run = 0; run < arguments.repeat; ++run) {
    all.clear();
    double total = 0;
    for (const std::string& text : texts) {
      const std::clock_t begin = std::clock();
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(text));
      total += seconds(begin);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    if (run == 0 || total < best) best = total;
  }
  std::printf("%zu bytes, %zu tokens: %.3f s, %.0f tokens/s, %.2f MB/s on one core\n", bytes,
              all.size(), best, static_cast<double>(all.size()) / best,
              static_cast<double>(bytes) / best / 1e6);
  return arguments.ids.empty() ? absl::OkStatus() : WriteIds(arguments.ids, all);
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) {
  recollect::bench::Arguments arguments;
  CLI::App app("How fast text becomes tokens of a byte-level BPE");
  app.add_option("--tokenizer", arguments.tokenizer, "a tokenizer.json")->required();
  app.add_option("--ids", arguments.ids, "file that gets the ids, 4 bytes each");
  app.add_option("--repeat", arguments.repeat, "runs, of which the fastest counts")
      ->check(CLI::PositiveNumber);
  app.add_option("texts", arguments.texts, "files of UTF-8 text")->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = recollect::bench::Run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
