// Keys over gRPC: who may do what, and what is said to those who may not.
#include <utility>

#include "base/sha256.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/grpcpp.h"
#include "tests/access/access_testing.h"
#include "tests/service/all_calls.h"
#include "tests/service/raw_call.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

using access::Right;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kUnknown = absl::StatusCode::kUnauthenticated;
constexpr auto kMissing = absl::StatusCode::kNotFound;

class AccessTest : public KeysFileTest {
 protected:
  void SetUp() override {
    KeysFileTest::SetUp();
    for (const access::Key& key :
         {KeyOf("full"), KeyOf("read", Right::kRead), KeyOf("a", Right::kFull, "a/"),
          KeyOf("reads-a", Right::kRead, "a/")}) {
      ASSERT_THAT(access::AddKey(path_, key), IsOk());
    }
    access::Key small = KeyOf("small", Right::kFull, "a/");
    small.quota = {.max_documents = 1, .max_sessions = 1, .tokens_per_minute = 1};
    ASSERT_THAT(access::AddKey(path_, small), IsOk());
    guard_ = access::Guard::Open(path_).value();
    auto server = service::Server::Start(
        {.listen = "127.0.0.1:0", .model_name = "fake", .guard = guard_.get()}, engine_);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    for (const char* id : {"a", "a/1", "a/2", "b/1"}) engine_.AddDocument(id, "text of it");
  }
  std::unique_ptr<client::Client> With(const std::string& api_key) const {
    return client::Client::Connect(server_->address(), {.api_key = api_key}).value();
  }
  std::unique_ptr<client::Client> As(const std::string& name) const {
    return With("secret-" + name);
  }
  void Revoke(const std::string& name) {
    EXPECT_THAT(access::RemoveKey(path_, name), IsOk());
    EXPECT_THAT(guard_->Reload(), IsOk());
  }
  static v1::GenerateRequest Mounting(const std::string& id) {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("x");
    request.mutable_session()->add_mounts(id);
    return request;
  }
  static v1::GenerateRequest In(uint64_t session) {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("x");
    request.set_session_id(session);
    return request;
  }

  FakeEngine engine_;
  std::unique_ptr<access::Guard> guard_;
  std::unique_ptr<service::Server> server_;
};

TEST_F(AccessTest, WithoutAKeyOfTheServerNothingIsAnswered) {
  const absl::Status none = With("")->GetDocument("a").status();
  EXPECT_THAT(none, StatusIs(kUnknown, "authorization: Bearer KEY"));
  for (const char* sent : {"", "wrong", "secret-", "secret-fulll"}) {
    for (const auto& [call, status] : AllCalls(*With(sent), "a/1"))
      EXPECT_EQ(status, none) << call << " with '" << sent << "'";
    EXPECT_EQ(With(sent)->GetModel().status(), none);
  }
  EXPECT_EQ(engine_.seen().opened, 0);
  EXPECT_THAT(As("full")->GetDocument("a"), IsOk());
}

TEST_F(AccessTest, AKeySentTwiceIsNone) {
  auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  v1::GetDocumentRequest request;
  request.set_id("a");
  const auto sent = [&](int times) {
    grpc::ClientContext context;
    for (int i = 0; i < times; ++i) context.AddMetadata("authorization", "Bearer secret-full");
    v1::Document response;
    return client::FromGrpc(stub->GetDocument(&context, request, &response));
  };
  EXPECT_THAT(sent(1), IsOk());
  EXPECT_THAT(sent(2), StatusIs(kUnknown, ""));
}

TEST_F(AccessTest, HealthAndReflectionAreOpen) {
  EXPECT_THAT(RawCall(server_->address(), "/grpc.health.v1.Health/Check", ""), IsOk());
  EXPECT_THAT(
      RawCall(server_->address(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x01*", 3)),
      IsOk());
}

TEST_F(AccessTest, AKeyThatMayReadMayNotWrite) {
  for (const auto& [call, status] : AllCalls(*As("read"), "a/1")) {
    if (call == "Ingest" || call == "ImportDocument" || call == "DeleteDocument" ||
        call == "RefreshDocument" || call == "SetMetadata" || call == "CreateBackup" ||
        call == "SaveSession") {
      EXPECT_THAT(status,
                  StatusIs(kDenied, "key 'read' has the right 'read', " + call + " needs 'full'"));
    } else if (call == "GetSession" || call == "CloseSession") {
      EXPECT_THAT(status, StatusIs(kMissing, "no open session 99"));
    } else if (call == "ListBackups") {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, "--backup-dir"));
    } else {
      EXPECT_THAT(status, IsOk()) << call;
    }
  }
  EXPECT_EQ(engine_.seen().ingests, 0);
  EXPECT_EQ(engine_.seen().imports, 0);
  EXPECT_THAT(As("full")->GetDocument("a/1"), IsOk()) << "not deleted";
}

