// Documents that are kept as text: mounts, budgets, and what a query finds.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "engine/backend/device/device_sparse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "tests/engine/engine_testing.h"
#include "tests/kernels/device/host_device.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Says other tokens than were stored, or other chunks, when told to.
class FaultyStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::StatusOr<std::vector<int32_t>> ReadTokens(OwnerId owner, int64_t begin,
                                                  int64_t end) override {
    auto tokens = ForwardingStore::ReadTokens(owner, begin, end);
    if (other_tokens && tokens.ok()) std::fill(tokens->begin(), tokens->end(), other_token);
    return tokens;
  }
  std::vector<absl::StatusOr<store::ChunkRecord>> ReadChunks(
      std::span<const ChunkRef> refs) override {
    auto records = ForwardingStore::ReadChunks(refs);
    if (damaged && !records.empty()) records.back() = absl::DataLossError("chunk 3: checksum");
    return records;
  }
  absl::Status Free(OwnerId owner) override {
    ++freed;
    return ForwardingStore::Free(owner);
  }
  std::atomic<bool> other_tokens{false}, damaged{false};
  std::atomic<int32_t> other_token{5};
  std::atomic<int> freed{0};
};

class TextDocumentsTest : public ::testing::Test {
 protected:
  void SetUp() override { Make(SmallOptions()); }
  void Make(const TestOptions& options) {
    engine_ = nullptr;
    auto owned = std::make_unique<FaultyStore>(
        std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore()));
    store_ = owned.get();
    engine_ = MakeEngine(options, std::move(owned), TextModelForTest());
  }
  static RetrieveRequest Ask(std::vector<std::string> mounts, const std::string& query,
                             int64_t k = 0) {
    RetrieveRequest request;
    request.session_options.mounts = std::move(mounts);
    request.query.text = query;
    request.k = k;
    return request;
  }
  std::vector<Hit> Hits(std::vector<std::string> mounts, const std::string& query, int64_t k = 0) {
    const auto retrievals = Retrieve(*engine_, Ask(std::move(mounts), query, k));
    EXPECT_THAT(retrievals, IsOk());
    if (!retrievals.ok()) return {};
    EXPECT_THAT(*retrievals, SizeIs(1));
    return retrievals->front().hits;
  }
  std::string TextOf(const Hit& hit) {
    return engine_->ReadText(hit.document, hit.text_begin, hit.text_end).value();
  }

  FaultyStore* store_ = nullptr;
  std::unique_ptr<EngineImpl> engine_;
};

// The score of each block that shares a word with the query, by the definition.
std::map<std::pair<std::string, int64_t>, double> ScoresByHand(
    const model::Model& model, const std::map<std::string, std::string>& documents,
    const std::string& query) {
  const model::Words& words = *model.words();
  const auto words_of = [&](const std::vector<int32_t>& tokens) {
    std::set<int32_t> found;
    for (const int32_t token : tokens) found.insert(words.word(token));
    return found;
  };
  const std::set<int32_t> asked = words_of(*model.tokenizer()->Encode(query));
  std::map<std::pair<std::string, int64_t>, double> scores;
  for (const auto& [id, text] : documents) {
    std::vector<std::set<int32_t>> blocks;
    for (const auto& block : DocumentBlocks(model, *model.tokenizer()->Encode(text))) {
      blocks.push_back(words_of(block));
    }
    for (int64_t block = 0; block < std::ssize(blocks); ++block) {
      double score = 0;
      for (const int32_t word : asked) {
        for (int64_t away = 0; away <= 2; ++away) {
          const auto has = [&](int64_t other) {
            return other >= 0 && other < std::ssize(blocks) &&
                   blocks[static_cast<size_t>(other)].contains(word);
          };
          if (!has(block - away) && !has(block + away)) continue;
          score += words.idf(word) * std::pow(2.0 / 3, static_cast<double>(away));
          break;
        }
      }
      if (score > 0) scores[{id, block}] = score;
    }
  }
  return scores;
}

