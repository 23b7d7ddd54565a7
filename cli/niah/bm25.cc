#include "cli/niah/bm25.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"

namespace recollect::cli::niah {
namespace {

constexpr double kK1 = 1.2;
constexpr double kB = 0.75;

}  // namespace

std::vector<std::string> LowerWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const unsigned char c = i < text.size() ? static_cast<unsigned char>(text[i]) : ' ';
    if (absl::ascii_isalnum(c)) {
      word += absl::ascii_tolower(c);
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  return words;
}

void WordCounts::Add(std::string_view text) {
  const int64_t index = texts();
  const std::vector<std::string> words = LowerWords(text);
  for (const std::string& word : words) {
    std::vector<Posting>& list = postings_[word];
    if (list.empty() || list.back().text != index) list.push_back({index, 0});
    ++list.back().count;
  }
  lengths_.push_back(static_cast<int64_t>(words.size()));
  total_length_ += lengths_.back();
}

struct Bm25Search {
  const std::vector<const WordCounts*>& parts;
  double texts = 0, mean_length = 0;
  std::vector<std::vector<double>> scores;  // by part and text

  explicit Bm25Search(const std::vector<const WordCounts*>& searched) : parts(searched) {
    double length = 0;
    for (const WordCounts* part : parts) {
      texts += static_cast<double>(part->texts());
      length += static_cast<double>(part->total_length_);
      scores.emplace_back(part->lengths_.size());
    }
    mean_length = length / std::max(1.0, texts);
  }

  void AddWord(const std::string& word) {
    double df = 0;
    for (const WordCounts* part : parts) {
      const auto found = part->postings_.find(word);
      if (found != part->postings_.end()) df += static_cast<double>(found->second.size());
    }
    const double idf = std::log(1 + (texts - df + 0.5) / (df + 0.5));
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto found = parts[p]->postings_.find(word);
      if (found == parts[p]->postings_.end()) continue;
      for (const WordCounts::Posting& posting : found->second) {
        const double tf = static_cast<double>(posting.count);
        const double l = static_cast<double>(parts[p]->lengths_[posting.text]) / mean_length;
        scores[p][posting.text] += idf * tf * (kK1 + 1) / (tf + kK1 * (1 - kB + kB * l));
      }
    }
  }
};

std::vector<Bm25Hit> Bm25(const std::vector<const WordCounts*>& parts, std::string_view query,
                          int64_t k) {
  Bm25Search search(parts);
  for (const std::string& word : LowerWords(query)) search.AddWord(word);
  std::vector<Bm25Hit> hits;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (size_t t = 0; t < search.scores[p].size(); ++t) {
      if (search.scores[p][t] <= 0) continue;
      hits.push_back({static_cast<int64_t>(p), static_cast<int64_t>(t), search.scores[p][t]});
    }
  }
  std::stable_sort(hits.begin(), hits.end(),
                   [](const Bm25Hit& a, const Bm25Hit& b) { return a.score > b.score; });
  if (static_cast<int64_t>(hits.size()) > k) hits.resize(k);
  return hits;
}

}  // namespace recollect::cli::niah
