// The stream Ingest over the fake engine: by the client library, and message by message for what
// that never sends.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

class IngestTest : public ServiceTest {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::IngestRequest, v1::IngestResponse>;

  std::unique_ptr<Stream> Open(grpc::ClientContext* context) {
    if (stub_ == nullptr) {
      stub_ = v1::Documents::NewStub(
          grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    }
    return stub_->Ingest(context);
  }
  static v1::IngestRequest Header(const std::string& id) {
    v1::IngestRequest request;
    request.mutable_header()->set_id(id);
    return request;
  }
  static v1::IngestRequest Piece(int64_t offset, const std::string& text) {
    v1::IngestRequest request;
    request.mutable_piece()->set_offset(offset);
    request.mutable_piece()->set_text(text);
    return request;
  }
  // Sends the messages, closes, and returns how the stream ended.
  absl::Status Send(const std::vector<v1::IngestRequest>& requests) {
    grpc::ClientContext context;
    auto stream = Open(&context);
    for (const auto& request : requests) {
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    v1::IngestResponse response;
    while (stream->Read(&response)) {
    }
    return client::FromGrpc(stream->Finish());
  }

  std::unique_ptr<v1::Documents::Stub> stub_;
};

TEST_F(IngestTest, PublishesWithProgress) {
  std::string text;
  while (text.size() < 700000) text += "All work and no play. ";
  std::vector<v1::IngestProgress> seen;
  const auto document =
      client_->IngestText("d", client::ReadFrom(text), [&](const auto& p) { seen.push_back(p); });
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->bytes(), static_cast<int64_t>(text.size()));
  EXPECT_GT(document->created_unix_ms(), 0);
  ASSERT_GE(seen.size(), 3u);  // one for each message of 256 KiB
  for (size_t i = 1; i < seen.size(); ++i)
    EXPECT_GE(seen[i].accepted_offset(), seen[i - 1].accepted_offset());
  EXPECT_EQ(seen.back().accepted_offset(), static_cast<int64_t>(text.size()));
  EXPECT_EQ(seen.back().tokens_per_s(), 1000);
  EXPECT_EQ(client_->ReadText("d", 0, 22).value(), "All work and no play. ");
}

TEST_F(IngestTest, AppendsToADocument) {
  const auto append = [&](const std::string& text) {
    return client_->IngestText("d", client::ReadFrom(text), nullptr, {.append = true});
  };
  EXPECT_EQ(append("the whale")->bytes(), 9) << "there was none";
  EXPECT_EQ(append(" swims")->bytes(), 15);
  EXPECT_EQ(client_->ReadText("d", 0, 15).value(), "the whale swims");
  const auto header = [](const std::function<void(v1::IngestHeader*)>& set) {
    v1::IngestRequest request = Header("d");
    set(request.mutable_header());
    return request;
  };
  EXPECT_THAT(Send({header([](auto* h) { h->set_append(true), h->set_replace(true); })}),
              Fails(absl::StatusCode::kInvalidArgument, "header.append: set"));
  EXPECT_THAT(Send({header([](auto* h) { h->set_replaces_sha256("x"); })}),
              Fails(absl::StatusCode::kInvalidArgument, "header.replaces_sha256: set"));
  EXPECT_THAT(Send({header([](auto* h) { h->set_append(true), h->set_replaces_sha256("x"); })}),
              Fails(absl::StatusCode::kFailedPrecondition, "SHA-256"));
  EXPECT_THAT(Send({header([](auto* h) { h->set_append(true); }), Piece(15, "late")}),
              Fails(absl::StatusCode::kInvalidArgument, "piece.offset: 15, expected 0"));
  EXPECT_EQ(client_->GetDocument("d")->bytes(), 15);
}

TEST_F(IngestTest, WorksWithinAProcess) {
  std::string text(1000000, 'x');
  const auto client = client::Client::OnChannel(server_->InProcessChannel());
  const auto document = client->IngestText("d", client::ReadFrom(text));
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->bytes(), 1000000);
  EXPECT_THAT(client->IngestText("e", client::ReadFrom("a\xff")).status(),
              Fails(absl::StatusCode::kInvalidArgument, "byte 1"));
}

