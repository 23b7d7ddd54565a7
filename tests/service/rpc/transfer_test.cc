// ExportDocument and ImportDocument over the fake engine: by the client library, and message by
// message for what that never sends.
#include <memory>
#include <string>
#include <vector>

#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

class TransferTest : public ServiceTest {
 protected:
  absl::StatusOr<std::string> Export(const std::string& id) {
    std::string file;
    const auto document = client_->ExportDocument(id, [&](const std::string& bytes) {
      EXPECT_LE(bytes.size(), 1u << 20);
      file += bytes;
      return absl::OkStatus();
    });
    if (!document.ok()) return document.status();
    EXPECT_EQ(document->id(), id);
    return file;
  }
  static v1::ImportDocumentRequest Header(const std::string& id) {
    v1::ImportDocumentRequest request;
    request.mutable_header()->set_id(id);
    return request;
  }
  static v1::ImportDocumentRequest Data(const std::string& bytes) {
    v1::ImportDocumentRequest request;
    request.set_data(bytes);
    return request;
  }
  static v1::ImportDocumentRequest End() {
    v1::ImportDocumentRequest request;
    request.mutable_finish();
    return request;
  }
  // Sends the messages, closes, and returns how the stream ended.
  absl::Status Send(const std::vector<v1::ImportDocumentRequest>& requests) {
    const auto stub = v1::Documents::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->ImportDocument(&context);
    for (const auto& request : requests) {
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    v1::ImportDocumentResponse response;
    while (stream->Read(&response)) {
    }
    return client::FromGrpc(stream->Finish());
  }
  bool IsThere(const std::string& id) { return client_->GetDocument(id).ok(); }
};

TEST_F(TransferTest, ARefreshTellsHowFarItIsAndGivesTheDocument) {
  engine_.AddDocument("d", "some text");
  std::vector<int64_t> bytes;
  const auto document = client_->RefreshDocument(
      "d", [&](const v1::IngestProgress& progress) { bytes.push_back(progress.bytes()); });
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->id(), "d");
  EXPECT_EQ(document->bytes(), 9);
  // Progress that comes with the end may be left out.
  for (const int64_t each : bytes) EXPECT_EQ(each, 9);
  EXPECT_EQ(engine_.seen().refreshed, std::vector<std::string>{"d"});
  EXPECT_EQ(engine_.seen().peer, "127.0.0.1");
  EXPECT_THAT(client_->RefreshDocument("x").status(), Fails(absl::StatusCode::kNotFound, "'x'"));
}

TEST_F(TransferTest, ADocumentGoesOutAndComesBack) {
  const std::string text(300000, 'x');
  engine_.AddDocument("d", text);
  const auto file = Export("d");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_GT(file->size(), 1u << 20);  // several messages
  std::vector<int64_t> seen;
  const auto document = client_->ImportDocument("e", client::ReadFrom(*file),
                                                [&](int64_t bytes) { seen.push_back(bytes); });
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->id(), "e");
  EXPECT_EQ(document->sha256(), client_->GetDocument("d")->sha256());
  EXPECT_EQ(client_->ReadText("e", 1000, 2000).value(), text.substr(1000, 1000));
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.back(), std::ssize(*file));
  // Under the name that it has in the file.
  ASSERT_TRUE(client_->DeleteDocument("d").ok());
  EXPECT_EQ(client_->ImportDocument("", client::ReadFrom(*file))->id(), "d");
}

