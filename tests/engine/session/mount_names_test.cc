// Wildcards of mounts, and documents that go while they are being mounted.
#include "engine/session/mount_names.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;

// Somebody deletes documents of it right after it has listed them.
class DeletingAfterList final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::StatusOr<std::vector<store::DocumentInfo>> List(const std::string& after,
                                                        int64_t limit) override {
    auto listed = ForwardingStore::List(after, limit);
    for (const std::string& id : std::exchange(deleted_next, {})) EXPECT_THAT(Remove(id), IsOk());
    return listed;
  }
  std::vector<std::string> deleted_next;
};

// Lists so many documents, which nobody has ingested.
class ManyListed final : public ForwardingStore {
 public:
  explicit ManyListed(int64_t count)
      : ForwardingStore(std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore())),
        count_(count) {}
  absl::StatusOr<std::vector<store::DocumentInfo>> List(const std::string& after,
                                                        int64_t limit) override {
    std::vector<store::DocumentInfo> page;
    for (int64_t i = 0; i < count_ && std::ssize(page) < limit; ++i) {
      store::DocumentInfo document;
      document.id = absl::StrFormat("many/%05d", i);
      if (document.id > after) page.push_back(std::move(document));
    }
    return page;
  }

 private:
  const int64_t count_;
};

class MountNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = std::make_unique<DeletingAfterList>(
        std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore()));
    store_ = store.get();
    engine_ = MakeEngine(SmallOptions(), std::move(store));
    for (const char* id : {"notes/april", "notes/june", "notes/may", "other"})
      ASSERT_THAT(IngestTokens(*engine_, id, {5, 6, 7}), IsOk());
  }
  std::vector<std::string> MountsOf(std::vector<std::string> names) {
    const auto session = engine_->OpenSession({.mounts = std::move(names)});
    EXPECT_THAT(session, IsOk());
    if (!session.ok()) return {};
    return engine_->GetSession(*session)->mounts;
  }

  std::unique_ptr<EngineImpl> engine_;
  DeletingAfterList* store_ = nullptr;
};

TEST_F(MountNamesTest, WhatIsDeletedBeforeAWildcardIsMountedIsLeftOut) {
  store_->deleted_next = {"notes/june"};
  EXPECT_THAT(MountsOf({"notes/*"}), ElementsAre("notes/april", "notes/may"));
  store_->deleted_next = {"notes/april"};
  EXPECT_THAT(Retrieve(*engine_, RetrieveOf({5}, {"other", "notes/*"})), IsOk());
  EXPECT_THAT(MountsOf({"*"}), ElementsAre("notes/may", "other"));
}

TEST_F(MountNamesTest, AThousandDocumentsAreMountedTogether) {
  std::vector<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(absl::StrFormat("many/%03d", i));
  for (const std::string& id : ids) ASSERT_THAT(IngestTokens(*engine_, id, {5, 6, 7}), IsOk());
  EXPECT_EQ(MountsOf({"many/*"}), ids);
  const auto retrieved = Retrieve(*engine_, RetrieveOf({5}, ids));
  ASSERT_THAT(retrieved, IsOk());
  EXPECT_EQ(retrieved->front().candidates, 1000);
}

TEST(ExpandMountsTest, WhatWildcardsStandForIsBounded) {
  ManyListed most(kMaxMounts), more(kMaxMounts + 1);
  const auto expanded = ExpandMounts(most, {.mounts = {"many/*"}});
  ASSERT_THAT(expanded, IsOk());
  EXPECT_EQ(std::ssize(*expanded), 16384);
  EXPECT_THAT(ExpandMounts(more, {.mounts = {"many/*"}}),
              StatusIs(StatusCode::kInvalidArgument,
                       "mounts: 16385 documents or more, at most 16384 can be mounted"));
  EXPECT_THAT(ExpandMounts(most, {.mounts = {"one", "many/*"}}),
              StatusIs(StatusCode::kInvalidArgument, "mounts: 16385 documents"));
}

TEST_F(MountNamesTest, ADocumentThatIsNamedHasToBeThere) {
  store_->deleted_next = {"other"};
  EXPECT_THAT(engine_->OpenSession({.mounts = {"other", "notes/*"}}),
              StatusIs(StatusCode::kNotFound, "'other'"));
}

TEST_F(MountNamesTest, AWildcardOfWhichNothingIsLeftIsNotFound) {
  store_->deleted_next = {"notes/april", "notes/june", "notes/may"};
  EXPECT_THAT(engine_->OpenSession({.mounts = {"notes/*"}}),
              StatusIs(StatusCode::kNotFound, "no document has an id that begins"));
}

}  // namespace
}  // namespace recollect::engine