TEST_F(IngestTest, TakesTokens) {
  const auto document = client_->IngestTokens("t", {'a', 'b', 'c'});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->tokens(), 3);
}

TEST_F(IngestTest, PassesThePatternOn) {
  v1::SessionOptions session;
  session.set_dilation(16);
  session.add_layer_windows()->add_heads(8);
  v1::HeadNumbers& heads = *session.add_layer_windows();
  heads.add_heads(1);
  heads.add_heads(2);
  session.set_context(1000);
  session.set_top_k_blocks(3);
  ASSERT_TRUE(
      client_->IngestText("d", client::ReadFrom("text"), nullptr, {.session = session}).ok());
  engine::SessionOptions expected;
  expected.dilation = 16;
  expected.layer_windows = {{8}, {1, 2}};
  expected.context = 1000;
  expected.top_k_blocks = 3;
  EXPECT_TRUE(engine_.seen().ingest == expected);
  ASSERT_TRUE(client_->IngestTokens("t", {'a'}, nullptr, {.session = session}).ok());
  EXPECT_TRUE(engine_.seen().ingest == expected);
  ASSERT_TRUE(client_->IngestText("e", client::ReadFrom("text")).ok());
  EXPECT_TRUE(engine_.seen().ingest == engine::SessionOptions());
  session.set_dilation(0);
  EXPECT_THAT(
      client_->IngestText("f", client::ReadFrom("text"), nullptr, {.session = session}).status(),
      Fails(absl::StatusCode::kInvalidArgument, "dilation: 0, limit 1 to 4096, or -1"));
}

TEST_F(IngestTest, ASilentStreamIsEndedAndMayBeResumed) {
  FakeEngine engine;
  server_ = *service::Server::Start(
      {.listen = "127.0.0.1:0", .model_name = "fake", .ingest_silence = absl::Milliseconds(500)},
      engine);
  for (const auto& requests : std::vector<std::vector<v1::IngestRequest>>{
           {}, {Header("d")}, {Header("d"), Piece(0, "0123456789abcdefghij")}}) {
    grpc::ClientContext context;
    auto stream = Open(&context);
    for (const auto& request : requests) EXPECT_TRUE(stream->Write(request));
    v1::IngestResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_THAT(client::FromGrpc(stream->Finish()),
                Fails(absl::StatusCode::kAborted,
                      absl::StrCat("nothing came for 500ms; committed up to offset ",
                                   requests.size() == 2 ? 16 : 0)));
  }
  client_ = *client::Client::Connect(server_->address());
  const auto resumed = client_->IngestText("d", client::ReadFrom("0123456789abcdefghij"));
  EXPECT_TRUE(resumed.ok()) << resumed.status();
  server_.reset();  // before its engine
}

TEST_F(IngestTest, ResumesAtTheCommittedOffset) {
  EXPECT_THAT(
      Send({Header("d"), Piece(0, "0123456789abcdefghij")}),
      Fails(absl::StatusCode::kInvalidArgument, "without finish; committed up to offset 16"));
  const auto unfinished = client_->ListIngests().value();
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_EQ(unfinished[0].committed_offset(), 16);
  std::vector<int64_t> read;
  const auto reader = [&](int64_t offset, int64_t limit) {
    read.push_back(offset);
    return client::ReadFrom("0123456789abcdefghij")(offset, limit);
  };
  EXPECT_EQ(client_->IngestText("d", reader).value().bytes(), 20);
  // What was committed is read to be compared, and is not sent again.
  EXPECT_THAT(read, ::testing::ElementsAre(0, 16, 20));
  EXPECT_EQ(client_->ReadText("d", 0, 20).value(), "0123456789abcdefghij");
}

