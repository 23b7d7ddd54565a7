// GET and DELETE of documents over the fake engine.
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpDocumentsTest : public HttpTest {
 protected:
  // Leaves an ingest behind that is not finished.
  void BeginIngest(const std::string& id, const std::string& text) {
    auto stream = engine_.BeginIngest(id, /*from_tokens=*/false, {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    std::promise<absl::Status> done;
    (*stream)->Append(0, text, [&](const auto& status) { done.set_value(status.status()); });
    ASSERT_EQ(done.get_future().get(), absl::OkStatus());
  }
  static std::string Delete(const std::string& path) {
    return absl::StrCat("DELETE ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }
};

TEST_F(HttpDocumentsTest, ADocumentIsDescribed) {
  engine_.AddDocument("a/b \xc3\xa9", "a document of some length");
  const json document = Body(Ask(Get("/v1/documents/a%2Fb%20%C3%A9")));
  EXPECT_EQ(document["id"], "a/b \xc3\xa9");
  EXPECT_EQ(document["object"], "document");
  EXPECT_EQ(document["bytes"], 25);
  EXPECT_EQ(document["tokens"], 25);
  EXPECT_EQ(document["chunks"], 3);
  EXPECT_EQ(document["fingerprint"], "fake");
  EXPECT_EQ(document["pattern"], nullptr);
  Sha256 hash;
  hash.Update("a document of some length");
  EXPECT_EQ(document["sha256"], hash.Hex());
}

TEST_F(HttpDocumentsTest, AnUnfinishedIngestIsDescribedAsOne) {
  BeginIngest("half", "more than sixteen bytes");
  const json ingest = Body(Ask(Get("/v1/documents/half")));
  EXPECT_EQ(ingest["object"], "ingest");
  EXPECT_EQ(ingest["committed_bytes"], 16);
  EXPECT_EQ(ingest["tokens"], 16);
  EXPECT_THAT(Ask(Get("/v1/documents/half/text")), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpDocumentsTest, ListsComePageByPageWithIngestsInTheirPlaces) {
  EXPECT_EQ(Body(Ask(Get("/v1/documents"))), json({{"object", "list"},
                                                   {"data", json::array()},
                                                   {"ingests", json::array()},
                                                   {"has_more", false},
                                                   {"last_id", nullptr}}));
  for (const char* id : {"a", "b", "d", "e&f"}) engine_.AddDocument(id, "text");
  BeginIngest("c", "more than sixteen bytes");
  std::vector<std::string> seen;
  std::string after;
  for (json page = {{"has_more", true}}; page["has_more"];) {
    page = Body(Ask(Get("/v1/documents?limit=2&after=" + after)));
    for (const char* list : {"data", "ingests"})
      for (const json& entry : page[list])
        seen.push_back(
            absl::StrCat(entry["object"].get<std::string>(), " ", entry["id"].get<std::string>()));
    after = page["last_id"] == "e&f" ? "e%26f" : page["last_id"].get<std::string>();
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"document a", "document b", "document d", "ingest c",
                                            "document e&f"}));
  EXPECT_EQ(Body(Ask(Get("/v1/documents?after=e%26f")))["data"], json::array());
}

TEST_F(HttpDocumentsTest, TextIsReadByItsBytes) {
  engine_.AddDocument("d", "caf\xc3\xa9 noir");
  const auto text = [&](const std::string& range) {
    const std::string answer = Ask(Get("/v1/documents/d/text" + range));
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; charset=utf-8\r\n")) << range;
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  EXPECT_EQ(text(""), "caf\xc3\xa9 noir");
  EXPECT_EQ(text("?begin=6"), "noir");
  EXPECT_EQ(text("?begin=1&end=4"), "af\xc3");
  EXPECT_EQ(text("?begin=10"), "");
}

TEST_F(HttpDocumentsTest, ALongTextComesWhole) {
  std::string text;
  while (text.size() < 3'000'000) absl::StrAppend(&text, "line ", text.size(), "\n");
  engine_.AddDocument("d", text);
  const std::string answer = Ask(Get("/v1/documents/d/text"));
  EXPECT_THAT(answer.substr(0, 1000), HasSubstr("\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(Chunks(answer) == text);
  EXPECT_TRUE(Chunks(Ask(Get("/v1/documents/d/text?begin=7&end=2999999"))) ==
              text.substr(7, 2'999'992));
}

// What a slow reader has not taken is not read from the store: the rest belongs to another text.
TEST_F(HttpDocumentsTest, ATextThatIsReplacedWhileItIsReadIsCut) {
  const std::string text(8 << 20, 'x');
  engine_.AddDocument("d", text);
  const Socket socket(server_->address(), /*receive_bytes=*/4096);
  socket.Send(Get("/v1/documents/d/text"));
  socket.ReadUntil("xxxx");
  engine_.AddDocument("d", std::string(8 << 20, 'y'));
  const std::string rest = socket.ReadAll();
  EXPECT_LT(rest.size(), text.size());
  EXPECT_EQ(rest.find('y'), std::string::npos);
  EXPECT_FALSE(rest.ends_with("0\r\n\r\n"));
}

TEST_F(HttpDocumentsTest, AReaderThatGoesEndsItsText) {
  engine_.AddDocument("d", std::string(8 << 20, 'x'));
  {
    const Socket socket(server_->address(), /*receive_bytes=*/4096);
    socket.Send(Get("/v1/documents/d/text"));
    socket.ReadUntil("xxxx");
  }
  server_.reset();  // waits for all that runs
}

TEST_F(HttpDocumentsTest, DeleteForgetsDocumentsAndIngests) {
  engine_.AddDocument("a/b", "text");
  BeginIngest("half", "more than sixteen bytes");
  EXPECT_EQ(Body(Ask(Delete("/v1/documents/a%2Fb"))),
            json({{"id", "a/b"}, {"object", "document"}, {"deleted", true}}));
  EXPECT_THAT(Ask(Delete("/v1/documents/half")), StartsWith("HTTP/1.1 200"));
  for (const char* path : {"/v1/documents/a%2Fb", "/v1/documents/half"}) {
    EXPECT_THAT(Ask(Delete(path)), StartsWith("HTTP/1.1 404")) << path;
    EXPECT_THAT(Ask(Get(path)), StartsWith("HTTP/1.1 404")) << path;
  }
}

TEST_F(HttpDocumentsTest, BadRequestsAreNamed) {
  engine_.AddDocument("d", "text");
  const std::tuple<std::string, int, std::string> cases[] = {
      {"/v1/documents?limit=0", 400, "limit: 0, limit 1 to 1000"},
      {"/v1/documents?limit=1001", 400, "limit: 1001, limit 1 to 1000"},
      {"/v1/documents?limit=many", 400, "limit: 'many', expected an integer"},
      {"/v1/documents?page=2", 400, "unrecognized query parameter: 'page'"},
      {"/v1/documents/d?x", 400, "unrecognized query parameter: 'x'"},
      {"/v1/documents/d/text?from=2", 400, "unrecognized query parameter: 'from'"},
      {"/v1/documents/d/text?begin=2.5", 400, "begin: '2.5', expected an integer"},
      {"/v1/documents/d/text?begin=-1", 416, "begin, end: -1, 4 of a text of 4 bytes"},
      {"/v1/documents/d/text?begin=3&end=2", 416, "begin, end: 3, 2 of a text of 4 bytes"},
      {"/v1/documents/d/text?end=5", 416, "begin, end: 0, 5 of a text of 4 bytes"},
      {"/v1/documents/other/text", 404, "other"},
      {"/v1/documents/a%00b", 404, "a"},
      {"/v1/documents/", 404, "there is no '/v1/documents/'"},
      {"/v1/documents/%2", 400, "without two hexadecimal digits"},
      {"/v1/documents/d/text/more", 404, "there is no"}};
  for (const auto& [path, status, message] : cases) {
    const std::string answer = Ask(Get(path));
    EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << path;
    EXPECT_THAT(Body(answer)["error"]["message"].get<std::string>(), HasSubstr(message)) << path;
  }
  EXPECT_THAT(Ask(Delete("/v1/documents/d?x")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(Delete("/v1/documents")), HasSubstr("\r\nAllow: GET\r\n"));
  EXPECT_THAT(Ask(Post("/v1/documents/d", "")), HasSubstr("\r\nAllow: GET, PUT, DELETE\r\n"));
}

TEST_F(HttpDocumentsTest, ErrorsOfTheStoreHaveTheirStatus) {
  engine_.Set({.error = absl::DataLossError("record of \"d\" is damaged")});
  for (const char* path : {"/v1/documents", "/v1/documents/d", "/v1/documents/d/text"}) {
    const std::string answer = Ask(Get(path));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 500")) << path;
    EXPECT_EQ(Body(answer)["error"]["code"], "data_loss");
  }
}

}  // namespace
}  // namespace recollect
