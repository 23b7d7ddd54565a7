#include "engine/session/sparse_keys.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;
using kernels::SparseTerm;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Tokens w0, W0, w1, W1, …: two for each word.
model::Words TestWords() {
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back("w" + std::to_string(i));
    texts.push_back(" W" + std::to_string(i));
  }
  return model::Words::Make(texts);
}

struct Document {
  std::vector<int32_t> tokens;
  std::vector<int64_t> block_tokens;
};

// Low tokens often.
Document RandomDocument(int64_t blocks, int most_tokens, uint32_t seed) {
  std::mt19937 random(seed);
  Document document;
  for (int64_t block = 0; block < blocks; ++block) {
    document.block_tokens.push_back(static_cast<int64_t>(random()) % (most_tokens + 1));
    for (int64_t i = 0; i < document.block_tokens.back(); ++i) {
      document.tokens.push_back(static_cast<int32_t>(random() % (1 + random() % 600)));
    }
  }
  return document;
}

// Whether a block has a word; not outside the document.
bool Has(const std::vector<std::set<int32_t>>& blocks, int64_t block, int32_t word) {
  return block >= 0 && block < std::ssize(blocks) &&
         blocks[static_cast<size_t>(block)].contains(word);
}

// The formula of the header, block by block: the score of each candidate that has one.
std::map<int64_t, double> Expected(const model::Words& words,
                                   const std::vector<Document>& documents,
                                   const std::vector<int32_t>& question) {
  std::set<int32_t> asked;
  for (const int32_t token : question) asked.insert(words.word(token));
  std::map<int64_t, double> scores;
  int64_t candidate = 0;
  for (const Document& document : documents) {
    std::vector<std::set<int32_t>> blocks;
    size_t at = 0;
    for (const int64_t count : document.block_tokens) {
      blocks.emplace_back();
      for (int64_t i = 0; i < count; ++i) blocks.back().insert(words.word(document.tokens[at++]));
    }
    for (int64_t block = 0; block < std::ssize(blocks); ++block, ++candidate) {
      double score = 0;
      for (const int32_t word : asked) {
        int away = 0;
        while (away <= 2 && !Has(blocks, block - away, word) && !Has(blocks, block + away, word)) {
          ++away;
        }
        if (away <= 2) score += words.idf(word) * std::pow(2.0 / 3, away);
      }
      if (score > 0) scores[candidate] = score;
    }
  }
  return scores;
}

class SparseKeysTest : public ::testing::Test {
 protected:
  SparseKeys Keys(const Document& document, ThreadPool* pool = nullptr) {
    return SparseKeys::Make(words_, document.tokens, document.block_tokens, pool);
  }
  static std::vector<const SparseKeys*> Pointers(const std::vector<SparseKeys>& keys) {
    std::vector<const SparseKeys*> pointers;
    for (const SparseKeys& one : keys) pointers.push_back(&one);
    return pointers;
  }
  const model::Words words_ = TestWords();
};

TEST_F(SparseKeysTest, FindsTheBlocksThatShareTheMostWords) {
  std::vector<Document> documents;
  std::vector<SparseKeys> keys;
  // The longest has several ranges, and hits on both sides of where they meet.
  for (const int64_t blocks : {200, 0, 1, 33000, 57}) {
    const int most_tokens = blocks > 1000 ? 4 : 63;
    documents.push_back(RandomDocument(blocks, most_tokens, static_cast<uint32_t>(blocks)));
    keys.push_back(Keys(documents.back()));
    EXPECT_EQ(keys.back().blocks(), blocks);
  }
  const std::vector<int32_t> question = {1, 7, 6, 90, 401, 599, 7};
  std::map<int64_t, double> expected = Expected(words_, documents, question);
  std::vector<double> sorted;
  for (const auto& [candidate, score] : expected) sorted.push_back(score);
  std::sort(sorted.rbegin(), sorted.rend());
  const std::vector<SparseTerm> query = SparseQuery(words_, question);
  for (const int n : {0, 1, 8, 1000, 100000}) {
    const auto found = SearchSparse(nullptr, Pointers(keys), query, n);
    ASSERT_EQ(found.size(), std::min(expected.size(), static_cast<size_t>(n)));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].score, expected[found[i].candidate], 1e-3) << i;
      EXPECT_NEAR(found[i].score, sorted[i], 1e-3) << i;
      if (i == 0) continue;
      EXPECT_TRUE(found[i].score < found[i - 1].score ||
                  found[i].candidate > found[i - 1].candidate)
          << i;
    }
  }
}

TEST_F(SparseKeysTest, AWordCountsOnceInABlockAndInAQuestion) {
  const SparseKeys often = Keys({{0, 1, 0}, {3}}), once = Keys({{2, 0}, {2}});
  const SparseKeys* const mounted[] = {&often, &once};
  EXPECT_EQ(SparseQuery(words_, std::vector<int32_t>{0, 1, 0}).size(), 1u);
  const auto found =
      SearchSparse(nullptr, mounted, SparseQuery(words_, std::vector<int32_t>{0, 1}), 9);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].score, found[1].score);
  EXPECT_NEAR(found[0].score, words_.idf(0), 1e-4);
}

