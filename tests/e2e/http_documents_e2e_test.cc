// Documents over HTTP, by curl as people use it, over the real engine.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The beginning of the books that come with the project.
std::string BookText(size_t bytes) {
  std::string text =
      RunProcess({"sh", "-c",
                  absl::StrCat("xz -dc '" RECOLLECT_SOURCE_DIR "/examples/books.txt.xz' | head -c ",
                               bytes)})
          .out;
  while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0x80) != 0) text.pop_back();
  return text;
}

class HttpDocumentsE2eTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    StartHttp();
  }
  std::string Url(const std::string& path) const { return absl::StrCat("http://", http_, path); }

  struct Reply {
    int status = 0;
    std::string body;
    json parsed() const { return json::parse(body, nullptr, false); }
  };
  Reply Curl(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"curl", "-sS", "-w", "\n%{http_code}"});
    const ProcessResult result = RunProcess(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const size_t end = result.out.rfind('\n');
    return {atoi(result.out.c_str() + end + 1), result.out.substr(0, end)};
  }
  static std::string Range(int64_t begin, int64_t end, size_t total) {
    return absl::StrCat("Content-Range: bytes ", begin, "-", end - 1, "/", total);
  }

  // That `id` is what gRPC makes of the same text.
  void ExpectAsByGrpc(const std::string& id, const std::string& text) {
    const v1::Document document = client_->GetDocument(id).value();
    const v1::Document expected = client_->IngestText("grpc", client::ReadFrom(text)).value();
    EXPECT_EQ(document.fingerprint(), expected.fingerprint());
    EXPECT_EQ(document.sha256(), expected.sha256());
    EXPECT_EQ(document.tokens(), expected.tokens());
    EXPECT_EQ(document.chunks(), expected.chunks());
    EXPECT_EQ(document.stored_bytes(), expected.stored_bytes());
    const auto retrieve = [&](const std::string& mount) {
      v1::RetrieveRequest request;
      request.mutable_session()->add_mounts(mount);
      request.mutable_query()->set_text("the captain of the ship");
      auto response = client_->Retrieve(request).value();
      std::string hits;
      for (const v1::Retrieval& retrieval : response.retrievals())
        for (const v1::Hit& hit : retrieval.hits())
          absl::StrAppend(&hits, hit.chunk(), " ", hit.score(), " ", hit.text_begin(), "\n");
      return hits;
    };
    EXPECT_EQ(retrieve(id), retrieve("grpc"));
  }
};

