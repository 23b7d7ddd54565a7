// One suite over every implementation of DocumentStore.
#include "store/document_store.h"

#include <limits>
#include <thread>

#include "tests/store/document_store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;

INSTANTIATE_TEST_SUITE_P(Stores, DocumentStoreTest, testing::ValuesIn(kImplementations), NameOf);

TEST_P(DocumentStoreTest, PublishedDocumentIsWholeAndInTheCatalog) {
  Content content{.seed = 1};
  const auto info = Ingest(*store_, "book", &content, 3, 5, 300, 1000);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->id, "book");
  EXPECT_EQ(info->fingerprint, "fingerprint");
  EXPECT_EQ(info->bytes, 3000);
  EXPECT_EQ(info->tokens, 900);
  EXPECT_EQ(info->chunks, 15);
  EXPECT_GT(info->created_unix_ms, 0);
  EXPECT_EQ(info->sha256.size(), 64);
  const auto got = store_->Get("book");
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->owner, info->owner);
  EXPECT_EQ(got->sha256, info->sha256);
  EXPECT_EQ(got->stored_bytes, info->stored_bytes);
  EXPECT_GE(info->stored_bytes, 3000 + 900 * 4 + 15 * 4 * 2);
  ExpectContent(*store_, info->owner, content);
  EXPECT_THAT(*store_->ListIngests(), testing::IsEmpty());
  EXPECT_GT(store_->state().bytes, 0);
}

TEST_P(DocumentStoreTest, Sha256IsOfTheText) {
  const auto progress = store_->BeginIngest("abc", "f", false, "");
  ASSERT_THAT(progress, IsOk());
  IngestBatch batch;
  batch.text = "a";
  ASSERT_THAT(store_->CommitIngest(progress->owner, batch), IsOk());
  batch.text = "bc";
  const auto info = store_->PublishIngest(progress->owner, batch);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_P(DocumentStoreTest, MetadataIsPublishedAndChanged) {
  const auto progress = store_->BeginIngest("d", "f", false, "");
  ASSERT_THAT(progress, IsOk());
  IngestBatch last;
  last.text = "text";
  last.metadata = R"({"year":1851})";
  const auto info = store_->PublishIngest(progress->owner, last);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->metadata, R"({"year":1851})");
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->Get("d")->metadata, R"({"year":1851})");
  const auto changed = store_->ChangeMetadata("d", [](const std::string& metadata) {
    EXPECT_EQ(metadata, R"({"year":1851})");
    return R"({"lang":"en"})";
  });
  ASSERT_THAT(changed, IsOk());
  EXPECT_EQ(changed->metadata, R"({"lang":"en"})");
  EXPECT_EQ(changed->owner, info->owner);
  EXPECT_EQ(changed->created_unix_ms, info->created_unix_ms);
  EXPECT_THAT(store_->ChangeMetadata(
                  "d", [](const std::string&) { return absl::InvalidArgumentError("key \"k\""); }),
              StatusIs(StatusCode::kInvalidArgument, "key \"k\""));
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->List("", 10)->at(0).metadata, R"({"lang":"en"})");
  EXPECT_EQ(*store_->ReadText(info->owner, 0, 4), "text");
  const auto none = [](const std::string&) { return std::string(); };
  EXPECT_EQ(store_->ChangeMetadata("d", none)->metadata, "");
  EXPECT_EQ(store_->ChangeMetadata("d", none)->metadata, "");
  if (GetParam().reopens) Open();
  EXPECT_EQ(store_->Get("d")->metadata, "");
  EXPECT_THAT(store_->ChangeMetadata("e", none), StatusIs(StatusCode::kNotFound, "e"));
  // One of the same name is another document.
  ASSERT_THAT(store_->ChangeMetadata("d", [](const std::string&) { return R"({"a":1})"; }), IsOk());
  ASSERT_THAT(store_->Remove("d"), IsOk());
  EXPECT_THAT(store_->ChangeMetadata("d", none), StatusIs(StatusCode::kNotFound, "d"));
  const auto other = store_->BeginIngest("d", "f", false, "");
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(store_->ChangeMetadata("d", none), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_EQ(store_->PublishIngest(other->owner, IngestBatch())->metadata, "");
}