TEST_F(TransferTest, ErrorsReachTheClient) {
  engine_.AddDocument("d", "some text");
  const std::string file = Export("d").value();
  EXPECT_THAT(Export("x").status(), Fails(absl::StatusCode::kNotFound, "'x'"));
  EXPECT_THAT(Export("").status(), Fails(absl::StatusCode::kInvalidArgument, "id: bytes: 0"));
  const auto import = [&](const std::string& id, const std::string& bytes) {
    return client_->ImportDocument(id, client::ReadFrom(bytes)).status();
  };
  EXPECT_THAT(import("d", file), Fails(absl::StatusCode::kAlreadyExists, "'d'"));
  EXPECT_THAT(import("e", file.substr(0, 100)), Fails(absl::StatusCode::kDataLoss, "100 bytes"));
  EXPECT_THAT(import("e", "text"),
              Fails(absl::StatusCode::kInvalidArgument, "not a document file"));
  EXPECT_THAT(import("a,b", file), Fails(absl::StatusCode::kInvalidArgument, "id"));
  engine_.AddDocument("bad", "abc\xff");
  EXPECT_THAT(import("e", Export("bad").value()),
              Fails(absl::StatusCode::kInvalidArgument, "not valid UTF-8 at byte 3"));
  EXPECT_FALSE(IsThere("e"));
  // Of the client's own: what it could not write or read.
  EXPECT_THAT(client_
                  ->ExportDocument(
                      "d", [](const std::string&) { return absl::UnavailableError("no disk"); })
                  .status(),
              Fails(absl::StatusCode::kUnavailable, "no disk"));
  EXPECT_THAT(client_
                  ->ImportDocument("e",
                                   [](int64_t, int64_t) -> absl::StatusOr<std::string> {
                                     return absl::UnavailableError("no disk");
                                   })
                  .status(),
              Fails(absl::StatusCode::kUnavailable, "no disk"));
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.imports == 0; });
  EXPECT_FALSE(IsThere("e"));
}

TEST_F(TransferTest, MessagesOutOfOrderAreRefused) {
  engine_.AddDocument("d", "some text");
  const std::string file = Export("d").value();
  const auto invalid = [](const char* what) {
    return Fails(absl::StatusCode::kInvalidArgument, what);
  };
  EXPECT_THAT(Send({Data(file)}), invalid("header"));
  EXPECT_THAT(Send({End()}), invalid("header"));
  EXPECT_THAT(Send({Header("e"), Header("e")}), invalid("header"));
  EXPECT_THAT(Send({Header("e"), {}}), invalid("empty"));
  EXPECT_THAT(Send({Header("e"), Data(std::string((1 << 20) + 1, 'x'))}), invalid("1048577"));
  // Whole, but nobody has said so.
  EXPECT_THAT(Send({Header("e"), Data(file)}), invalid("without finish"));
  EXPECT_FALSE(IsThere("e"));
  EXPECT_TRUE(Send({Header("e"), Data(file), End()}).ok());
  EXPECT_TRUE(IsThere("e"));
}

TEST_F(TransferTest, ASilentImportIsEnded) {
  FakeEngine engine;
  server_ = *service::Server::Start(
      {.listen = "127.0.0.1:0", .model_name = "fake", .ingest_silence = absl::Milliseconds(300)},
      engine);
  const auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->ImportDocument(&context);
  v1::ImportDocumentResponse response;
  ASSERT_TRUE(stream->Write(Header("e")) && stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(client::FromGrpc(stream->Finish()),
              Fails(absl::StatusCode::kAborted, "nothing came for 300ms"));
  engine.Await([](const FakeEngine::Seen& seen) { return seen.imports == 0; });
  server_.reset();  // before its engine
}

TEST_F(TransferTest, CancelledCallsLeaveNothing) {
  engine_.AddDocument("d", std::string(300000, 'x'));
  const std::string file = Export("d").value();
  const auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  {
    grpc::ClientContext context;
    const auto stream = stub->ImportDocument(&context);
    v1::ImportDocumentResponse response;
    ASSERT_TRUE(stream->Write(Header("e")) && stream->Read(&response));
    ASSERT_TRUE(stream->Write(Data(file.substr(0, 1 << 20))) && stream->Read(&response));
    EXPECT_EQ(response.accepted_bytes(), 1 << 20);
    context.TryCancel();
    (void)stream->Finish();
  }
  AwaitNoneRunning("Documents/ImportDocument");
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.imports == 0; });
  EXPECT_FALSE(IsThere("e"));
  {
    grpc::ClientContext context;
    v1::ExportDocumentRequest request;
    request.set_id("d");
    const auto stream = stub->ExportDocument(&context, request);
    v1::ExportDocumentResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.document().id(), "d");
    context.TryCancel();
    (void)stream->Finish();
  }
  AwaitNoneRunning("Documents/ExportDocument");
}

}  // namespace
}  // namespace recollect
