// gRPC and HTTP over one engine: what goes wrong is told by both with the code that
// docs/operations.md has for it, and HTTP's statuses are those of docs/http.md.
#include <future>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/client.h"
#include "http/net/authorize.h"
#include "service/server.h"
#include "store/document_transfer.h"
#include "tests/access/access_testing.h"
#include "tests/front_ends/pages.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using absl::StatusCode;
using access::Right;
using nlohmann::json;

// What only one of them can answer.
const std::set<std::string> kOfOneOnly = {
    "a session that another key has opened",  // HTTP has none
    "sessions",                               // nor any that stays open
    "an import says nothing for 5 minutes"};  // HTTP ends the connection, without an answer

struct HttpError {
  std::string code, message;
  int status = 0;
};

class FrontEndsTest : public HttpTest {
 protected:
  void SetUp() override {
    keys_ = ::testing::TempDir() + "/recollect_front_ends";
    std::filesystem::remove(keys_);
    std::vector<access::Key> keys = {KeyOf("full"),
                                     KeyOf("read", Right::kRead),
                                     KeyOf("a", Right::kFull, "a/"),
                                     KeyOf("documents", Right::kFull, "q/"),
                                     KeyOf("sessions"),
                                     KeyOf("tokens")};
    keys[3].quota.max_documents = 1;
    keys[4].quota.max_sessions = 1;
    keys[5].quota.tokens_per_minute = 1;
    for (const access::Key& key : keys) ASSERT_THAT(access::AddKey(keys_, key), IsOk());
    guard_ = access::Guard::Open(keys_).value();
    Start({.listen = "127.0.0.1:0",
           .model_name = "fake",
           .authorize = [this](const http::Request& r) { return http::Authorize(*guard_, r); }});
    auto service = service::Server::Start(
        {.listen = "127.0.0.1:0", .model_name = "fake", .guard = guard_.get()}, engine_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
  }
  std::unique_ptr<client::Client> As(const std::string& key) const {
    return client::Client::Connect(service_->address(), {.api_key = "secret-" + key}).value();
  }
  static std::string Head(const std::string& key, const std::string& line, size_t bytes) {
    return absl::StrCat(line, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
                        "Authorization: Bearer secret-", key, "\r\nContent-Length: ", bytes,
                        "\r\n\r\n");
  }
  static HttpError ErrorOf(const std::string& answer) {
    const json error = Body(answer).value("error", json::object());
    HttpError found = {absl::AsciiStrToUpper(error.value("code", "")), error.value("message", "")};
    if (answer.size() > 12) {
      EXPECT_TRUE(absl::SimpleAtoi(answer.substr(9, 3), &found.status));
    }
    return found;
  }
  HttpError Http(const std::string& key, const std::string& line, const std::string& body = "") {
    return ErrorOf(Ask(Head(key, line, body.size()) + body));
  }
  HttpError HttpComplete(const std::string& key) {
    return Http(key, "POST /v1/completions", R"({"model": "fake", "prompt": "x"})");
  }
  absl::Status Generate(const std::string& key) const {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("x");
    return As(key)->Generate(request).status();
  }
  // `other`: a fingerprint.
  static std::string File(const std::string& text, const std::string& fingerprint = "fake") {
    const auto store = store::CreateMemoryStore();
    const OwnerId owner = store->BeginIngest("q/file", fingerprint, false, "").value().owner;
    store::IngestBatch batch;
    batch.text = text;
    batch.tokens.assign(text.begin(), text.end());
    for (int32_t& token : batch.tokens) token &= 0xff;
    batch.input_offset = std::ssize(text);
    batch.chunks.push_back({.states = {Bf16()}, .rows = 1, .tokens = {}});
    batch.landmark_keys.resize(1);
    store::DocumentExport out(*store, store->PublishIngest(owner, batch).value(), 1);
    std::string file;
    for (std::string part = out.Next().value(); !part.empty(); part = out.Next().value())
      file += part;
    return file;
  }
  void Revoke(const std::string& key) {
    ASSERT_THAT(access::RemoveKey(keys_, key), IsOk());
    ASSERT_THAT(guard_->Reload(), IsOk());
  }
  void Restore(const std::string& key) {
    ASSERT_THAT(access::AddKey(keys_, KeyOf(key)), IsOk());
    ASSERT_THAT(guard_->Reload(), IsOk());
  }
  // In the middle of a body of both parts, once the server has taken the first.
  std::string SendInTwo(const Socket& socket, const std::string& rest,
                        const std::function<void()>& between) {
    engine_.Await([](const auto& seen) { return seen.ingests + seen.imports == 1; });
    between();
    socket.Send(rest);
    return socket.ReadAll();
  }

  std::string keys_;
  std::unique_ptr<access::Guard> guard_;
  std::unique_ptr<service::Server> service_;
};

// What each of them said of the same fault.
struct Told {
  absl::Status grpc;
  HttpError http;
};

class FaultTest : public FrontEndsTest {
 protected:
  Told AnotherStream() {
    const auto held = engine_.BeginIngest("d", false, {}).value();
    return {As("full")->IngestText("d", client::ReadFrom("x")).status(),
            Http("full", "PUT /v1/documents/d", "x")};
  }
  Told DeletedMeanwhile() {
    const auto remove = [&] { EXPECT_THAT(engine_.DeleteDocument("d"), IsOk()); };
    bool removed = false;
    const auto reader = [&](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
      if (offset > 0 && !std::exchange(removed, true)) remove();
      return std::string(16, 'x');
    };
    const absl::Status grpc = As("full")->IngestText("d", reader).status();
    engine_.Await([](const auto& seen) { return seen.ingests == 0; });
    const Socket socket(server_->address());
    socket.Send(Head("full", "PUT /v1/documents/d", 32) + std::string(16, 'x'));
    return {grpc, ErrorOf(SendInTwo(socket, std::string(16, 'x'), remove))};
  }
  Told Unfinished() {
    const auto stream = engine_.BeginIngest("d", false, {}).value();
    std::promise<void> taken;
    stream->Append(0, std::string(16, 'x'), [&](const auto&) { taken.set_value(); });
    taken.get_future().wait();
    return {As("full")->ReadText("d", 0, 1).status(), Http("full", "GET /v1/documents/d/text")};
  }
  Told NoKey() {
    return {As("none")->GetDocument("d").status(), Http("none", "GET /v1/documents/d")};
  }
  Told NoRight() {
    EXPECT_THAT(As("a")->GetDocument("b/1").status(), StatusIs(StatusCode::kPermissionDenied, ""));
    EXPECT_EQ(Http("a", "GET /v1/documents/b%2F1").code, "PERMISSION_DENIED");
    return {As("read")->DeleteDocument("d"), Http("read", "DELETE /v1/documents/d")};
  }
  Told TooManyDocuments() {
    engine_.AddDocument("q/1", "text of it");
    return {As("documents")->IngestText("q/2", client::ReadFrom("x")).status(),
            Http("documents", "PUT /v1/documents/q%2F2", "x")};
  }
  Told TooManySessions() {
    EXPECT_THAT(As("sessions")->OpenSession({}), IsOk());
    return {Generate("sessions"), HttpComplete("sessions")};
  }
  Told TooManyTokens() {
    EXPECT_THAT(Generate("tokens"), IsOk());
    return {Generate("tokens"), HttpComplete("tokens")};
  }
  Told Imported(const std::string& file, const std::string& key = "full",
                const std::string& id = "d") {
    return {As(key)->ImportDocument(id, client::ReadFrom(file)).status(),
            Http(key, absl::StrCat("PUT /v1/documents/", id, "/import"), file)};
  }
  Told RevokedMeanwhile() {
    const std::string file = File("some text");
    bool revoked = false;
    const auto reader = [&](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
      if (offset == 0) return file.substr(0, 20);
      if (!std::exchange(revoked, true)) Revoke("full");
      return file.substr(static_cast<size_t>(offset));
    };
    const absl::Status grpc = As("full")->ImportDocument("d", reader).status();
    engine_.Await([](const auto& seen) { return seen.imports == 0; });
    Restore("full");
    const Socket socket(server_->address());
    socket.Send(Head("full", "PUT /v1/documents/d/import", file.size()) + file.substr(0, 20));
    const HttpError http = ErrorOf(SendInTwo(socket, file.substr(20), [&] { Revoke("full"); }));
    Restore("full");
    return {grpc, http};
  }
  Told IsThere() {
    engine_.AddDocument("d", "text of it");
    return Imported(File("some text"));
  }
  Told BadMetadata() {
    engine_.AddDocument("d", "text of it");
    v1::SetMetadataRequest request;
    request.set_id("d");
    request.set_metadata(R"({"tags":["x"]})");
    return {As("full")->SetMetadata(request).status(),
            Http("full", "PUT /v1/documents/d/metadata", request.metadata())};
  }
  Told BadFilter() {
    return {As("full")->ListDocuments(1, "", "{}").status(),
            Http("full", "GET /v1/documents?filter=%7B%7D")};
  }
  Told NothingMatches() {
    engine_.AddDocument("d", "text of it");
    const std::string filter = R"({"type":"eq","key":"year","value":1})";
    v1::RetrieveRequest request;
    request.mutable_session()->add_mounts("*");
    request.mutable_session()->set_mount_filter(filter);
    request.mutable_query()->set_text("x");
    return {As("full")->Retrieve(request).status(),
            Http("full", "POST /v1/retrieve",
                 absl::StrCat(R"({"query":"x","mounts":["*"],"mount_filter":)", filter, "}"))};
  }
  Told Refreshed() {
    return {As("full")->RefreshDocument("d").status(), Http("full", "PUT /v1/documents/d/refresh")};
  }
  Told RefreshOfTokens() {
    const auto stream = engine_.BeginIngest("d", /*from_tokens=*/true, {}).value();
    std::promise<void> published;
    stream->AppendTokens(
        0, {5}, [&](const auto&) { stream->Finish([&](const auto&) { published.set_value(); }); });
    published.get_future().wait();
    return Refreshed();
  }
  Told RefreshOfWhatIsDeleted() {
    engine_.deletes_during_refresh = true;
    engine_.AddDocument("d", "text of it");
    const absl::Status grpc = As("full")->RefreshDocument("d").status();
    engine_.AddDocument("d", "text of it");
    const HttpError http = Http("full", "PUT /v1/documents/d/refresh");
    engine_.deletes_during_refresh = false;
    return {grpc, http};
  }
  Told RefreshBesideAnother() {
    const auto held = engine_.BeginIngest("d", false, {}).value();
    return Refreshed();
  }
  Told TooManyIngests() {
    engine_.max_ingests = 0;
    const Told told = {As("full")->IngestText("d", client::ReadFrom("x")).status(),
                       Http("full", "PUT /v1/documents/d", "x")};
    engine_.max_ingests = 1 << 20;
    return told;
  }