TEST_P(DocumentStoreTest, EmptyDocument) {
  const auto progress = store_->BeginIngest("empty", "f", true, "");
  ASSERT_THAT(progress, IsOk());
  const auto info = store_->PublishIngest(progress->owner, IngestBatch());
  ASSERT_THAT(info, IsOk());
  EXPECT_TRUE(info->from_tokens);
  EXPECT_EQ(info->bytes + info->chunks + info->tokens + info->stored_bytes, 0);
  EXPECT_EQ(*store_->ReadText(info->owner, 0, 0), "");
  EXPECT_THAT(*store_->ReadLandmarkKeys(info->owner, 0, 64), testing::IsEmpty());
}

TEST_P(DocumentStoreTest, PiecesMeetAtTheirBorders) {
  // One piece of text is 65536 bytes, of tokens 16384, of landmarks 1024: below, at and above.
  for (const int64_t extra : {-1, 0, 1}) {
    Content content{.seed = 2, .width = 1, .d_k = 2};
    const std::string id = absl::StrCat("d", extra);
    const auto info = Ingest(*store_, id, &content, 2, 1024 + extra, 16384 + extra, 65536 + extra);
    ASSERT_THAT(info, IsOk());
    ExpectContent(*store_, info->owner, content);
    for (const int64_t begin : {0, 1, 65535, 65536, 65537, 131000}) {
      for (const int64_t n : {0, 1, 2, 70, 65536}) {
        const int64_t end = std::min(begin + n, info->bytes);
        const auto text = store_->ReadText(info->owner, begin, end);
        ASSERT_THAT(text, IsOk());
        EXPECT_EQ(*text, content.text.substr(begin, end - begin));
      }
    }
    const auto tokens = store_->ReadTokens(info->owner, 16380, 16390);
    ASSERT_THAT(tokens, IsOk());
    EXPECT_TRUE(std::equal(tokens->begin(), tokens->end(), content.tokens.begin() + 16380));
    EXPECT_THAT(store_->ReadLandmarkKeys(info->owner, 10, 3), StatusIs(StatusCode::kDataLoss, "3"));
    std::vector<Bf16> keys(30);
    EXPECT_THAT(store_->FillLandmarkKeys(info->owner, 10, 3, keys.data()),
                StatusIs(StatusCode::kDataLoss, "3"));
  }
}

TEST_P(DocumentStoreTest, RangesBeyondTheEndNameBothSizes) {
  Content content{.seed = 3};
  const auto info = Ingest(*store_, "d", &content, 1, 2, 10, 20);
  ASSERT_THAT(info, IsOk());
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const OwnerId owner = info->owner;
  EXPECT_THAT(store_->ReadText(owner, 0, 21), StatusIs(StatusCode::kOutOfRange, "[0, 21)"));
  EXPECT_THAT(store_->ReadText(owner, 0, 21), StatusIs(StatusCode::kOutOfRange, "20"));
  EXPECT_THAT(store_->ReadText(owner, -1, 2), StatusIs(StatusCode::kOutOfRange, "-1"));
  EXPECT_THAT(store_->ReadText(owner, 5, 4), StatusIs(StatusCode::kOutOfRange, ""));
  EXPECT_THAT(store_->ReadText(owner, 0, kHuge), StatusIs(StatusCode::kOutOfRange, ""));
  EXPECT_THAT(store_->ReadTokens(owner, 0, kHuge), StatusIs(StatusCode::kOutOfRange, "10"));
  EXPECT_THAT(store_->ReadLandmarkKeys(owner, kHuge, 4), StatusIs(StatusCode::kOutOfRange, "2"));
  EXPECT_THAT(store_->FillLandmarkKeys(owner, kHuge, 4, nullptr),
              StatusIs(StatusCode::kOutOfRange, "2"));
  const ChunkRef refs[] = {{owner, 0}, {owner, 2}, {owner, -1}, {owner, 1}, {OwnerId{999999}, 0}};
  const auto chunks = store_->ReadChunks(refs);
  ASSERT_EQ(chunks.size(), 5);
  EXPECT_TRUE(chunks[0].ok() && *chunks[0] == content.chunks[0]);
  EXPECT_THAT(chunks[1], StatusIs(StatusCode::kNotFound, "chunk 2"));
  EXPECT_THAT(chunks[2], StatusIs(StatusCode::kNotFound, "chunk -1"));
  EXPECT_TRUE(chunks[3].ok() && *chunks[3] == content.chunks[1]);
  EXPECT_THAT(chunks[4], StatusIs(StatusCode::kNotFound, "999999"));
  EXPECT_THAT(store_->ReadText(OwnerId{999999}, 0, 0), StatusIs(StatusCode::kNotFound, "999999"));
}