TEST_F(AccessTest, AFullKeyMayDoEverything) {
  for (const auto& [call, status] : AllCalls(*As("full"), "a/1")) {
    if (call.ends_with("eSession") || call == "GetSession" || call.ends_with("Backup") ||
        call == "ListBackups") {
      EXPECT_THAT(status, testing::Not(StatusIs(kDenied, ""))) << call;
    } else {
      EXPECT_THAT(status, IsOk()) << call;
    }
  }
}

// The same answer whether there is such a document or not.
TEST_F(AccessTest, OutsideItsPrefixAKeyCanDoNothing) {
  for (const char* id : {"b/1", "b/none", "a"}) {
    for (const auto& [call, status] : AllCalls(*As("a"), id)) {
      if (call == "CreateBackup" || call == "ListBackups") {
        EXPECT_THAT(status, StatusIs(kDenied, call + " concerns all documents"));
      } else if (call == "GetSession" || call == "CloseSession") {
        EXPECT_THAT(status, StatusIs(kMissing, ""));
      } else if (call.starts_with("List") || call == "GetStats") {
        EXPECT_THAT(status, IsOk()) << call;
      } else {
        EXPECT_THAT(status, StatusIs(kDenied, "key 'a' is for ids that begin with 'a/'")) << call;
      }
    }
  }
  for (const char* call :
       {"GetDocument", "ReadText", "Retrieve", "Generate", "OpenSession", "Score", "Ingest",
        "ExportDocument", "ImportDocument", "RefreshDocument", "SetMetadata", "DeleteDocument"}) {
    EXPECT_THAT(AllCalls(*As("a"), "a/1")[call], IsOk()) << call;
    engine_.AddDocument("a/1", "text of it");
    EXPECT_THAT(As("full")->DeleteDocument("a/1y"), IsOk());
  }
}

TEST_F(AccessTest, ListsHoldWhatTheKeyIsFor) {
  const auto ids = [](client::Client& client) {
    std::vector<std::string> found;
    const std::vector<v1::Document> documents = client.ListAllDocuments().value();
    for (const v1::Document& document : documents) found.push_back(document.id());
    return found;
  };
  EXPECT_THAT(ids(*As("read")), ElementsAre("a", "a/1", "a/2", "b/1"));
  EXPECT_THAT(ids(*As("reads-a")), ElementsAre("a/1", "a/2"));

  const auto pages = As("reads-a");
  const v1::ListDocumentsResponse first = pages->ListDocuments(1, "").value();
  ASSERT_EQ(first.documents_size(), 1);
  EXPECT_EQ(first.documents(0).id(), "a/1");
  const v1::ListDocumentsResponse second = pages->ListDocuments(1, first.next_page_token()).value();
  ASSERT_EQ(second.documents_size(), 1);
  EXPECT_EQ(second.documents(0).id(), "a/2");
  EXPECT_EQ(second.next_page_token(), "") << "nobody learns that there are more";
  EXPECT_THAT(pages->ListDocuments(10, "a/2").value().documents(), IsEmpty());
  const std::string all = R"({"type":"ne","key":"year","value":1})";
  const v1::ListDocumentsResponse matching = pages->ListDocuments(1, "a/1", all).value();
  ASSERT_EQ(matching.documents_size(), 1);
  EXPECT_EQ(matching.documents(0).id(), "a/2");
  EXPECT_EQ(matching.next_page_token(), "");
}

TEST_F(AccessTest, UnfinishedIngestsOfOthersAreNotListed) {
  const auto failing = [](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
    if (offset == 0) return std::string(100, 'x');
    return absl::AbortedError("enough");
  };
  for (const char* id : {"a/new", "b/new"}) EXPECT_FALSE(As("full")->IngestText(id, failing).ok());
  EXPECT_EQ(As("full")->ListIngests().value().size(), 2u);
  const auto seen = As("a")->ListIngests().value();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].id(), "a/new");
}

