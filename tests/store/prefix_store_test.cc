// States of prefixes: written in parts ahead of the commit that makes them the state, in both
// implementations; what a cut write and a damaged part leave in RocksDB.
#include <functional>
#include <memory>
#include <string>

#include "store/format.h"
#include "store/rocks/db/database.h"
#include "store/rocks/rocks_store.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rocks {
namespace {

using ::absl::StatusCode;

constexpr char kPattern[] = "(window 8, dilation 4, initial 0, span unbounded)";

std::string State(uint64_t seed, int64_t bytes) {
  std::mt19937_64 random(seed);
  std::string state(static_cast<size_t>(bytes), '\0');
  for (char& c : state) c = static_cast<char>(random());
  return state;
}

absl::Status PutState(DocumentStore& store, OwnerId owner, const std::string& state) {
  for (int64_t i = 0; i < StateParts(static_cast<int64_t>(state.size())); ++i) {
    const absl::Status put = store.PutStatePart(
        owner, i, state.substr(static_cast<size_t>(i * kStatePartBytes), kStatePartBytes));
    if (!put.ok()) return put;
  }
  return absl::OkStatus();
}

IngestBatch WithState(const std::string& state) {
  IngestBatch batch;
  batch.tokens = {1, 2, 3};
  batch.text = "abc";
  batch.input_offset = 1000;
  batch.state_bytes = static_cast<int64_t>(state.size());
  return batch;
}

void ExpectState(DocumentStore& store, OwnerId owner, const std::string& state) {
  const int64_t parts = StateParts(static_cast<int64_t>(state.size()));
  std::string read;
  for (int64_t i = 0; i < parts; ++i) {
    const auto part = store.ReadStatePart(owner, i);
    ASSERT_THAT(part, IsOk());
    read += *part;
  }
  EXPECT_TRUE(read == state);
  for (const int64_t beyond : {int64_t{-1}, parts}) {
    EXPECT_THAT(store.ReadStatePart(owner, beyond),
                StatusIs(StatusCode::kOutOfRange, absl::StrCat("has ", parts)));
  }
}

class PrefixStoreTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    if (!GetParam()) {
      store_ = CreateMemoryStore();
      return;
    }
    RocksOptions options;
    options.directory = directory_.path();
    options.sync_commits = false;
    auto store = OpenRocksStore(options);
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  OwnerId Begin(const std::string& id) {
    const auto progress = store_->BeginIngest(id, "f", false, kPattern);
    EXPECT_THAT(progress, IsOk());
    return progress->owner;
  }

  TempDir directory_;
  std::unique_ptr<DocumentStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, PrefixStoreTest, testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "Rocks" : "Memory");
});

TEST_P(PrefixStoreTest, TheStateOfTheLastCommitIsTheState) {
  // Around the size of a part.
  for (const int64_t bytes :
       {int64_t{1}, kStatePartBytes - 1, kStatePartBytes, kStatePartBytes + 1}) {
    const std::string id = absl::StrCat("d", bytes);
    const OwnerId owner = Begin(id);
    ExpectState(*store_, owner, "");
    const std::string first = State(1, 3 * bytes), second = State(2, bytes), last = State(3, 2);
    ASSERT_THAT(PutState(*store_, owner, first), IsOk());
    ExpectState(*store_, owner, "");  // not yet
    ASSERT_THAT(store_->CommitIngest(owner, WithState(first)), IsOk());
    ExpectState(*store_, owner, first);
    ASSERT_THAT(PutState(*store_, owner, last), IsOk());
    ASSERT_THAT(PutState(*store_, owner, second), IsOk());  // in place of what was put before
    ExpectState(*store_, owner, first);
    ASSERT_THAT(store_->CommitIngest(owner, WithState(second)), IsOk());
    ExpectState(*store_, owner, second);
    ASSERT_THAT(store_->CommitIngest(owner, WithState("")), IsOk());  // keeps it
    ExpectState(*store_, owner, second);
    const auto resumed = store_->BeginIngest(id, "f", false, kPattern);
    ASSERT_THAT(resumed, IsOk());
    EXPECT_EQ(resumed->state_bytes, bytes);
    EXPECT_EQ(resumed->pattern, kPattern);
    ASSERT_THAT(PutState(*store_, owner, last), IsOk());
    const auto info = store_->PublishIngest(owner, WithState(last));
    ASSERT_THAT(info, IsOk());
    EXPECT_EQ(info->pattern, kPattern);
    EXPECT_EQ(info->state_bytes, 2);
    EXPECT_EQ(info->tokens, 12);
    EXPECT_EQ(info->chunks, 0);
    EXPECT_EQ(info->stored_bytes, 12 + 8 + 12 * 4 + 8 + 2 + 8);
    ExpectState(*store_, owner, last);
    if (GetParam()) {
      Open();
      EXPECT_EQ(store_->Get(id)->pattern, kPattern);
      ExpectState(*store_, owner, last);
    }
    ASSERT_THAT(store_->Remove(id), IsOk());
    ExpectState(*store_, owner, last);
    ASSERT_THAT(store_->Free(owner), IsOk());
    EXPECT_THAT(store_->ReadStatePart(owner, 0), StatusIs(StatusCode::kNotFound, ""));
  }
}

