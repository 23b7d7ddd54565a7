// GET and DELETE of documents over the fake engine.
#include <future>
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
  // `header`: a whole line.
  static std::string Get(const std::string& path, const std::string& header = "",
                         const std::string& method = "GET") {
    return absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: x\r\n", header,
                        header.empty() ? "" : "\r\n", "Connection: close\r\n\r\n");
  }
  static std::string Content(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
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

TEST_F(HttpDocumentsTest, MetadataIsReplacedPatchedAndSearched) {
  engine_.AddDocument("a/b", "text");
  engine_.AddDocument("c", "text");
  BeginIngest("half", "more than sixteen bytes");
  EXPECT_EQ(Body(Ask(Get("/v1/documents/c")))["metadata"], json::object());
  const auto send = [&](const std::string& method, const std::string& body,
                        const std::string& path = "/v1/documents/a%2Fb/metadata") {
    return Ask(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
                            "Content-Length: ", body.size(), "\r\n\r\n", body));
  };
  const json put = Body(send("PUT", R"({"year": 1851, "lang": "en"})"));
  EXPECT_EQ(put["id"], "a/b");
  EXPECT_EQ(put["metadata"], json({{"year", 1851}, {"lang", "en"}}));
  EXPECT_EQ(Body(send("PATCH", R"({"lang": null, "draft": true})"))["metadata"],
            json({{"year", 1851}, {"draft", true}}));
  EXPECT_EQ(Body(Ask(Get("/v1/documents/a%2Fb")))["metadata"],
            json({{"year", 1851}, {"draft", true}}));
  const std::string nested = send("PUT", R"({"year": {"from": 1}})");
  EXPECT_THAT(nested, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(Body(nested)["error"]["param"], "metadata");
  EXPECT_THAT(nested, HasSubstr("key \\\"year\\\": object, expected a string"));
  EXPECT_THAT(send("PATCH", ""), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(send("PUT", "{}", "/v1/documents/none/metadata"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(send("PUT", "{}", "/v1/documents/c/metadata?x=1"), HasSubstr("unrecognized query"));
  EXPECT_THAT(send("POST", "{}"), HasSubstr("Allow: PUT, PATCH"));

  const json page =
      Body(Ask(Get("/v1/documents?filter=%7B%22type%22%3A%22lt%22%2C%22key%22%3A%22"
                   "year%22%2C%22value%22%3A1900%7D")));
  ASSERT_EQ(page["data"].size(), 1u);
  EXPECT_EQ(page["data"][0]["id"], "a/b");
  EXPECT_EQ(page["ingests"], json::array());
  EXPECT_EQ(page["has_more"], false);
  const std::string bad = Ask(Get("/v1/documents?filter=%7B%7D"));
  EXPECT_THAT(bad, HasSubstr("filter: type is missing"));
  EXPECT_EQ(Body(bad)["error"]["param"], "filter");
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
    return Content(answer);
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
  EXPECT_THAT(answer.substr(0, 1000),
              HasSubstr(absl::StrCat("\r\nContent-Length: ", text.size(), "\r\n")));
  EXPECT_TRUE(Content(answer) == text);
  EXPECT_TRUE(Content(Ask(Get("/v1/documents/d/text?begin=7&end=2999999"))) ==
              text.substr(7, 2'999'992));
}

TEST_F(HttpDocumentsTest, ARangeOfATextIsAnswered) {
  engine_.AddDocument("d", "0123456789");
  struct Case {
    std::string range, content_range, content;
  };
  const Case cases[] = {{"bytes=0-0", "bytes 0-0/10", "0"},
                        {"bytes=2-5", "bytes 2-5/10", "2345"},
                        {"Bytes=7-", "bytes 7-9/10", "789"},
                        {"bytes=-3", "bytes 7-9/10", "789"},
                        {"bytes=-30", "bytes 0-9/10", "0123456789"},
                        {"bytes=8-99999999999999999999", "bytes 8-9/10", "89"}};
  for (const auto& [range, content_range, content] : cases) {
    const std::string answer = Ask(Get("/v1/documents/d/text", "Range: " + range));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 206 Partial Content\r\n")) << range;
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Range: " + content_range + "\r\n")) << range;
    EXPECT_THAT(answer, HasSubstr(absl::StrCat("\r\nContent-Length: ", content.size(), "\r\n")));
    EXPECT_EQ(Content(answer), content) << range;
  }
}

// As RFC 9110 has it: what cannot be read, or is of another unit, is no request for a part, and one
// for several parts may be answered with all.
TEST_F(HttpDocumentsTest, WhatIsNoSingleRangeIsAnsweredWhole) {
  engine_.AddDocument("d", "0123456789");
  for (const char* range : {"bytes=0-1,4-5", "lines=1-2", "bytes=5-2", "bytes=", "bytes=-", "bytes",
                            "bytes=a-b", "bytes=1-b", "bytes=+1-2", "bytes=1"}) {
    const std::string answer = Ask(Get("/v1/documents/d/text", absl::StrCat("Range: ", range)));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n")) << range;
    EXPECT_THAT(answer, HasSubstr("\r\nAccept-Ranges: bytes\r\n"));
    EXPECT_EQ(Content(answer), "0123456789") << range;
  }
}

TEST_F(HttpDocumentsTest, ARangeBehindTheEndNamesBothValues) {
  engine_.AddDocument("d", "0123456789");
  for (const char* range : {"bytes=10-", "bytes=99999999999999999999-", "bytes=-0"}) {
    const std::string answer = Ask(Get("/v1/documents/d/text", absl::StrCat("Range: ", range)));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 416 ")) << range;
    EXPECT_THAT(answer, HasSubstr("\r\nContent-Range: bytes */10\r\n"));
    EXPECT_EQ(Body(answer)["error"]["message"],
              absl::StrCat("Range: '", absl::string_view(range).substr(6),
                           "', nothing of it is among 10 bytes"));
  }
}

TEST_F(HttpDocumentsTest, ARangeCountsWithinWhatTheQueryAsksFor) {
  engine_.AddDocument("d", "0123456789");
  const std::string answer = Ask(Get("/v1/documents/d/text?begin=4&end=8", "Range: bytes=1-2"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Range: bytes 1-2/4\r\n"));
  EXPECT_EQ(Content(answer), "56");
}

// Whoever goes on with a copy learns that it is of another text.
TEST_F(HttpDocumentsTest, ARangeForACopyOfAnotherTextIsAnsweredWhole) {
  engine_.AddDocument("d", "0123456789");
  const std::string answer = Ask(Get("/v1/documents/d/text"));
  const size_t begin = answer.find("ETag: ") + 6;
  const std::string tag = answer.substr(begin, answer.find('\r', begin) - begin);
  const std::string same = "Range: bytes=8-\r\nIf-Range: " + tag;
  EXPECT_EQ(Content(Ask(Get("/v1/documents/d/text", same))), "89");
  engine_.AddDocument("d", "abcdefghij");
  EXPECT_EQ(Content(Ask(Get("/v1/documents/d/text", same))), "abcdefghij");
}

TEST_F(HttpDocumentsTest, HeadIsAnsweredWithoutTheBody) {
  engine_.AddDocument("d", std::string(3'000'000, 'x'));
  const std::string text = Ask(Get("/v1/documents/d/text", "Range: bytes=0-1", "HEAD"));
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));  // Range is for GET alone
  EXPECT_THAT(text, HasSubstr("\r\nContent-Length: 3000000\r\n"));
  EXPECT_EQ(Content(text), "");
  for (const char* path : {"/v1/documents", "/v1/documents/d", "/v1/documents/d/export"}) {
    const std::string head = Ask(Get(path, "", "HEAD"));
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n")) << path;
    EXPECT_EQ(Content(head), "") << path;
  }
  const std::string missing = Ask(Get("/v1/documents/other", "", "HEAD"));
  EXPECT_THAT(missing, StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(Content(missing), "");
  // The next request on the connection is read where this one ended.
  const Socket socket(server_->address());
  socket.Send("HEAD /v1/documents/d/text HTTP/1.1\r\nHost: x\r\n\r\n");
  socket.ReadUntil("\r\n\r\n");
  socket.Send(Get("/livez"));
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 200 OK\r\n"));
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
      {"/chat/completions", 404, "no '/chat/completions'; did you mean '/v1/chat/completions'?"},
      {"/v1/documents/%2", 400, "without two hexadecimal digits"},
      {"/v1/documents/d/text/more", 404,
       "more'; a slash within the id of a document is %2F in a path"}};
  for (const auto& [path, status, message] : cases) {
    const std::string answer = Ask(Get(path));
    EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << path;
    EXPECT_THAT(Body(answer)["error"]["message"].get<std::string>(), HasSubstr(message)) << path;
  }
  EXPECT_THAT(Ask(Delete("/v1/documents/d?x")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(Delete("/v1/documents")), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask(Post("/v1/documents/d", "")), HasSubstr("\r\nAllow: GET, HEAD, PUT, DELETE\r\n"));
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