TEST_F(IngestTest, AShorterInputDoesNotFinishALongerOne) {
  // An id each: one that a client has given up is free only once the server has noticed.
  EXPECT_FALSE(Send({Header("text"), Piece(0, "0123456789abcdefghij")}).ok());
  v1::IngestRequest header = Header("tokens"), piece;
  header.mutable_header()->set_kind(v1::INPUT_KIND_TOKENS);
  for (int i = 0; i < 20; ++i) piece.mutable_piece()->add_tokens('x');
  EXPECT_FALSE(Send({header, piece}).ok());
  EXPECT_THAT(client_->IngestText("text", client::ReadFrom("012345")).status(),
              Fails(absl::StatusCode::kOutOfRange,
                    "the input ends at 6, but an earlier ingest of this id had read 16"));
  EXPECT_THAT(client_->IngestTokens("tokens", std::vector<int32_t>(6, 'x')).status(),
              Fails(absl::StatusCode::kOutOfRange,
                    "the input ends at 6, but an earlier ingest of this id had read 16"));
}

TEST_F(IngestTest, AnotherInputDoesNotFinishWhatOneHasBegun) {
  EXPECT_FALSE(Send({Header("d"), Piece(0, "0123456789abcdefghij")}).ok());
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom("0123456789ABCDEFGHIJ")).status(),
              Fails(absl::StatusCode::kAlreadyExists, "had read other input: the first 16"));
}

TEST_F(IngestTest, SameContentAgainIsASuccessAndOtherContentIsNot) {
  ASSERT_TRUE(client_->IngestText("d", client::ReadFrom("one")).ok());
  EXPECT_TRUE(client_->IngestText("d", client::ReadFrom("one")).ok());
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom("two")).status(),
              Fails(absl::StatusCode::kAlreadyExists, "'d'"));
}

TEST_F(IngestTest, AnEmptyDocumentIsInvalid) {
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom("")).status(),
              Fails(absl::StatusCode::kInvalidArgument, "no tokens"));
}

TEST_F(IngestTest, InvalidUtf8NamesTheByte) {
  const std::string text = std::string(300000, 'a') + "\xff" + "b";
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom(text)).status(),
              Fails(absl::StatusCode::kInvalidArgument, "byte 300000"));
}

TEST_F(IngestTest, CharactersMayLieAcrossPieces) {
  v1::IngestRequest finish;
  finish.mutable_finish();
  EXPECT_TRUE(Send({Header("d"), Piece(0, "caf\xc3"), Piece(4, "\xa9"), finish}).ok());
}

TEST_F(IngestTest, GapsNameBothOffsets) {
  EXPECT_THAT(Send({Header("d"), Piece(0, "abc"), Piece(4, "e")}),
              Fails(absl::StatusCode::kInvalidArgument, "piece.offset: 4, expected 3"));
}

TEST_F(IngestTest, MessagesOutOfOrderAreInvalid) {
  v1::IngestRequest finish, empty;
  finish.mutable_finish();
  EXPECT_THAT(Send({Piece(0, "abc")}),
              Fails(absl::StatusCode::kInvalidArgument, "piece: sent before the header"));
  EXPECT_THAT(Send({finish}),
              Fails(absl::StatusCode::kInvalidArgument, "finish: sent before the header"));
  EXPECT_THAT(Send({Header("d"), Header("d")}),
              Fails(absl::StatusCode::kInvalidArgument, "header: sent twice"));
  EXPECT_THAT(Send({empty}), Fails(absl::StatusCode::kInvalidArgument, "request: empty"));
  EXPECT_THAT(Send({}), Fails(absl::StatusCode::kInvalidArgument, "without finish"));
}

TEST_F(IngestTest, PiecesBeyondAMebibyteAreInvalid) {
  EXPECT_THAT(
      Send({Header("d"), Piece(0, std::string((1 << 20) + 1, 'x'))}),
      Fails(absl::StatusCode::kInvalidArgument, "piece.text: bytes: 1048577, limit 0 to 1048576"));
}

TEST_F(IngestTest, ASecondWriterIsAborted) {
  grpc::ClientContext context;
  auto stream = Open(&context);
  stream->Write(Header("d"));
  v1::IngestResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom("x")).status(),
              Fails(absl::StatusCode::kAborted, "'d'"));
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The id is free again as soon as the server has noticed.
  engine_.Await([](const auto& seen) { return seen.ingests == 0; });
  const absl::Status status = client_->IngestText("d", client::ReadFrom("x")).status();
  EXPECT_TRUE(status.ok()) << status;
}