TEST_P(PrefixStoreTest, PartsOutOfOrderAndStatesThatWereNotPutAreRefused) {
  const OwnerId owner = Begin("d");
  const auto refused = [](const absl::Status& status, const char* fragment) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, fragment));
  };
  refused(store_->PutStatePart(owner, 1, "x"), "state part 1");
  refused(store_->PutStatePart(owner, -1, "x"), "state part -1");
  refused(store_->PutStatePart(owner, 0, ""), "of 0 bytes");
  refused(store_->PutStatePart(owner, 0, State(1, kStatePartBytes + 1)), "of 1048577 bytes");
  ASSERT_THAT(store_->PutStatePart(owner, 0, "short"), IsOk());
  refused(store_->PutStatePart(owner, 1, "x"), "after 5 bytes");
  refused(store_->CommitIngest(owner, WithState("longer")), "a state of 6 bytes, of which 5");
  IngestBatch chunks = NextBatch({.seed = 1}, 1, 1, 1);
  refused(store_->CommitIngest(owner, chunks), "1 chunks");
  const OwnerId other = store_->BeginIngest("chunks", "f", false, "")->owner;
  refused(store_->PutStatePart(other, 0, "x"), "a document of chunks");
  EXPECT_THAT(store_->PutStatePart(OwnerId{99999}, 0, "x"),
              StatusIs(StatusCode::kNotFound, "99999"));
}

TEST_P(PrefixStoreTest, AnotherPatternIsRefusedNamingBoth) {
  Begin("d");
  const auto other = store_->BeginIngest("d", "f", false, "(window 9)");
  EXPECT_THAT(other, StatusIs(StatusCode::kFailedPrecondition, kPattern));
  EXPECT_THAT(other, StatusIs(StatusCode::kFailedPrecondition, "(window 9)"));
  EXPECT_THAT(store_->BeginIngest("d", "f", false, ""),
              StatusIs(StatusCode::kFailedPrecondition, "a document of chunks"));
  EXPECT_EQ(store_->ListIngests()->front().pattern, kPattern);
}

class RocksPrefixTest : public PrefixStoreTest {};
INSTANTIATE_TEST_SUITE_P(Rocks, RocksPrefixTest, testing::Values(true),
                         [](const auto&) { return std::string("Rocks"); });

TEST_P(RocksPrefixTest, ACutWriteLeavesTheStateOfTheLastCommit) {
  const OwnerId owner = Begin("d");
  const std::string first = State(1, kStatePartBytes + 7), cut = State(2, 3 * kStatePartBytes);
  ASSERT_THAT(PutState(*store_, owner, first), IsOk());
  ASSERT_THAT(store_->CommitIngest(owner, WithState(first)), IsOk());
  ASSERT_THAT(PutState(*store_, owner, cut), IsOk());
  Open();  // without the commit
  ExpectState(*store_, owner, first);
  EXPECT_THAT(store_->Get("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(store_->CommitIngest(owner, WithState(cut)),
              StatusIs(StatusCode::kInvalidArgument, "of which 0"));
  // A shorter state over the parts of the cut one, which go with the commit.
  const std::string next = State(3, 10);
  ASSERT_THAT(PutState(*store_, owner, next), IsOk());
  ASSERT_THAT(store_->PublishIngest(owner, WithState(next)), IsOk());
  ExpectState(*store_, owner, next);
  store_.reset();
  auto database = Database::Open({.directory = directory_.path()}, nullptr);
  ASSERT_THAT(database, IsOk());
  int records = 0;
  ASSERT_THAT((*database)->Scan(Family::kChunks, "", "",
                                [&](absl::string_view, absl::string_view) { return ++records; }),
              IsOk());
  EXPECT_EQ(records, 1);
}

TEST_P(RocksPrefixTest, ADamagedPartCostsThatPrefixOnly) {
  const std::string state = State(1, 2 * kStatePartBytes);
  const OwnerId owner = Begin("damaged"), other = Begin("sound");
  for (const OwnerId id : {owner, other}) {
    ASSERT_THAT(PutState(*store_, id, state), IsOk());
    ASSERT_THAT(store_->PublishIngest(id, WithState(state)), IsOk());
  }
  const auto damage = [&](const std::function<void(std::string&)>& change) {
    store_.reset();
    auto database = Database::Open({.directory = directory_.path()}, nullptr);
    ASSERT_THAT(database, IsOk());
    const std::string key = PieceKey(owner, 1);
    std::string record = *(*database)->Get(Family::kChunks, key, "record");
    change(record);
    Batch batch;
    if (record.empty()) {
      batch.Delete(Family::kChunks, key);
    } else {
      batch.Put(Family::kChunks, key, record);
    }
    ASSERT_THAT((*database)->Write(batch, "damage"), IsOk());
    database->reset();
    Open();
  };
  const auto expect = [&](const char* fragment) {
    EXPECT_THAT(store_->ReadStatePart(owner, 0), IsOk());
    EXPECT_THAT(store_->ReadStatePart(owner, 1), StatusIs(StatusCode::kDataLoss, "state part 1"));
    EXPECT_THAT(store_->ReadStatePart(owner, 1), StatusIs(StatusCode::kDataLoss, fragment));
    ExpectState(*store_, other, state);
  };
  damage([](std::string& record) { record[500000] ^= 1; });
  expect("checksum");
  damage([&](std::string& record) { record = EncodeState(PieceKey(owner, 1), "short"); });
  expect("5 entries, expected 1048576");
  damage([](std::string& record) { record.clear(); });
  expect("missing");
}

}  // namespace
}  // namespace recollect::store::rocks