TEST_F(SparseKeysTest, WordsNearbyCountLess) {
  const SparseKeys keys = Keys({{100, 102, 0, 104, 106, 108}, {1, 1, 1, 1, 1, 1}});
  const SparseKeys other = Keys({{110}, {1}});
  const SparseKeys* const mounted[] = {&other, &keys, &other};
  const auto found =
      SearchSparse(nullptr, mounted, SparseQuery(words_, std::vector<int32_t>{0}), 9);
  std::vector<int64_t> candidates;
  for (const ScoredCandidate& one : found) candidates.push_back(one.candidate);
  EXPECT_THAT(candidates, ElementsAre(3, 2, 4, 1, 5));
  const float idf = words_.idf(0);
  EXPECT_NEAR(found[0].score, idf, 1e-4);
  EXPECT_NEAR(found[1].score, idf * 2 / 3, 1e-4);
  EXPECT_NEAR(found[4].score, idf * 4 / 9, 1e-4);
}

// Blocks of several ranges, some of which have all the words and some none.
TEST_F(SparseKeysTest, ThreadsChangeNothing) {
  std::vector<Document> documents;
  documents.push_back(RandomDocument(70000, 3, 1));
  documents.push_back(RandomDocument(20000, 2, 2));
  std::vector<std::vector<SparseTerm>> queries;
  for (const int token : {3, 40, 500}) {
    queries.push_back(SparseQuery(words_, std::vector<int32_t>{token, token / 2, 8}));
  }
  std::vector<std::vector<ScoredCandidate>> expected;
  for (const int threads : {0, 1, 2, 5}) {
    ThreadPool pool(std::max(threads, 1));
    ThreadPool* const used = threads == 0 ? nullptr : &pool;
    std::vector<SparseKeys> keys;
    for (const Document& document : documents) keys.push_back(Keys(document, used));
    const auto found = SearchSparseAll(used, Pointers(keys), queries, 50);
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << threads;
    for (size_t q = 0; q < queries.size(); ++q) {
      EXPECT_EQ(SearchSparse(used, Pointers(keys), queries[q], 50), expected[q]) << threads;
      EXPECT_EQ(expected[q].size(), 50u);
    }
  }
}

TEST_F(SparseKeysTest, MountingInAnotherOrderFindsTheSame) {
  const std::vector<Document> documents = {RandomDocument(300, 40, 1), RandomDocument(400, 40, 2),
                                           RandomDocument(500, 40, 3)};
  std::vector<SparseKeys> keys;
  for (const Document& document : documents) keys.push_back(Keys(document));
  const std::vector<SparseTerm> query =
      SparseQuery(words_, std::vector<int32_t>{8, 9, 100, 200, 400});
  std::vector<size_t> order = {0, 1, 2};
  std::map<std::pair<size_t, int64_t>, float> first;
  do {
    std::vector<const SparseKeys*> mounted;
    for (const size_t i : order) mounted.push_back(&keys[i]);
    std::map<std::pair<size_t, int64_t>, float> scores;
    for (const ScoredCandidate& best : SearchSparse(nullptr, mounted, query, 10000)) {
      int64_t block = best.candidate;
      size_t i = 0;
      for (; block >= mounted[i]->blocks(); ++i) block -= mounted[i]->blocks();
      scores[{order[i], block}] = best.score;
    }
    ASSERT_FALSE(scores.empty());
    if (first.empty()) first = scores;
    EXPECT_EQ(scores, first);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(SparseKeysTest, MemoryIsAtMostWhatIsSaidBefore) {
  for (const auto& [blocks, most] : {std::pair{0, 1}, {1, 1}, {1, 63}, {500, 63}, {40000, 2}}) {
    const Document document = RandomDocument(blocks, most, 5);
    const SparseKeys keys = Keys(document);
    const int64_t tokens = std::ssize(document.tokens);
    EXPECT_LE(keys.bytes(), SparseKeys::BytesOf(words_, tokens, blocks)) << blocks;
    EXPECT_LE(SparseKeys::BytesOf(words_, tokens, blocks), 1000 + 24 * (tokens + blocks)) << blocks;
  }
}

TEST_F(SparseKeysTest, NothingMountedFindsNothing) {
  const std::vector<SparseTerm> query = SparseQuery(words_, std::vector<int32_t>{1, 2});
  EXPECT_THAT(SearchSparse(nullptr, {}, query, 8), IsEmpty());
  const SparseKeys empty;
  const SparseKeys* const mounted[] = {&empty};
  EXPECT_THAT(SearchSparse(nullptr, mounted, query, 8), IsEmpty());
  EXPECT_THAT(SearchSparse(nullptr, mounted, {}, 8), IsEmpty());
}

}  // namespace
}  // namespace recollect::engine