// ABORTED would ask for another try, which would bring back what was deleted.
TEST_F(IngestTest, ADeleteEndsTheStreamForGood) {
  grpc::ClientContext context;
  auto stream = Open(&context);
  stream->Write(Header("d"));
  v1::IngestResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(client_->DeleteDocument("d").ok());
  stream->Write(Piece(0, "text"));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(client::FromGrpc(stream->Finish()),
              Fails(absl::StatusCode::kFailedPrecondition, "the document was deleted"));
}

TEST_F(IngestTest, StreamsTheClientCancelsCountAsCancelled) {
  constexpr int kStreams = 20;
  for (int i = 0; i < kStreams; ++i) {
    grpc::ClientContext context;
    auto stream = Open(&context);
    stream->Write(Header(absl::StrCat("d", i)));
    v1::IngestResponse response;
    ASSERT_TRUE(stream->Read(&response));
    context.TryCancel();
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  const v1::RpcStats ingests = AwaitNoneRunning("Documents/Ingest");
  ASSERT_EQ(ingests.codes_size(), 1);
  EXPECT_EQ(ingests.codes(0).code(), "CANCELLED");
  EXPECT_EQ(ingests.codes(0).count(), kStreams);
}

TEST_F(IngestTest, IdsWithSeparatorsAreRefusedButServedWhereTheyAre) {
  for (const char* id : {"a,b", "a\nb", "\x01", "\x7f", "left\u202etfel", "a\u200b"}) {
    EXPECT_THAT(client_->IngestText(id, client::ReadFrom("x")).status(),
                Fails(absl::StatusCode::kInvalidArgument,
                      "commas and control, bidirectional and zero-width characters"));
    engine_.AddDocument(id, "text");
    EXPECT_EQ(client_->GetDocument(id).value().bytes(), 4);
    EXPECT_EQ(client_->ReadText(id, 0, 4).value(), "text");
    v1::SessionOptions options;
    options.add_mounts(id);
    EXPECT_TRUE(client_->OpenSession(options).ok());
    EXPECT_TRUE(client_->DeleteDocument(id).ok());
  }
  EXPECT_TRUE(client_->IngestText("caf\u00e9 [1]", client::ReadFrom("x")).ok());
}

TEST_F(IngestTest, UnfinishedOnesAreListedPageByPage) {
  constexpr int kIngests = 1003;  // more than a page of the client's
  std::vector<std::unique_ptr<engine::IngestStream>> open;
  for (int i = 0; i < kIngests; ++i) {
    open.push_back(engine_.BeginIngest(absl::StrCat(10000 + i), false, {}).value());
  }
  const auto all = client_->ListIngests().value();
  ASSERT_EQ(all.size(), kIngests);
  for (int i = 0; i < kIngests; ++i) EXPECT_EQ(all[i].id(), absl::StrCat(10000 + i));
  auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext last, wrong;
  v1::ListIngestsRequest request;
  v1::ListIngestsResponse response;
  request.set_page_token("11000");
  ASSERT_TRUE(stub->ListIngests(&last, request, &response).ok());
  ASSERT_EQ(response.ingests_size(), 2);
  EXPECT_EQ(response.ingests(0).id(), "11001");
  EXPECT_EQ(response.next_page_token(), "");
  request.set_page_size(1001);
  EXPECT_THAT(client::FromGrpc(stub->ListIngests(&wrong, request, &response)),
              Fails(absl::StatusCode::kInvalidArgument, "page_size: 1001"));
}

TEST_F(IngestTest, AnUnfinishedDocumentSaysHowFarItHasCome) {
  EXPECT_FALSE(Send({Header("d"), Piece(0, "0123456789abcdefghij")}).ok());
  EXPECT_THAT(client_->GetDocument("d").status(),
              Fails(absl::StatusCode::kNotFound,
                    "'d': its ingest is unfinished, committed up to offset 16"));
}

TEST_F(IngestTest, AFailingSourceEndsTheStreamWithItsError) {
  const auto reader = [](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
    if (offset > 0) return absl::UnavailableError("the disk is gone");
    return std::string(32, 'x');
  };
  EXPECT_THAT(client_->IngestText("d", reader).status(),
              Fails(absl::StatusCode::kUnavailable, "the disk is gone"));
}

}  // namespace
}  // namespace recollect
