// Documents that replace others, in every implementation of DocumentStore.
#include "store/document_store.h"
#include "tests/store/document_store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;

// A refresh: the document is there as it was until the new one is whole, and then it is that one.
class RefreshTest : public DocumentStoreTest {
 protected:
  void SetUp() override {
    DocumentStoreTest::SetUp();
    const auto info = Ingest(*store_, "d", &old_, 2, 3, 40, 300);
    ASSERT_THAT(info, IsOk());
    document_ = *info;
  }
  IngestProgress Begin() {
    const auto progress = store_->BeginRefresh(document_, "new", "");
    EXPECT_THAT(progress, IsOk());
    return *progress;
  }
  void Commit(const IngestProgress& progress) {
    const IngestBatch batch = NextBatch(new_, 2, 30, 100);
    ASSERT_THAT(store_->CommitIngest(progress.owner, batch), IsOk());
    Append(&new_, batch);
  }
  // The last commit of one that has nothing more to say.
  IngestBatch End() const {
    IngestBatch batch;
    batch.input_offset = new_.input_offset;
    return batch;
  }
  Content old_{.seed = 31}, new_{.seed = 32, .width = 0, .d_k = 0};
  DocumentInfo document_;
};

INSTANTIATE_TEST_SUITE_P(Stores, RefreshTest, testing::ValuesIn(kImplementations), NameOf);

TEST_P(RefreshTest, ReplacesTheDocumentAtOnce) {
  const IngestProgress begun = Begin();
  EXPECT_NE(begun.owner, document_.owner);
  EXPECT_EQ(begun.replaces, document_.owner);
  Commit(begun);
  EXPECT_EQ(store_->Get("d")->owner, document_.owner);
  EXPECT_EQ(store_->List("", 10)->size(), 1u);
  EXPECT_EQ(store_->ListIngests()->at(0).replaces, document_.owner);
  ExpectContent(*store_, document_.owner, old_);
  const IngestBatch last = NextBatch(new_, 1, 5, 7);
  const auto info = store_->PublishIngest(begun.owner, last);
  ASSERT_THAT(info, IsOk());
  Append(&new_, last);
  EXPECT_EQ(info->fingerprint, "new");
  EXPECT_EQ(info->created_unix_ms, document_.created_unix_ms);
  EXPECT_EQ(info->kind(), DocumentKind::kText);
  EXPECT_EQ(store_->Get("d")->owner, begun.owner);
  EXPECT_EQ(store_->List("", 10)->size(), 1u);
  EXPECT_THAT(*store_->ListIngests(), testing::IsEmpty());
  // Whoever still reads the old one can, until it is freed.
  ExpectContent(*store_, document_.owner, old_);
  ASSERT_THAT(store_->Free(document_.owner), IsOk());
  EXPECT_THAT(store_->ReadText(document_.owner, 0, 1), StatusIs(StatusCode::kNotFound, ""));
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->Get("d")->fingerprint, "new");
  ExpectContent(*store_, begun.owner, new_);
}

TEST_P(RefreshTest, KeepsTheMetadataUnlessItBringsOther) {
  const auto set = [this](const char* metadata) {
    ASSERT_THAT(store_->ChangeMetadata("d", [&](const std::string&) { return metadata; }), IsOk());
  };
  set(R"({"a":1})");
  const IngestProgress begun = Begin();
  set(R"({"a":2})");  // while it is read again
  ASSERT_THAT(store_->PublishIngest(begun.owner, End()), IsOk());
  EXPECT_EQ(store_->Get("d")->metadata, R"({"a":2})");
  document_ = *store_->Get("d");
  for (const char* metadata : {R"({"b":3})", ""}) {
    const auto progress = store_->BeginRefresh(document_, "newer", "");
    ASSERT_THAT(progress, IsOk());
    IngestBatch last;
    last.metadata = metadata;
    ASSERT_THAT(store_->PublishIngest(progress->owner, last), IsOk());
    if (GetParam().reopens) Open();
    document_ = *store_->Get("d");
    EXPECT_EQ(document_.metadata, metadata);
  }
}

