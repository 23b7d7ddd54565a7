// The RPC group Documents over the fake engine, through the client library.
#include <algorithm>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ServiceTest, UnknownDocumentsAreNotFound) {
  EXPECT_THAT(client_->GetDocument("x").status(), Fails(absl::StatusCode::kNotFound, "'x'"));
  EXPECT_THAT(client_->DeleteDocument("x"), Fails(absl::StatusCode::kNotFound, "'x'"));
  EXPECT_THAT(client_->ReadText("x", 0, 1).status(), Fails(absl::StatusCode::kNotFound, "'x'"));
}

TEST_F(ServiceTest, BadIdsAreInvalid) {
  EXPECT_THAT(client_->GetDocument("").status(),
              Fails(absl::StatusCode::kInvalidArgument, "id: bytes: 0"));
  EXPECT_THAT(client_->DeleteDocument(std::string(257, 'x')),
              Fails(absl::StatusCode::kInvalidArgument, "id: bytes: 257, limit 1 to 256"));
  EXPECT_THAT(client_->IngestText("", client::ReadFrom("x")).status(),
              Fails(absl::StatusCode::kInvalidArgument, "id: bytes: 0"));
}

TEST_F(ServiceTest, ListsPageByPage) {
  for (const char* id : {"a", "b", "c", "d", "e"}) engine_.AddDocument(id, "text");
  const v1::ListDocumentsResponse first = client_->ListDocuments(2, "").value();
  ASSERT_EQ(first.documents_size(), 2);
  EXPECT_EQ(first.documents(1).id(), "b");
  EXPECT_EQ(first.next_page_token(), "b");
  const v1::ListDocumentsResponse last = client_->ListDocuments(3, first.next_page_token()).value();
  ASSERT_EQ(last.documents_size(), 3);
  EXPECT_EQ(last.next_page_token(), "");
  EXPECT_EQ(client_->ListAllDocuments().value().size(), 5u);
  EXPECT_THAT(client_->ListDocuments(1001, "").status(),
              Fails(absl::StatusCode::kInvalidArgument, "page_size: 1001, limit 0 to 1000"));
  EXPECT_THAT(client_->ListDocuments(-1, "").status(),
              Fails(absl::StatusCode::kInvalidArgument, "page_size: -1"));
}

TEST_F(ServiceTest, MetadataComesWithAnIngestAndIsChanged) {
  const auto ingest = [&](const std::optional<std::string>& metadata) {
    return client_->IngestText("d", client::ReadFrom("text"), nullptr, {.metadata = metadata});
  };
  EXPECT_EQ(ingest(R"({"year": 1851})")->metadata(), R"({"year":1851})");
  EXPECT_EQ(ingest(std::nullopt)->metadata(), R"({"year":1851})");
  EXPECT_THAT(ingest("[]").status(),
              Fails(absl::StatusCode::kInvalidArgument, "metadata: array, expected an object"));
  engine_.AddDocument("e", "text");
  EXPECT_FALSE(client_->GetDocument("e")->has_metadata());
  v1::SetMetadataRequest request;
  request.set_id("d");
  request.set_metadata(R"({"lang":"en"})");
  request.set_patch(true);
  EXPECT_EQ(client_->SetMetadata(request)->metadata(), R"({"lang":"en","year":1851})");
  request.set_patch(false);
  EXPECT_EQ(client_->SetMetadata(request)->metadata(), R"({"lang":"en"})");
  request.set_id("x");
  EXPECT_THAT(client_->SetMetadata(request).status(), Fails(absl::StatusCode::kNotFound, "'x'"));
  const std::string filter = R"({"type":"eq","key":"lang","value":"en"})";
  const auto listed = client_->ListAllDocuments(filter).value();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].id(), "d");
  EXPECT_THAT(client_->ListDocuments(1, "", "{}").status(),
              Fails(absl::StatusCode::kInvalidArgument, "filter: type is missing"));
  v1::SessionOptions session;
  session.add_mounts("*");
  session.set_mount_filter(filter);
  EXPECT_THAT(client_->OpenSession(session)->mounts(), ElementsAre("d"));
}

TEST_F(ServiceTest, ReadTextGivesRangesAndRefusesThoseOutside) {
  engine_.AddDocument("d", "0123456789");
  EXPECT_EQ(client_->ReadText("d", 2, 5).value(), "234");
  EXPECT_THAT(client_->ReadText("d", 2, 50).status(), Fails(absl::StatusCode::kOutOfRange, "50"));
  EXPECT_THAT(client_->ReadText("d", 5, 2).status(),
              Fails(absl::StatusCode::kInvalidArgument, "begin, end: 5, 2"));
}