TEST_F(AccessTest, ASessionIsItsOwnersAlone) {
  const auto owner = As("a"), other = As("full");
  v1::SessionOptions options;
  options.add_mounts("a/1");
  const uint64_t id = owner->OpenSession(options).value().id();
  const std::string missing = absl::StrCat("no open session ", id);
  EXPECT_THAT(other->GetSession(id), StatusIs(kMissing, missing));
  EXPECT_THAT(other->CloseSession(id), StatusIs(kMissing, missing));
  EXPECT_THAT(other->Generate(In(id)), StatusIs(kMissing, missing));
  v1::ScoreRequest score;
  score.set_session_id(id);
  score.mutable_prompt()->set_text("x");
  EXPECT_THAT(other->Score(score).status(), StatusIs(kMissing, missing));
  EXPECT_THAT(owner->Score(score).status(), IsOk());
  EXPECT_EQ(other->GetSession(id).status().message(), missing);
  EXPECT_THAT(owner->Generate(In(id)), IsOk());
  EXPECT_THAT(owner->GetSession(id), IsOk());
  EXPECT_THAT(owner->CloseSession(id), IsOk());
  EXPECT_THAT(owner->GetSession(id), StatusIs(kMissing, missing));
}

TEST_F(AccessTest, WhoMayNotIngestMayNotSave) {
  v1::GenerateRequest generate;
  generate.mutable_prompt()->set_text("x");
  generate.mutable_save_as()->set_document_id("b/2");
  EXPECT_THAT(As("read")->Generate(generate), StatusIs(kDenied, "save_as needs 'full'"));
  EXPECT_THAT(As("a")->Generate(generate), StatusIs(kDenied, "document 'b/2'"));
  EXPECT_EQ(engine_.seen().generate.prompt.text, "") << "nothing was generated";
  EXPECT_THAT(As("full")->Generate(generate), IsOk());
  v1::SaveSessionRequest save;
  save.set_session_id(As("a")->OpenSession({}).value().id());
  save.set_document_id("a/3");
  ASSERT_THAT(As("a")->Generate(In(save.session_id())), IsOk());
  EXPECT_THAT(As("full")->SaveSession(save), StatusIs(kMissing, "no open session"));
  EXPECT_THAT(As("a")->SaveSession(save), IsOk());
}

TEST_F(AccessTest, ASessionIsNoWayAroundANewPrefix) {
  v1::SessionOptions options;
  options.add_mounts("a/1");
  const uint64_t id = As("a")->OpenSession(options).value().id();
  ASSERT_THAT(access::RemoveKey(path_, "a"), IsOk());
  ASSERT_THAT(access::AddKey(path_, KeyOf("a", Right::kFull, "c/")), IsOk());
  ASSERT_THAT(guard_->Reload(), IsOk());
  EXPECT_THAT(As("a")->Generate(In(id)), StatusIs(kDenied, "document 'a/1'"));
}

TEST_F(AccessTest, AnIngestEndsWhenItsKeyIsRevoked) {
  const auto client = As("a");
  const auto reader = [&](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
    if (offset > 0) Revoke("a");
    return std::string(100, 'x');
  };
  EXPECT_THAT(client->IngestText("a/new", reader), StatusIs(kUnknown, "key 'a' is revoked"));
  EXPECT_THAT(client->GetDocument("a/1"), StatusIs(kUnknown, ""));
  EXPECT_THAT(As("full")->GetDocument("a/new"), StatusIs(kMissing, "unfinished"));
}

TEST_F(AccessTest, WhoMayNotIngestHoldsNoStream) {
  auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  const auto end = [](auto call, auto response) {  // of one that says nothing
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer secret-read");
    const auto stream = call(&context);
    EXPECT_FALSE(stream->Read(&response));
    return client::FromGrpc(stream->Finish());
  };
  EXPECT_THAT(end([&](auto* context) { return stub->Ingest(context); }, v1::IngestResponse()),
              StatusIs(kDenied, "Ingest needs 'full'"));
  EXPECT_THAT(end([&](auto* context) { return stub->ImportDocument(context); },
                  v1::ImportDocumentResponse()),
              StatusIs(kDenied, "ImportDocument needs 'full'"));
}