TEST_P(DocumentStoreTest, SameChunkAskedTwice) {
  Content content{.seed = 4};
  const auto info = Ingest(*store_, "d", &content, 1, 3, 0, 0);
  ASSERT_THAT(info, IsOk());
  const ChunkRef refs[] = {{info->owner, 2}, {info->owner, 0}, {info->owner, 2}};
  const auto chunks = store_->ReadChunks(refs);
  EXPECT_TRUE(*chunks[0] == content.chunks[2]);
  EXPECT_TRUE(*chunks[1] == content.chunks[0]);
  EXPECT_TRUE(*chunks[2] == content.chunks[2]);
  EXPECT_THAT(store_->ReadChunks({}), testing::IsEmpty());
}

TEST_P(DocumentStoreTest, BeginResumesOrRefuses) {
  Content content{.seed = 5};
  const auto first = store_->BeginIngest("d", "f1", false, "");
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->resume_state, "");
  const IngestBatch batch = NextBatch(content, 2, 20, 30);
  ASSERT_THAT(store_->CommitIngest(first->owner, batch), IsOk());
  Append(&content, batch);
  const auto again = store_->BeginIngest("d", "f1", false, "");
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->owner, first->owner);
  EXPECT_EQ(again->resume_state, batch.resume_state);
  EXPECT_EQ(again->input_offset, batch.input_offset);
  EXPECT_EQ(again->chunks, 2);
  EXPECT_EQ(again->bytes, 30);
  EXPECT_EQ(again->tokens, 20);
  EXPECT_THAT(store_->BeginIngest("d", "f2", false, ""),
              StatusIs(StatusCode::kFailedPrecondition, "f1"));
  EXPECT_THAT(store_->BeginIngest("d", "f2", false, ""),
              StatusIs(StatusCode::kFailedPrecondition, "f2"));
  EXPECT_THAT(store_->BeginIngest("d", "f1", true, ""),
              StatusIs(StatusCode::kFailedPrecondition, "token ids"));
  const auto list = store_->ListIngests();
  ASSERT_EQ(list->size(), 1);
  EXPECT_EQ((*list)[0].id, "d");
  EXPECT_EQ((*list)[0].input_offset, batch.input_offset);
  EXPECT_EQ((*list)[0].resume_state, "");
  EXPECT_THAT(store_->Get("d"), StatusIs(StatusCode::kNotFound, "d"));
  ExpectContent(*store_, first->owner, content);
  IngestBatch last;
  last.input_offset = batch.input_offset;
  ASSERT_THAT(store_->PublishIngest(first->owner, last), IsOk());
  EXPECT_THAT(store_->BeginIngest("d", "f1", false, ""), StatusIs(StatusCode::kAlreadyExists, "d"));
  EXPECT_THAT(store_->CommitIngest(first->owner, batch), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(store_->PublishIngest(first->owner, batch), StatusIs(StatusCode::kNotFound, ""));
}

TEST_P(DocumentStoreTest, BadIds) {
  EXPECT_THAT(store_->BeginIngest("", "f", false, ""),
              StatusIs(StatusCode::kInvalidArgument, "empty"));
  EXPECT_THAT(store_->BeginIngest(std::string(1025, 'x'), "f", false, ""),
              StatusIs(StatusCode::kInvalidArgument, "1025"));
  EXPECT_THAT(store_->BeginIngest(std::string("a\0b", 3), "f", false, ""),
              StatusIs(StatusCode::kInvalidArgument, "NUL"));
  EXPECT_THAT(store_->BeginIngest("Ünïcödé / with spaces", "f", false, ""), IsOk());
}