TEST_F(TextDocumentsTest, AQueryFindsTheBlocksThatShareItsWords) {
  std::map<std::string, std::string> documents;
  for (int i = 0; i < 3; ++i) {
    const std::string id = absl::StrCat("doc", i);
    documents[id] = SampleText(6000, static_cast<uint64_t>(1 + i));
    ASSERT_THAT(Ingest(*engine_, id, documents[id]), IsOk());
  }
  const std::string query = "the white whale, and 1851";
  const auto scores = ScoresByHand(engine_->model(), documents, query);
  for (const int64_t k : {1, 8, 40}) {
    const std::vector<Hit> hits = Hits({"doc0", "doc1", "doc2"}, query, k);
    ASSERT_EQ(std::ssize(hits), std::min<int64_t>(k, std::ssize(scores)));
    auto others = scores;
    double weights = 0, sum = 0;
    for (const Hit& hit : hits) sum += hit.score;
    for (const Hit& hit : hits) {
      const auto found = others.extract({hit.document, hit.chunk});
      ASSERT_FALSE(found.empty()) << "twice, or without a common word";
      EXPECT_NEAR(hit.score, found.mapped(), 1e-3);
      EXPECT_NEAR(hit.weight, hit.score / sum, 1e-6);
      EXPECT_EQ(hit.tier, Tier::kStore);
      EXPECT_EQ(hit.owner, engine_->GetDocument(hit.document)->owner);
      EXPECT_GT(hit.text_end, hit.text_begin);
      weights += hit.weight;
    }
    EXPECT_NEAR(weights, 1, 1e-5);
    EXPECT_TRUE(std::ranges::is_sorted(hits, std::greater<>(), &Hit::score));
    for (const auto& [block, score] : others) EXPECT_LE(score, hits.back().score + 1e-3);
  }
  EXPECT_THAT(Hits({"doc0", "doc1"}, query), SizeIs(kDefaultTextHits));
}

TEST_F(TextDocumentsTest, TheOrderOfMountsMakesNoDifference) {
  // Twice the same text: every score is a tie.
  for (const char* id : {"b", "a", "c"}) {
    ASSERT_THAT(Ingest(*engine_, id, SampleText(3000, 4)), IsOk());
  }
  const std::vector<Hit> expected = Hits({"a", "b", "c"}, "the captain of the ship", 7);
  ASSERT_THAT(expected, SizeIs(7));
  EXPECT_EQ(expected[0].document, "a");
  EXPECT_EQ(expected[1].document, "b");
  EXPECT_EQ(expected[0].chunk, expected[1].chunk);
  const std::vector<std::vector<std::string>> orders = {{"c", "b", "a"}, {"b", "c", "a"}};
  for (const auto& order : orders) {
    const std::vector<Hit> hits = Hits(order, "the captain of the ship", 7);
    ASSERT_EQ(hits.size(), expected.size());
    for (size_t i = 0; i < hits.size(); ++i) {
      EXPECT_EQ(hits[i].document, expected[i].document);
      EXPECT_EQ(hits[i].chunk, expected[i].chunk);
      EXPECT_EQ(hits[i].score, expected[i].score);
      EXPECT_EQ(hits[i].weight, expected[i].weight);
    }
  }
}

TEST_F(TextDocumentsTest, WhatSharesNoWordIsNoHit) {
  ASSERT_THAT(Ingest(*engine_, "d", "111 222 333"), IsOk());
  const auto none = Retrieve(*engine_, Ask({"d"}, "zzz"));
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(none->front().candidates, 1);
  for (const Hit& hit : none->front().hits) EXPECT_GT(hit.score, 0);
  EXPECT_THAT(Hits({}, "zzz"), SizeIs(0)) << "nothing is mounted";
}

TEST_F(TextDocumentsTest, HitsAreTheTextOfTheirBlocks) {
  const std::string text = SampleText(9000, 8);
  ASSERT_THAT(Ingest(*engine_, "d", text), IsOk());
  const model::Tokenizer& tokenizer = *engine_->model().tokenizer();
  const auto blocks = DocumentBlocks(engine_->model(), *tokenizer.Encode(text));
  for (const Hit& hit : Hits({"d"}, "long night under water", 20)) {
    std::string expected;
    for (const int32_t token : blocks[static_cast<size_t>(hit.chunk)]) {
      expected += tokenizer.TokenBytes(token);
    }
    // A tokenizer with a dummy prefix begins the first block with a space of its own.
    if (hit.chunk == 0) expected.erase(0, expected.size() - TextOf(hit).size());
    EXPECT_EQ(TextOf(hit), expected);
  }
}

// A block that is as long as blocks may be ends where a token ends, which may be inside a
// character.
TEST_F(TextDocumentsTest, PassagesHaveWholeCharacters) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    absl::StrAppend(&text, "\xf0\x9f\x90\x8b", i % 9 == 0 ? " whale " : "");
  ASSERT_THAT(Ingest(*engine_, "d", text), IsOk());
  bool cut = false;
  for (const Hit& hit : Hits({"d"}, "whale")) {
    cut = cut || model::FindInvalidUtf8(TextOf(hit), /*allow_partial_end=*/false) >= 0;
  }
  ASSERT_TRUE(cut) << "nothing is tested";
  GenerateRequest request;
  request.session_options.mounts = {"d"};
  request.prompt.text = "Where is the whale?";
  request.max_tokens = 1;
  EXPECT_THAT(Generate(*engine_, request).status, IsOk());
}

