#include "engine/session/sparse_keys.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "engine/backend/device/device_sparse.h"
#include "engine/session/hybrid_keys.h"
#include "tests/engine/engine_testing.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;
using kernels::SparseTerm;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
    const auto found = *SearchSparse(nullptr, Pointers(keys), query, n);
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
      *SearchSparse(nullptr, mounted, SparseQuery(words_, std::vector<int32_t>{0, 1}), 9);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].score, found[1].score);
  EXPECT_NEAR(found[0].score, words_.idf(0), 1e-4);
}

TEST_F(SparseKeysTest, WordsNearbyCountLess) {
  const SparseKeys keys = Keys({{100, 102, 0, 104, 106, 108}, {1, 1, 1, 1, 1, 1}});
  const SparseKeys other = Keys({{110}, {1}});
  const SparseKeys* const mounted[] = {&other, &keys, &other};
  const auto found =
      *SearchSparse(nullptr, mounted, SparseQuery(words_, std::vector<int32_t>{0}), 9);
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
      EXPECT_EQ(*SearchSparse(used, Pointers(keys), queries[q], 50), expected[q]) << threads;
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
    const auto found = SearchSparse(nullptr, mounted, query, 10000);
    ASSERT_THAT(found, IsOk());
    for (const ScoredCandidate& best : *found) {
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

// More hits than a launch finds, documents of several ranges, of one block and of none.
TEST_F(SparseKeysTest, OnADeviceTheyFindTheSame) {
  const auto device = std::make_shared<kernels::HostDevice>();
  DeviceSparse index(device);
  std::vector<SparseKeys> here, there;
  int64_t bytes = 0;
  for (const int64_t blocks : {200, 0, 1, 33000}) {
    const Document document =
        RandomDocument(blocks, blocks > 1000 ? 4 : 63, static_cast<uint32_t>(blocks));
    here.push_back(Keys(document));
    there.push_back(Keys(document));
    ASSERT_THAT(there.back().MoveTo(index), IsOk());
    EXPECT_EQ(there.back().blocks(), blocks);
    EXPECT_THAT(there.back().ranges(), IsEmpty());
    EXPECT_LE(there.back().bytes(),
              SparseKeys::BytesOf(words_, std::ssize(document.tokens), blocks))
        << "of what is accounted for before they are read";
    bytes += there.back().bytes();
  }
  EXPECT_EQ(device->bytes(), bytes);
  const std::vector<SparseTerm> query =
      SparseQuery(words_, std::vector<int32_t>{1, 7, 6, 90, 401, 599, 7});
  for (const int n : {0, 1, 8, 256, 600, 100000}) {
    const auto found = SearchSparse(nullptr, Pointers(there), query, n);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(*found, *SearchSparse(nullptr, Pointers(here), query, n)) << n;
  }
  EXPECT_THAT(*SearchSparse(nullptr, Pointers(there), {}, 8), IsEmpty());
  there.clear();
  EXPECT_LT(device->bytes(), bytes) << "the last document's keys are freed";
}

TEST_F(SparseKeysTest, WhatHasNoRoomOnADeviceStaysWhereItIs) {
  const auto device = std::make_shared<kernels::HostDevice>();
  DeviceSparse index(device);
  device->LimitBytes(1000);
  SparseKeys keys = Keys(RandomDocument(200, 63, 1));
  EXPECT_THAT(keys.MoveTo(index),
              StatusIs(absl::StatusCode::kResourceExhausted, "keys on the device host: "));
  EXPECT_EQ(keys.on_device(), nullptr);
  const SparseKeys* const mounted[] = {&keys};
  const std::vector<SparseTerm> query = SparseQuery(words_, std::vector<int32_t>{1, 2});
  EXPECT_THAT(*SearchSparse(nullptr, mounted, query, 8), SizeIs(8));
  device->LimitBytes(int64_t{1} << 30);
  ASSERT_THAT(keys.MoveTo(index), IsOk());
  device->LoseAfter(0);
  EXPECT_THAT(SearchSparse(nullptr, mounted, query, 8),
              StatusIs(absl::StatusCode::kUnavailable, ""));
}

TEST_F(SparseKeysTest, HybridKeysOnADeviceFindTheSame) {
  const auto device = std::make_shared<kernels::HostDevice>();
  DeviceSparse index(device);
  const auto model = AdapterModelForTest();
  const model::ModelConfig& config = model->config();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<HybridKeys> here, there;
  for (const int64_t blocks : {150, 1, 9000}) {
    const std::vector<int64_t> block_tokens(static_cast<size_t>(blocks), 3);
    std::vector<int32_t> tokens(static_cast<size_t>(3 * blocks));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 500);
    std::vector<Bf16> keys;
    for (int64_t i = 0; i < blocks * config.key_width(); ++i) {
      const float number = normal(random);
      keys.push_back(
          Bf16::FromFloat(i % config.key_width() < config.d_r ? number : std::abs(number)));
    }
    for (std::vector<HybridKeys>* const all : {&here, &there}) {
      all->push_back(
          HybridKeys::Make(config, *model->words(), keys, tokens, block_tokens, nullptr));
    }
    ASSERT_THAT(there.back().MoveTo(index), IsOk());
    EXPECT_LE(there.back().bytes(), HybridKeys::BytesOf(config, std::ssize(tokens), blocks));
    EXPECT_EQ(there.back().HasSuccessor(0), here.back().HasSuccessor(0));
  }
  HybridQuery query;
  for (int64_t i = 0; i < config.d_r; ++i) query.dense.push_back(normal(random));
  for (const int32_t token : {5, 70, 300}) query.terms.push_back({model->words()->word(token), 2});
  const auto pointers = [](const std::vector<HybridKeys>& keys) {
    return std::vector<const HybridKeys*>{&keys[0], &keys[1], &keys[2]};
  };
  const auto expected = SearchHybrid(nullptr, pointers(here), query, 300);
  const auto found = SearchHybrid(nullptr, pointers(there), query, 300);
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->size(), expected->size());
  for (size_t i = 0; i < found->size(); ++i) {
    EXPECT_NEAR((*found)[i].score, (*expected)[i].score, 1e-4) << i;
  }
  EXPECT_EQ(found->front().candidate, expected->front().candidate);
}

TEST_F(SparseKeysTest, NothingMountedFindsNothing) {
  const std::vector<SparseTerm> query = SparseQuery(words_, std::vector<int32_t>{1, 2});
  EXPECT_THAT(*SearchSparse(nullptr, {}, query, 8), IsEmpty());
  const SparseKeys empty;
  const SparseKeys* const mounted[] = {&empty};
  EXPECT_THAT(*SearchSparse(nullptr, mounted, query, 8), IsEmpty());
  EXPECT_THAT(*SearchSparse(nullptr, mounted, {}, 8), IsEmpty());
}

}  // namespace
}  // namespace recollect::engine