TEST_P(DocumentStoreTest, ContradictoryBatchesChangeNothing) {
  Content content{.seed = 6};
  const auto progress = store_->BeginIngest("d", "f", false, "");
  ASSERT_THAT(progress, IsOk());
  const OwnerId owner = progress->owner;
  IngestBatch good = NextBatch(content, 2, 3, 4);
  good.chunks[1] = MakeChunk(6, 1, content.width, kMaxChunkTokens);
  ASSERT_THAT(store_->CommitIngest(owner, good), IsOk());
  Append(&content, good);
  const auto refused = [&](auto change, const char* fragment) {
    IngestBatch bad = NextBatch(content, 2, 3, 4);
    change(bad);
    EXPECT_THAT(store_->CommitIngest(owner, bad), StatusIs(StatusCode::kInvalidArgument, fragment));
    EXPECT_THAT(store_->PublishIngest(owner, bad),
                StatusIs(StatusCode::kInvalidArgument, fragment));
  };
  refused([](IngestBatch& b) { b.chunks[1].rows = 65; }, "chunk 3: 65 rows");
  refused([](IngestBatch& b) { b.chunks[0].rows = 0; }, "chunk 2: 0 rows");
  refused([](IngestBatch& b) { b.chunks[0].states.pop_back(); }, "chunk 2");
  refused([](IngestBatch& b) { b.chunks[0] = MakeChunk(1, 1, 9); }, "expected width 8");
  refused([](IngestBatch& b) { b.chunks[0].text_end = -1; }, "text range");
  refused([](IngestBatch& b) { b.landmark_keys.pop_back(); }, "7 landmark numbers for 2 chunks");
  refused([](IngestBatch& b) { b.landmark_keys.clear(); }, "0 landmark numbers");
  refused([](IngestBatch& b) { b.chunks.clear(); }, "0 chunks");
  refused([](IngestBatch& b) { b.input_offset = 1; }, "input offset 1");
  ExpectContent(*store_, owner, content);
  EXPECT_EQ(store_->BeginIngest("d", "f", false, "")->chunks, 2);
}

TEST_P(DocumentStoreTest, ListPages) {
  for (const char* id : {"b", "a", "ab", "c", "B"}) {
    const auto progress = store_->BeginIngest(id, "f", false, "");
    ASSERT_THAT(store_->PublishIngest(progress->owner, IngestBatch()), IsOk());
  }
  const auto ids = [&](const std::string& after, int64_t limit) {
    std::vector<std::string> out;
    const auto page = store_->List(after, limit);
    EXPECT_THAT(page, IsOk());
    for (const DocumentInfo& info : *page) out.push_back(info.id);
    return out;
  };
  EXPECT_THAT(ids("", 10), testing::ElementsAre("B", "a", "ab", "b", "c"));
  EXPECT_THAT(ids("", 2), testing::ElementsAre("B", "a"));
  EXPECT_THAT(ids("a", 2), testing::ElementsAre("ab", "b"));
  EXPECT_THAT(ids("aa", 10), testing::ElementsAre("ab", "b", "c"));
  EXPECT_THAT(ids("c", 10), testing::IsEmpty());
  EXPECT_THAT(ids("", 0), testing::IsEmpty());
  EXPECT_THAT(ids("", -5), testing::IsEmpty());
}