TEST_F(TextDocumentsTest, KeysAreCountedSharedAndDropped) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(Ingest(*engine_, absl::StrCat("d", i), SampleText(8000, 1 + i)), IsOk());
  }
  const SessionId first = *engine_->OpenSession({.mounts = {"d0"}});
  const int64_t one = engine_->stats().landmark_bytes;
  EXPECT_GT(one, 0);
  const SessionId second = *engine_->OpenSession({.mounts = {"d0", "d1"}});
  const int64_t two = engine_->stats().landmark_bytes;
  EXPECT_GT(two, one);
  EXPECT_LT(two, 3 * one) << "d0 counts once";
  ASSERT_THAT(engine_->CloseSession(first), IsOk());
  ASSERT_THAT(engine_->CloseSession(second), IsOk());
  AwaitBackground(*engine_);
  EXPECT_EQ(engine_->stats().landmark_bytes, two) << "kept while there is room";

  TestOptions options = SmallOptions();
  const store::DocumentInfo info = *engine_->GetDocument("d0");
  options.landmark_budget_bytes =
      SparseKeys::BytesOf(*engine_->model().words(), info.tokens, info.chunks) + one / 2;
  Make(options);
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(Ingest(*engine_, absl::StrCat("d", i), SampleText(8000, 1 + i)), IsOk());
  }
  ASSERT_THAT(Ingest(*engine_, "big", SampleText(200000, 7)), IsOk());
  const SessionId held = *engine_->OpenSession({.mounts = {"d0"}});
  const absl::Status full = engine_->OpenSession({.mounts = {"big"}}).status();
  EXPECT_THAT(full, StatusIs(StatusCode::kResourceExhausted, "its sparse keys need"));
  EXPECT_THAT(std::string(full.message()), HasSubstr(absl::StrCat(options.landmark_budget_bytes)));
  EXPECT_EQ(engine_->stats().landmark_bytes, one);
  ASSERT_THAT(engine_->CloseSession(held), IsOk());
  AwaitBackground(*engine_);
  EXPECT_THAT(engine_->OpenSession({.mounts = {"d1"}}), IsOk()) << "those of d0 make room";
}

TEST_F(TextDocumentsTest, OnADeviceQueriesFindTheSame) {
  const auto device = std::make_shared<kernels::HostDevice>();
  TestOptions options = SmallOptions();
  const auto ingest = [&] {
    for (int i = 0; i < 3; ++i) {
      ASSERT_THAT(Ingest(*engine_, absl::StrCat("d", i), SampleText(6000, 1 + i)), IsOk());
    }
  };
  ingest();
  const std::vector<Hit> expected = Hits({"d0", "d2", "d1"}, "the white whale, and 1851", 20);
  ASSERT_THAT(expected, SizeIs(20));
  options.sparse = std::make_shared<DeviceSparse>(device);
  Make(options);
  ingest();
  const std::vector<Hit> hits = Hits({"d0", "d2", "d1"}, "the white whale, and 1851", 20);
  ASSERT_EQ(hits.size(), expected.size());
  for (size_t i = 0; i < hits.size(); ++i) {
    EXPECT_EQ(hits[i].document, expected[i].document) << i;
    EXPECT_EQ(hits[i].chunk, expected[i].chunk) << i;
    EXPECT_EQ(hits[i].score, expected[i].score) << i;
  }
  AwaitBackground(*engine_);
  EXPECT_GE(device->bytes(), engine_->stats().landmark_bytes);
  EXPECT_GT(engine_->stats().landmark_bytes, 0);
  EXPECT_EQ(engine_->stats().landmark_index, "host");

  // Keys of documents that nobody mounts make room, then there is none.
  ASSERT_THAT(Ingest(*engine_, "more", SampleText(6000, 9)), IsOk());
  device->LimitBytes(device->bytes());
  EXPECT_THAT(engine_->OpenSession({.mounts = {"more"}}), IsOk());
  device->LimitBytes(100);
  EXPECT_THAT(
      engine_->OpenSession({.mounts = {"d0"}}),
      StatusIs(StatusCode::kResourceExhausted, "document \"d0\": keys on the device host: "));
  device->LimitBytes(int64_t{1} << 30);
  EXPECT_THAT(Hits({"d1"}, "whale", 3), SizeIs(3));
  device->LoseAfter(0);
  EXPECT_THAT(Retrieve(*engine_, Ask({"d1"}, "whale")), StatusIs(StatusCode::kUnavailable, ""));
}

TEST_F(TextDocumentsTest, ADeletedDocumentStaysWithItsSessions) {
  ASSERT_THAT(Ingest(*engine_, "d", SampleText(3000, 1)), IsOk());
  const SessionId session = *engine_->OpenSession({.mounts = {"d"}});
  ASSERT_THAT(engine_->DeleteDocument("d"), IsOk());
  EXPECT_THAT(Retrieve(*engine_, Ask({"d"}, "whale")), StatusIs(StatusCode::kNotFound, "d"));
  AwaitBackground(*engine_);
  EXPECT_EQ(store_->freed, 0);
  ASSERT_THAT(engine_->CloseSession(session), IsOk());
  AwaitBackground(*engine_);
  EXPECT_EQ(store_->freed, 1);
  EXPECT_EQ(engine_->stats().landmark_bytes, 0);
}