  Told SavedOverAnother() {
    engine_.AddDocument("d", "another text");
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("a prompt");
    request.set_max_tokens(1);
    request.mutable_save_as()->set_document_id("d");
    return {As("full")->Generate(request).status(),
            Http("full", "POST /v1/completions", R"({"prompt": "a prompt", "save_as": "d"})")};
  }

  std::map<std::string, std::function<Told()>> Cases() {
    return {
        {"another stream writes the id now", [this] { return AnotherStream(); }},
        {"deleted while it was ingested", [this] { return DeletedMeanwhile(); }},
        {"not ingested to its end", [this] { return Unfinished(); }},
        {"no key, or a wrong one", [this] { return NoKey(); }},
        {"the right is missing, or the id has another prefix", [this] { return NoRight(); }},
        {"max_documents, max_bytes", [this] { return TooManyDocuments(); }},
        {"max_sessions", [this] { return TooManySessions(); }},
        {"tokens_per_minute", [this] { return TooManyTokens(); }},
        {"the document of another model", [this] { return Imported(File("some text", "other")); }},
        {"the id is there, or an unfinished ingest has it", [this] { return IsThere(); }},
        {"the file is cut or damaged anywhere",
         [this] { return Imported(File("some text").substr(0, 100)); }},
        {"another file", [this] { return Imported("some text"); }},
        {"the text in it is not UTF-8", [this] { return Imported(File("abc\xff")); }},
        {"the id, also that in the file, is outside the key's prefix",
         [this] { return Imported(File("some text"), "a"); }},
        {"the key is revoked meanwhile", [this] { return RevokedMeanwhile(); }},
        {"a list, an object or null as a value; too many keys or bytes",
         [this] { return BadMetadata(); }},
        {"a filter that is none, or nested deeper than 8", [this] { return BadFilter(); }},
        {"nothing matches --mount-where", [this] { return NothingMatches(); }},
        {"it was ingested as token ids", [this] { return RefreshOfTokens(); }},
        {"it is deleted meanwhile", [this] { return RefreshOfWhatIsDeleted(); }},
        {"somebody else refreshes or ingests that id", [this] { return RefreshBesideAnother(); }},
        {"save_as or SaveSession, and the document of that id has another text than this one "
         "begins "
         "with",
         [this] { return SavedOverAnother(); }},
        {"ingests", [this] { return TooManyIngests(); }}};
  }
};

TEST_F(FaultTest, BothTellWhatThePageSays) {
  const std::map<std::string, std::string> promises = Promises();
  ASSERT_GE(promises.size(), 15u);
  std::set<std::string> tried = kOfOneOnly;
  for (const auto& [fault, run] : Cases()) {
    SCOPED_TRACE(fault);
    tried.insert(fault);
    const auto promise = promises.find(fault);
    ASSERT_NE(promise, promises.end());
    const std::string code = CodeIn(promise->second);
    const Told told = run();
    EXPECT_EQ(absl::StatusCodeToString(told.grpc.code()), code) << told.grpc;
    EXPECT_EQ(told.http.code, code) << told.http.message;
    // The status of HTTP, where the row has it.
    for (const absl::string_view word : absl::StrSplit(promise->second, absl::ByAnyChar(" ,;"))) {
      int status = 0;
      if (absl::SimpleAtoi(word, &status) && status >= 400 && status < 600) {
        EXPECT_EQ(told.http.status, status);
      }
    }
    engine_.Await([](const auto& seen) { return seen.ingests + seen.imports == 0; });
    engine_.DeleteDocument("d").IgnoreError();
  }
  for (const auto& [fault, says] : promises)
    EXPECT_TRUE(tried.contains(fault)) << "not tried here: " << fault;
}

// Of all errors of the engine.
TEST_F(FrontEndsTest, EveryCodeIsThatOfBothAndHasItsStatus) {
  std::map<std::string, std::string> statuses;  // by code
  for (const std::vector<std::string>& row : Rows("http.md", "| HTTP | code |")) {
    for (const absl::string_view word : absl::StrSplit(row[1], '`'))
      statuses[std::string(word)] = row[0];
  }
  for (int code = 1; code <= 16; ++code) {
    const absl::Status error(static_cast<absl::StatusCode>(code), "what happened");
    const std::string name = absl::AsciiStrToLower(absl::StatusCodeToString(error.code()));
    engine_.Set({.error = error});
    const absl::Status grpc = As("full")->GetDocument("d").status();
    const HttpError http = Http("full", "GET /v1/documents/d");
    EXPECT_EQ(grpc, error);
    EXPECT_EQ(http.code, absl::StatusCodeToString(error.code()));
    EXPECT_EQ(http.message, "what happened");
    ASSERT_TRUE(statuses.contains(name)) << name << " is missing in docs/http.md";
    EXPECT_TRUE(absl::StrContains(statuses[name], absl::StrCat(http.status)))
        << name << ": " << http.status;
  }
}

}  // namespace
}  // namespace recollect