TEST_P(DocumentStoreTest, RemovedStaysReadableUntilFreed) {
  Content content{.seed = 7};
  const auto info = Ingest(*store_, "d", &content, 1, 4, 10, 100);
  ASSERT_THAT(info, IsOk());
  EXPECT_THAT(store_->Free(info->owner), StatusIs(StatusCode::kFailedPrecondition, "in use"));
  const auto removed = store_->Remove("d");
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(removed->owner, info->owner);
  EXPECT_THAT(store_->Get("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(store_->Remove("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(*store_->List("", 10), testing::IsEmpty());
  ExpectContent(*store_, info->owner, content);
  // The name is free again while the old owner is still read.
  Content second{.seed = 8};
  const auto next = Ingest(*store_, "d", &second, 2, 3, 10, 100);
  ASSERT_THAT(next, IsOk());
  EXPECT_NE(next->owner, info->owner);
  ExpectContent(*store_, info->owner, content);
  EXPECT_THAT(store_->Free(info->owner), IsOk());
  EXPECT_THAT(store_->Free(info->owner), IsOk());
  EXPECT_THAT(store_->ReadText(info->owner, 0, 0), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(store_->ReadChunks(AllChunks(info->owner, 1))[0],
              StatusIs(StatusCode::kNotFound, ""));
  ExpectContent(*store_, next->owner, second);
}

TEST_P(DocumentStoreTest, AbandonedIngestIsGone) {
  Content content{.seed = 9};
  const auto progress = store_->BeginIngest("d", "f", false, "");
  ASSERT_THAT(store_->CommitIngest(progress->owner, NextBatch(content, 3, 3, 3)), IsOk());
  EXPECT_THAT(store_->Free(progress->owner), StatusIs(StatusCode::kFailedPrecondition, ""));
  EXPECT_THAT(store_->AbandonIngest("d"), IsOk());
  EXPECT_THAT(store_->AbandonIngest("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(store_->Free(progress->owner), IsOk());
  EXPECT_THAT(store_->CommitIngest(progress->owner, IngestBatch()),
              StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(store_->ReadText(progress->owner, 0, 0), StatusIs(StatusCode::kNotFound, ""));
  const auto again = store_->BeginIngest("d", "other", true, "");
  ASSERT_THAT(again, IsOk());
  EXPECT_NE(again->owner, progress->owner);
  EXPECT_EQ(again->chunks, 0);
}

TEST_P(DocumentStoreTest, SessionChunks) {
  const auto a = store_->NewSessionOwner();
  const auto b = store_->NewSessionOwner();
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_NE(*a, *b);
  for (int64_t i = 0; i < 5; ++i) {
    ASSERT_THAT(store_->PutSessionChunk({*a, i}, MakeChunk(1, i)), IsOk());
    ASSERT_THAT(store_->PutSessionChunk({*b, i}, MakeChunk(2, i)), IsOk());
  }
  Content content{.seed = 10};
  const auto info = Ingest(*store_, "d", &content, 1, 2, 0, 0);
  // One batch over documents and sessions.
  const ChunkRef refs[] = {{*b, 4}, {info->owner, 1}, {*a, 0}, {*a, 5}};
  const auto chunks = store_->ReadChunks(refs);
  EXPECT_TRUE(*chunks[0] == MakeChunk(2, 4));
  EXPECT_TRUE(*chunks[1] == content.chunks[1]);
  EXPECT_TRUE(*chunks[2] == MakeChunk(1, 0));
  EXPECT_THAT(chunks[3], StatusIs(StatusCode::kNotFound, "chunk 5"));
  EXPECT_THAT(store_->PutSessionChunk({info->owner, 0}, MakeChunk(1, 0)),
              StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(store_->PutSessionChunk({*a, 7}, ChunkRecord()),
              StatusIs(StatusCode::kInvalidArgument, "0 rows"));
  EXPECT_THAT(store_->FreeSession(info->owner), StatusIs(StatusCode::kFailedPrecondition, ""));
  EXPECT_THAT(store_->FreeSession(*a), IsOk());
  EXPECT_THAT(store_->FreeSession(*a), IsOk());
  EXPECT_THAT(store_->ReadChunks(refs)[2], StatusIs(StatusCode::kNotFound, ""));
  EXPECT_TRUE(store_->ReadChunks(refs)[0].ok());
  EXPECT_THAT(store_->PutSessionChunk({*a, 0}, MakeChunk(1, 0)),
              StatusIs(StatusCode::kNotFound, ""));
}

TEST_P(DocumentStoreTest, ThreadsWorkSideBySide) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3; ++round) {
        Content content{.seed = static_cast<uint64_t>(t)};
        const std::string id = absl::StrCat("t", t);
        const auto info = Ingest(*store_, id, &content, 4, 10, 100, 1000);
        ASSERT_THAT(info, IsOk());
        ExpectContent(*store_, info->owner, content);
        (void)store_->ListIngests();
        const auto session = store_->NewSessionOwner();
        ASSERT_THAT(session, IsOk());
        EXPECT_THAT(store_->PutSessionChunk({*session, 0}, MakeChunk(1, 1)), IsOk());
        EXPECT_THAT(store_->FreeSession(*session), IsOk());
        EXPECT_THAT(store_->Remove(id), IsOk());
        EXPECT_THAT(store_->Free(info->owner), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*store_->List("", 10), testing::IsEmpty());
}

}  // namespace
}  // namespace recollect::store