// Without an id of its own, a document gets that of its file.
TEST_F(AccessTest, TheIdInAFileIsNoWayAroundThePrefix) {
  ASSERT_THAT(access::AddKey(path_, KeyOf("b", Right::kFull, "b/")), IsOk());
  ASSERT_THAT(guard_->Reload(), IsOk());
  const std::string file = DocumentFile();
  const auto import = [&](const std::string& key, const std::string& id) {
    return As(key)->ImportDocument(id, client::ReadFrom(file)).status();
  };
  const auto denied =
      StatusIs(kDenied, "document 'a/file': key 'b' is for ids that begin with 'b/'");
  EXPECT_THAT(import("b", ""), denied);
  EXPECT_THAT(As("full")->GetDocument("a/file"), StatusIs(kMissing, ""));
  EXPECT_THAT(import("b", "b/file"), IsOk());
  EXPECT_THAT(import("a", ""), IsOk());
  EXPECT_THAT(import("b", ""), denied) << "also where there is such a document";
  EXPECT_THAT(import("a", ""), StatusIs(absl::StatusCode::kAlreadyExists, "'a/file'"));
}

TEST_F(AccessTest, TransfersEndWhenTheirKeyIsRevoked) {
  const std::string file = DocumentFile();
  const auto client = As("a");
  const auto reader = [&](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
    if (offset == 0) return file.substr(0, 20);
    if (offset == 20) Revoke("a");
    return file.substr(static_cast<size_t>(offset));
  };
  EXPECT_THAT(client->ImportDocument("a/new", reader), StatusIs(kUnknown, "key 'a' is revoked"));
  EXPECT_THAT(As("full")->GetDocument("a/new"), StatusIs(kMissing, ""));

  // Larger than what is sent ahead of a reader that waits.
  engine_.AddDocument("large", std::string(2 << 20, 'x'));
  bool revoked = false;
  const auto take = [&](const std::string&) {
    if (!std::exchange(revoked, true)) Revoke("read");
    return absl::OkStatus();
  };
  EXPECT_THAT(As("read")->ExportDocument("large", take),
              StatusIs(kUnknown, "key 'read' is revoked"));
}

TEST_F(AccessTest, AKeyThatCannotBeSentIsRefusedByTheClient) {
  for (const char* key : {"two words", "line\n", "sch\u00fcssel", "\x01"}) {
    EXPECT_THAT(client::Client::Connect(server_->address(), {.api_key = key}),
                StatusIs(absl::StatusCode::kInvalidArgument, "visible ASCII"));
  }
}

TEST_F(AccessTest, InsideTheProcessKeysAreAskedForToo) {
  EXPECT_THAT(client::Client::OnChannel(server_->InProcessChannel())->GetDocument("a"),
              StatusIs(kUnknown, ""));
  EXPECT_THAT(client::Client::OnChannel(server_->InProcessChannel(), {.api_key = "secret-read"})
                  ->GetDocument("a"),
              IsOk());
}

TEST_F(AccessTest, WhatIsBeyondTheQuotaIsRefusedAndSaysWhenToComeAgain) {
  constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
  const auto small = As("small");
  v1::SessionOptions options;
  ASSERT_THAT(small->OpenSession(options), IsOk());
  EXPECT_THAT(small->OpenSession(options), StatusIs(kExhausted, "its quota is 1"));
  EXPECT_THAT(small->Generate(Mounting("a/1")), StatusIs(kExhausted, "1 sessions are open"));
  EXPECT_THAT(small->IngestText("a/3", client::ReadFrom("text")),
              StatusIs(kExhausted, "documents"));
  ASSERT_THAT(small->CloseSession(1), IsOk());
  ASSERT_THAT(small->Generate(Mounting("a/1")), IsOk());
  const auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer secret-small");
  v1::ScoreRequest request;
  request.mutable_prompt()->set_text("x");
  v1::ScoreResponse response;
  EXPECT_EQ(stub->Score(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto& sent = context.GetServerTrailingMetadata();
  ASSERT_EQ(sent.count("retry-after"), 1u);
  const grpc::string_ref seconds = sent.find("retry-after")->second;
  EXPECT_GT(std::stoi(std::string(seconds.data(), seconds.size())), 60);
}

}  // namespace
}  // namespace recollect
