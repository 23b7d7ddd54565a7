// BM25, the classic search by words, as the baseline for retrieval:
//
//   score(text) = Σ over words w of the query: idf(w) · tf · (k1 + 1) / (tf + k1 · (1 - b + b · l))
//   idf(w) = ln(1 + (N - df + 1/2) / (df + 1/2))
//
// tf: occurrences of w in the text; df: the number of the N texts that contain w; l: the text's
// number of words divided by the mean of all texts; k1 = 1.2, b = 0.75.
#ifndef RECOLLECT_CLI_NIAH_BM25_H_
#define RECOLLECT_CLI_NIAH_BM25_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace recollect::cli::niah {

// Runs of ASCII letters and digits, in lower case.
std::vector<std::string> LowerWords(std::string_view text);

// The words of some texts, counted once. Several such parts are searched as one collection, so that
// a changed document does not require counting the others again.
class WordCounts {
 public:
  void Add(std::string_view text);
  int64_t texts() const { return static_cast<int64_t>(lengths_.size()); }

 private:
  struct Posting {
    int64_t text = 0, count = 0;
  };
  friend struct Bm25Search;

  std::unordered_map<std::string, std::vector<Posting>> postings_;
  std::vector<int64_t> lengths_;  // words of each text
  int64_t total_length_ = 0;
};

struct Bm25Hit {
  int64_t part = 0, text = 0;
  double score = 0;
};

// The `k` best texts of all parts, best first, ties to the earlier one. Texts without any word of
// the query are no hits.
std::vector<Bm25Hit> Bm25(const std::vector<const WordCounts*>& parts, std::string_view query,
                          int64_t k);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_BM25_H_