TEST_F(ServiceTest, RetrieveGivesHitsWithText) {
  engine_.AddDocument("d", "0123456789abcdefghijklmnop");
  v1::RetrieveRequest request;
  request.mutable_session()->add_mounts("d");
  request.mutable_query()->set_text("what");
  request.set_k(3);
  request.set_with_text(true);
  const v1::RetrieveResponse response = client_->Retrieve(request).value();
  ASSERT_EQ(response.retrievals_size(), 1);
  EXPECT_EQ(response.retrievals(0).candidates(), 3);
  ASSERT_EQ(response.retrievals(0).hits_size(), 3);
  const v1::Hit& hit = response.retrievals(0).hits(2);
  EXPECT_EQ(hit.document(), "d");
  EXPECT_EQ(hit.chunk(), 2);
  EXPECT_EQ(hit.text(), "klmnop");
  EXPECT_EQ(hit.text_begin(), 20);
  EXPECT_EQ(hit.text_end(), 26);
  EXPECT_EQ(hit.tier(), v1::TIER_STATES);
  EXPECT_EQ(hit.score(), 2.5f);
  EXPECT_EQ(hit.weight(), 0.5f);
  EXPECT_EQ(engine_.seen().retrieve.k, 3);
  request.set_with_text(false);
  EXPECT_FALSE(client_->Retrieve(request)->retrievals(0).hits(0).has_text());
}

TEST_F(ServiceTest, TextOfADocumentThatWasReplacedMeanwhileStaysEmpty) {
  v1::RetrieveRequest request;
  request.mutable_session()->add_mounts("d");
  request.mutable_session()->add_mounts("e");
  request.mutable_query()->set_text("what");
  request.set_k(5);
  request.set_with_text(true);
  for (const char* other : {"short", "longer than what it stands for"}) {
    engine_.AddDocument("d", "0123456789abcdefghij");
    engine_.AddDocument("e", "0123456789");
    engine_.on_retrieve = [&] { engine_.AddDocument("d", other); };
    const auto response = client_->Retrieve(request);
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(response->retrievals(0).hits_size(), 3);
    for (const v1::Hit& hit : response->retrievals(0).hits())
      EXPECT_EQ(hit.text(), hit.document() == "e" ? "0123456789" : "");
  }
}

TEST_F(ServiceTest, ACallLogsOneLineWhateverItQuotes) {
  SetLogLevel(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(client_->GetDocument("x\ncall 9 forged").ok());
  const std::string log = ::testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kOff);
  EXPECT_THAT(log, HasSubstr("x\\u{a}call 9 forged"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST_F(ServiceTest, RetrieveRefusesMissingMountsAndAbsurdK) {
  v1::RetrieveRequest request;
  request.mutable_query()->set_text("what");
  request.mutable_session()->add_mounts("missing");
  EXPECT_THAT(client_->Retrieve(request).status(), Fails(absl::StatusCode::kNotFound, "missing"));
  request.set_k(1 << 30);
  EXPECT_THAT(client_->Retrieve(request).status(),
              Fails(absl::StatusCode::kInvalidArgument, "k: 1073741824"));
}

TEST_F(ServiceTest, ErrorsOfTheEngineArriveWithCodeAndMessage) {
  engine_.Set({.error = absl::DataLossError("chunk 17 of 'd': checksum")});
  EXPECT_THAT(client_->GetDocument("d").status(), Fails(absl::StatusCode::kDataLoss, "chunk 17"));
  EXPECT_THAT(client_->Generate({}).status(), Fails(absl::StatusCode::kDataLoss, "chunk 17"));
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom("x")).status(),
              Fails(absl::StatusCode::kDataLoss, "chunk 17"));
  v1::RetrieveRequest retrieve;
  retrieve.mutable_query()->set_text("x");
  EXPECT_THAT(client_->Retrieve(retrieve).status(), Fails(absl::StatusCode::kDataLoss, "chunk 17"));
  v1::ScoreRequest score;
  score.mutable_prompt()->set_text("x");
  EXPECT_THAT(client_->Score(score).status(), Fails(absl::StatusCode::kDataLoss, "chunk 17"));
}

}  // namespace
}  // namespace recollect