TEST_F(TextDocumentsTest, TokensThatAreNotTheDocumentsAreDataLoss) {
  ASSERT_THAT(Ingest(*engine_, "d", SampleText(9000, 1)), IsOk());
  store_->other_tokens = true;
  EXPECT_THAT(engine_->OpenSession({.mounts = {"d"}}),
              StatusIs(StatusCode::kDataLoss, "tokens make up"));
  store_->other_token = 1 << 20;
  EXPECT_THAT(engine_->OpenSession({.mounts = {"d"}}),
              StatusIs(StatusCode::kDataLoss, "id 1048576, expected below"));
  EXPECT_EQ(engine_->stats().data_loss_errors, 2);
  EXPECT_EQ(engine_->stats().landmark_bytes, 0);
  store_->other_tokens = false;
  EXPECT_THAT(engine_->OpenSession({.mounts = {"d"}}), IsOk());
  store_->damaged = true;
  EXPECT_THAT(Retrieve(*engine_, Ask({"d"}, "the whale")),
              StatusIs(StatusCode::kDataLoss, "document \"d\""));
  EXPECT_EQ(engine_->stats().data_loss_errors, 3);
}

TEST_F(TextDocumentsTest, RetrievalIsARequestLikeAnyOther) {
  ASSERT_THAT(Ingest(*engine_, "d", SampleText(3000, 1)), IsOk());
  RetrieveRequest late = Ask({"d"}, "whale");
  late.deadline = SteadyNow() - absl::Seconds(1);
  EXPECT_THAT(Retrieve(*engine_, late), StatusIs(StatusCode::kDeadlineExceeded, ""));
  RetrieveRequest random = Ask({"d"}, "whale");
  random.session_options.random_chunks = true;
  EXPECT_THAT(Retrieve(*engine_, random),
              StatusIs(StatusCode::kFailedPrecondition, "random_chunks"));
  EXPECT_THAT(Retrieve(*engine_, Ask({"d"}, "")), StatusIs(StatusCode::kInvalidArgument, "query"));
  const auto account = std::make_shared<access::Account>(
      access::Key{"ci", "", access::Right::kFull, "", {.tokens_per_minute = 5}});
  RetrieveRequest paid = Ask({"d"}, "the white whale and the captain of the ship");
  paid.account = account;
  EXPECT_THAT(Retrieve(*engine_, paid), IsOk());
  EXPECT_THAT(Retrieve(*engine_, paid), StatusIs(StatusCode::kResourceExhausted, "ci"));
  EXPECT_EQ(engine_->stats().steps, 0) << "no layer has run";
  EXPECT_EQ(engine_->stats().sessions, 0);
  engine_->Shutdown(absl::InfinitePast());
  EXPECT_THAT(Retrieve(*engine_, Ask({"d"}, "whale")), StatusIs(StatusCode::kUnavailable, ""));
}

TEST_F(TextDocumentsTest, SessionsMountSeveralAndBeginWithNone) {
  ASSERT_THAT(Ingest(*engine_, "a", SampleText(3000, 1)), IsOk());
  ASSERT_THAT(Ingest(*engine_, "b", SampleText(3000, 2)), IsOk());
  const auto session = engine_->OpenSession({.mounts = {"a", "b"}});
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(engine_->GetSession(*session)->positions, 0);
  EXPECT_THAT(engine_->GetSession(*session)->mounts, ElementsAre("a", "b"));
  EXPECT_THAT(engine_->OpenSession({.mounts = {"a", "a"}}),
              StatusIs(StatusCode::kInvalidArgument, "twice"));
}

TEST_F(TextDocumentsTest, AnotherBaseRefusesThemAndSaysWhatToDo) {
  auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
  {
    auto engine =
        MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), TextModelForTest());
    ASSERT_THAT(Ingest(*engine, "d", SampleText(3000, 1)), IsOk());
  }
  auto other =
      MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), TextModelForTest(2));
  for (const absl::Status& status :
       {other->OpenSession({.mounts = {"d"}}).status(), other->BeginIngest("d", false, {}).status(),
        other->ExportDocument("d").status()}) {
    EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition, "docs refresh"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(TextModelForTest()->fingerprint()));
    EXPECT_THAT(std::string(status.message()), HasSubstr(TextModelForTest(2)->fingerprint()));
  }
  EXPECT_EQ(*other->ReadText("d", 0, 100), SampleText(3000, 1).substr(0, 100));
}

}  // namespace
}  // namespace recollect::engine