TEST_P(RefreshTest, IsResumedAfterTheStoreWasClosed) {
  const IngestProgress begun = Begin();
  Commit(begun);
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->Get("d")->owner, document_.owner);
  const IngestProgress again = Begin();
  EXPECT_EQ(again.owner, begun.owner);
  EXPECT_EQ(again.replaces, document_.owner);
  EXPECT_EQ(again.bytes, 100);
  EXPECT_EQ(again.resume_state, new_.resume_state);
  ASSERT_THAT(store_->PublishIngest(again.owner, End()), IsOk());
  // One that was replaced and not freed goes with the next opening.
  if (GetParam().reopens) {
    Open();
    EXPECT_THAT(store_->ReadText(document_.owner, 0, 1), StatusIs(StatusCode::kNotFound, ""));
  }
  ExpectContent(*store_, begun.owner, new_);
}

TEST_P(RefreshTest, AnAppendPointIsKeptWithItsDocument) {
  EXPECT_THAT(store_->ReadAppendPoint(document_.owner), StatusIs(StatusCode::kNotFound, "append"));
  const IngestProgress begun = Begin();
  Commit(begun);
  EXPECT_THAT(store_->ReadAppendPoint(begun.owner), StatusIs(StatusCode::kNotFound, "append"));
  IngestBatch last = End();
  last.append_point = std::string("\0point", 6);
  ASSERT_THAT(store_->PublishIngest(begun.owner, last), IsOk());
  EXPECT_EQ(store_->ReadAppendPoint(begun.owner).value(), last.append_point);
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->ReadAppendPoint(begun.owner).value(), last.append_point);
  const auto removed = store_->Remove("d");
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(store_->ReadAppendPoint(begun.owner).value(), last.append_point) << "until it is freed";
  ASSERT_THAT(store_->Free(begun.owner), IsOk());
  EXPECT_THAT(store_->ReadAppendPoint(begun.owner), StatusIs(StatusCode::kNotFound, ""));
}

TEST_P(RefreshTest, IsNotMixedUpWithAnIngest) {
  EXPECT_THAT(store_->BeginIngest("d", "new", false, ""),
              StatusIs(StatusCode::kAlreadyExists, "d"));
  Begin();
  EXPECT_THAT(store_->BeginIngest("d", "new", false, ""),
              StatusIs(StatusCode::kAlreadyExists, "d"));
  EXPECT_THAT(store_->BeginRefresh(document_, "other", ""),
              StatusIs(StatusCode::kFailedPrecondition, "fingerprint new, asked for other"));
  ASSERT_THAT(store_->AbandonIngest("d"), IsOk());
  ExpectContent(*store_, document_.owner, old_);
  const auto other = store_->BeginRefresh(document_, "other", "");
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(other->bytes, 0);
}

TEST_P(RefreshTest, OfADocumentThatHasGonePublishesNothing) {
  const IngestProgress begun = Begin();
  Commit(begun);
  ASSERT_THAT(store_->Remove("d"), IsOk());
  EXPECT_THAT(store_->BeginRefresh(document_, "new", ""), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(store_->PublishIngest(begun.owner, End()), StatusIs(StatusCode::kAborted, "removed"));
  EXPECT_THAT(store_->Get("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(store_->BeginIngest("d", "new", false, ""),
              StatusIs(StatusCode::kFailedPrecondition, "a refresh of owner"));
  ASSERT_THAT(store_->AbandonIngest("d"), IsOk());
  // Another document of that name is none of its business.
  Content content{.seed = 33};
  ASSERT_THAT(Ingest(*store_, "d", &content, 1, 1, 10, 10), IsOk());
  EXPECT_THAT(store_->BeginRefresh(document_, "new", ""), StatusIs(StatusCode::kNotFound, "d"));
}

}  // namespace
}  // namespace recollect::store