TEST_F(HttpDocumentsE2eTest, ABookIsPutReadAndDeleted) {
  const std::string text = BookText(300'000);
  ASSERT_GT(text.size(), 290'000u) << "is xz installed?";
  const std::string book = Url("/v1/documents/my%2Fbook");
  const Reply put = Curl({"-T", File("book.txt", text), book});
  EXPECT_EQ(put.status, 201);
  EXPECT_EQ(put.parsed()["id"], "my/book");
  EXPECT_EQ(put.parsed()["bytes"], std::ssize(text));
  EXPECT_EQ(Curl({"-T", Path("book.txt"), book}).status, 200) << "the same again";
  EXPECT_EQ(Curl({Url("/v1/documents")}).parsed()["data"], json::array({put.parsed()}));
  EXPECT_TRUE(Curl({book + "/text"}).body == text);
  EXPECT_EQ(Curl({book + "/text?begin=1000&end=2000"}).body, text.substr(1000, 1000));
  ExpectAsByGrpc("my/book", text);
  EXPECT_EQ(Curl({"-T", File("other.txt", "other"), book}).status, 409);
  EXPECT_EQ(Curl({"-X", "DELETE", book}).parsed()["deleted"], true);
  EXPECT_EQ(Curl({book}).status, 404);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(HttpDocumentsE2eTest, ADocumentIsCarriedAsAFile) {
  const std::string text = BookText(300'000);
  ASSERT_EQ(Curl({"-T", File("book.txt", text), Url("/v1/documents/book")}).status, 201);
  const std::string file = Path("book.recollect");
  ASSERT_EQ(Curl({"-o", file, Url("/v1/documents/book/export")}).status, 200);
  // The same bytes as over gRPC.
  std::string by_grpc;
  ASSERT_TRUE(client_
                  ->ExportDocument("book",
                                   [&](const std::string& bytes) {
                                     by_grpc += bytes;
                                     return absl::OkStatus();
                                   })
                  .ok());
  EXPECT_TRUE(ReadFile(file) == by_grpc);
  const Reply copy = Curl({"-T", file, Url("/v1/documents/copy/import")});
  EXPECT_EQ(copy.status, 201) << copy.body;
  EXPECT_EQ(copy.parsed()["id"], "copy");
  EXPECT_TRUE(Curl({Url("/v1/documents/copy/text")}).body == text);
  ExpectAsByGrpc("copy", text);
  const auto retrieved = [&](const std::string& id) {
    json reply = Curl({Url("/v1/retrieve"), "-d",
                       json({{"query", text.substr(1000, 200)}, {"mounts", {id}}}).dump()})
                     .parsed();
    for (json& retrieval : reply["data"]) {
      for (json& hit : retrieval["hits"]) {
        hit.erase("document");
        hit.erase("tier");
      }
    }
    return reply;
  };
  const json expected = retrieved("book");
  ASSERT_FALSE(expected["data"].empty());
  EXPECT_EQ(retrieved("copy"), expected);
  EXPECT_EQ(Curl({"-T", file, Url("/v1/documents/copy/import")}).status, 409);
  EXPECT_EQ(Curl({"-T", Path("book.txt"), Url("/v1/documents/new/import")}).status, 400);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(HttpDocumentsE2eTest, AnUploadThatIsBrokenOffIsResumed) {
  const std::string text = BookText(400'000);
  const std::string book = Url("/v1/documents/book");
  int64_t committed = 0;
  {
    BackgroundProcess curl({"curl", "-sSN", "--limit-rate", "150K", "-T", File("book.txt", text),
                            "-H", "Accept: application/x-ndjson", book});
    while (committed == 0) {
      const json line = json::parse(curl.ReadLine(), nullptr, false);
      ASSERT_TRUE(line.contains("committed_bytes")) << line;
      committed = line["committed_bytes"];
    }
    curl.Signal(SIGKILL);
    curl.Wait();
  }
  // 409 until the server has seen that the client is gone.
  Reply resumed{409, ""};
  while (resumed.status == 409) {
    committed = Curl({book}).parsed()["committed_bytes"];
    resumed = Curl({"-T", File("rest.txt", text.substr(static_cast<size_t>(committed))), "-H",
                    Range(committed, std::ssize(text), text.size()), book});
    if (resumed.status == 409) {
      ASSERT_EQ(resumed.parsed()["error"]["code"], "aborted") << resumed.body;
    }
    if (resumed.status == 416) resumed.status = 409;  // it committed once more meanwhile
  }
  EXPECT_EQ(resumed.status, 201) << resumed.body;
  // What the first one had read beyond its last commit was read twice, and no more.
  EXPECT_LT(client_->GetStats()->ingested_tokens(),
            resumed.parsed()["tokens"].get<int64_t>() + 3 * 16384);
  EXPECT_TRUE(Curl({book + "/text"}).body == text);
  ExpectAsByGrpc("book", text);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(HttpDocumentsE2eTest, PartsThatFollowEachOtherMakeTheSameDocument) {
  const std::string text = BookText(300'000);
  const auto total = std::ssize(text);
  int64_t begin = 0, parts = 0;
  for (Reply reply{202, ""}; reply.status == 202; ++parts) {
    ASSERT_LT(parts, 20);
    const int64_t end = std::min<int64_t>(total, begin + (64 << 10));
    const std::string part =
        text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    reply = Curl({"-T", File("part.txt", part), "-H", Range(begin, end, text.size()),
                  Url("/v1/documents/book")});
    ASSERT_EQ(reply.status, end < total ? 202 : 201) << reply.body;
    if (end < total) begin = reply.parsed()["committed_bytes"];
  }
  EXPECT_GE(parts, 5);
  ExpectAsByGrpc("book", text);
  EXPECT_EQ(StopServer(), 0);
}

// What docs/http.md says about documents works as it stands there.
TEST_F(HttpDocumentsE2eTest, TheExamplesOfThePageWork) {
  const std::string page = ReadFile(RECOLLECT_SOURCE_DIR "/docs/http.md");
  const size_t begin = page.find("\n## Documents\n");
  ASSERT_NE(begin, std::string::npos);
  File("book.txt", BookText(20'000));
  const std::string books = Path("books.txt.xz");
  ASSERT_EQ(RunProcess({"sh", "-c",
                        absl::StrCat("mkdir -p ", Path("examples"), " && xz -z < ",
                                     Path("book.txt"), " > ", Path("examples"), "/books.txt.xz")})
                .exit_code,
            0);
  int examples = 0;
  bool shell = false;
  for (const absl::string_view line :
       absl::StrSplit(page.substr(begin, page.find("\n## ", begin + 1) - begin), '\n')) {
    if (absl::StartsWith(line, "```")) {
      shell = line == "```sh";
    } else if (shell) {
      const std::string command = absl::StrReplaceAll(
          line, {{"127.0.0.1:8080", http_}, {"curl ", "curl -sS --fail-with-body "}});
      const ProcessResult result =
          RunProcess({"sh", "-c", absl::StrCat("cd ", directory_.string(), " && ", command)});
      EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.out << result.err;
      EXPECT_EQ(result.out.empty(), absl::StrContains(line, " -o ")) << command;
      ++examples;
    }
  }
  EXPECT_GE(examples, 6);
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
