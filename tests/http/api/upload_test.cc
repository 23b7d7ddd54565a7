// PUT of documents over the fake engine: bodies, parts, progress, what is refused.
#include <vector>

#include "base/sha256.h"
#include "tests/http/api/upload_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpUploadTest, ATextBecomesADocument) {
  std::string text;
  while (text.size() < 200'000) absl::StrAppend(&text, "line ", text.size(), "\n");
  const std::string answer = Ask(Put("/v1/documents/a%2Fb", text));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 201 Created\r\n"));
  EXPECT_EQ(Body(answer)["id"], "a/b");
  EXPECT_EQ(Body(answer), Body(Ask(Get("/v1/documents/a%2Fb"))));
  EXPECT_TRUE(Text("a/b") == text);
  EXPECT_EQ(engine_.seen().peer, "127.0.0.1");
  EXPECT_THAT(Ask(Put("/v1/documents/a%2Fb", text)), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpUploadTest, ABodyInChunksAndTheNextRequestBehindIt) {
  const Socket socket(server_->address());
  socket.Send(absl::StrCat(PutHead("/v1/documents/d", "Transfer-Encoding: chunked\r\n\r\n"),
                           Chunk("caf\xc3"), Chunk("\xa9 noir"), "0\r\n\r\n",
                           Get("/v1/documents/d/text")));
  const std::string answers = socket.ReadAll();
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 201"));
  EXPECT_TRUE(answers.ends_with("caf\xc3\xa9 noir"));
}

TEST_F(HttpUploadTest, ContinueIsSaidOnlyToBodiesThatAreTaken) {
  const std::string expects = "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
  const Socket taken(server_->address());
  taken.Send(PutHead("/v1/documents/d", kClose + expects));
  EXPECT_EQ(taken.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  taken.Send("text");
  EXPECT_THAT(taken.ReadAll(), StartsWith("HTTP/1.1 201"));
  const Socket refused(server_->address());
  refused.Send(PutHead("/v1/documents/e", Range("5-8/9") + expects));
  EXPECT_THAT(refused.ReadUntil("}}"), StartsWith("HTTP/1.1 416"));
}

TEST_F(HttpUploadTest, PartsFollowEachOtherAndTheLastPublishes) {
  const std::string text(250, 'x');
  std::string answer = Ask(Put("/v1/documents/d", text.substr(0, 100), Range("0-99/250")));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 202 Accepted\r\n"));
  EXPECT_EQ(Body(answer), json({{"id", "d"},
                                {"object", "ingest"},
                                {"accepted_bytes", 100},
                                {"committed_bytes", 100},
                                {"tokens", 100},
                                {"chunks", 10},
                                {"tokens_per_s", 1000.0}}));
  EXPECT_EQ(Committed("d"), 100);
  answer = Ask(Put("/v1/documents/d", text.substr(100, 77), Range("100-176/250")));
  EXPECT_EQ(Body(answer)["committed_bytes"], 177);
  answer = Ask(Put("/v1/documents/d", text.substr(177), Range("177-249/250")));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 201"));
  EXPECT_EQ(Text("d"), text);
  EXPECT_THAT(Ask(Put("/v1/documents/e", "text", Range("0-3/*"))), StartsWith("HTTP/1.1 201"));
}

TEST_F(HttpUploadTest, APartThatBeginsElsewhereIsToldWhere) {
  Ask(Put("/v1/documents/d", std::string(100, 'x'), Range("0-99/250")));
  for (const char* range : {"0-9/250", "99-108/250", "101-110/*"}) {
    const std::string request = Put("/v1/documents/d", std::string(10, 'x'), Range(range));
    ExpectError(request, 416, absl::StrCat("begins at byte ", atoi(range), ", expected 100"));
    EXPECT_THAT(Ask(request), HasSubstr("\r\nContent-Range: bytes */100\r\n"));
  }
  EXPECT_EQ(Committed("d"), 100);
  ExpectError(Put("/v1/documents/new", "x", Range("7-7/9")), 416, "byte 7, expected 0");
  EXPECT_TRUE(engine_.ListIngests()->size() == 1) << "nothing is left of the new one";
}

TEST_F(HttpUploadTest, ARangeThatIsNotThatOfItsBodyIsRefused) {
  ExpectError(Put("/v1/documents/d", "text", Range("0-4/9")), 400,
              "Content-Range: 5 bytes, Content-Length: 4");
  ExpectError(Put("/v1/documents/d", "text", Range("4-0/9")), 400, "comes before the first");
  ExpectError(Put("/v1/documents/d", "text", Range("zero")), 400, "expected 'bytes FIRST-LAST");
  const auto chunks = [](const std::string& range) {
    return absl::StrCat(
        PutHead("/v1/documents/d", Range(range) + "Transfer-Encoding: chunked\r\n\r\n"),
        Chunk("four"), Chunk("more"), "0\r\n\r\n");
  };
  ExpectError(chunks("0-8/9"), 400, "Content-Range: 9 bytes, the body has 8");
  ExpectError(chunks("0-4/5"), 400, "Content-Range: 5 bytes, the body has at least 8");
  AwaitNoIngest();
  EXPECT_THAT(Ask(chunks("0-7/8")), StartsWith("HTTP/1.1 201"));
}

TEST_F(HttpUploadTest, ProgressComesAsLines) {
  const std::string text(100'000, 'x');
  const std::string answer = Ask(Put("/v1/documents/d", text, kLines));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: application/x-ndjson\r\n"));
  const std::vector<json> lines = Lines(answer);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_GT(lines[0]["accepted_bytes"], 0);
  EXPECT_GT(lines[0]["committed_bytes"], 0);
  EXPECT_GT(lines[0]["tokens"], 0);
  EXPECT_GT(lines[0]["chunks"], 0);
  EXPECT_EQ(lines[0]["tokens_per_s"], 1000.0);
  EXPECT_EQ(lines.back()["document"], Body(Ask(Get("/v1/documents/d"))));
  EXPECT_TRUE(answer.ends_with("\r\n0\r\n\r\n"));

  const std::vector<json> part = Lines(
      Ask(Put("/v1/documents/e", "text", std::string(kLines) + "Content-Range: bytes 0-3/9\r\n")));
  EXPECT_EQ(part.back()["committed_bytes"], 4);
}

TEST_F(HttpUploadTest, AnErrorIsTheLastLineOrTheStatus) {
  const std::string late = absl::StrCat(std::string(100'000, 'x'), "\xff");
  const std::vector<json> lines = Lines(Ask(Put("/v1/documents/d", late, kLines)));
  EXPECT_THAT(lines.back()["error"]["message"].get<std::string>(), HasSubstr("byte 100000"));
  ExpectError(Put("/v1/documents/e", "\xff", kLines), 400, "not valid UTF-8 at byte 0");
  ExpectError(Put("/v1/documents/e", "x", std::string(kLines) + "Content-Range: bytes 1-1/2\r\n"),
              416, "expected 0");
}

TEST_F(HttpUploadTest, BadTextsAndIdsAreNamed) {
  ExpectError(Put("/v1/documents/d", "caf\xc3("), 400, "not valid UTF-8 at byte 3");
  ExpectError(Put("/v1/documents/d", "cut \xe2\x80"), 400, "not valid UTF-8 at byte 4");
  ExpectError(Put("/v1/documents/d", ""), 400, "no tokens");
  ExpectError(Put("/v1/documents/a%2Cb", "x"), 400, "commas");
  ExpectError(Put("/v1/documents/a%0Ab", "x"), 400, "control");
  ExpectError(Put("/v1/documents/%FF", "x"), 400, "id");
  ExpectError(Put("/v1/documents/" + std::string(257, 'x'), "x"), 400, "257");
  ExpectError(Put("/v1/documents/d?colour=red", "x"), 400, "'colour'");
  ExpectError(Put("/v1/documents/d?window=wide", "x"), 400, "window: 'wide'");
  ExpectError(Put("/v1/documents/d?dilation=4,,8", "x"), 400,
              "dilation: '4,,8', expected a number");
  ExpectError(Put("/v1/documents/d?dilation=1/b", "x"), 400, "dilation: '1/b'");
  ExpectError(Put("/v1/documents/d?dilation=1,0", "x"), 400, "dilation: 0, limit 1 to 4096");
  ExpectError(Put("/v1/documents/d?top_k_blocks=few", "x"), 400, "top_k_blocks: 'few'");
  AwaitNoIngest();
  EXPECT_TRUE(engine_.ListIngests()->empty());
}

TEST_F(HttpUploadTest, AFormIsNoText) {
  const std::string answer =
      Ask(Put("/v1/documents/d", "--x\r\n\r\nthe whale\r\n--x--",
              absl::StrCat(kClose, "Content-Type: multipart/form-data; boundary=x\r\n")));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 415 "));
  EXPECT_THAT(answer, HasSubstr("the body is the text itself"));
  EXPECT_THAT(Ask(Get("/v1/documents/d")), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpUploadTest, JsonIsATextOnlyIfItIsSentAsOne) {
  const std::string body = R"({"text": "the whale"})";
  const auto put = [&](const std::string& type) {
    return Ask(Put("/v1/documents/d", body, absl::StrCat(kClose, "Content-Type: ", type, "\r\n")));
  };
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8"}) {
    const std::string answer = put(type);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 415 "));
    EXPECT_THAT(answer, HasSubstr("the body is the text itself, without JSON around it"));
    EXPECT_THAT(answer, HasSubstr("is sent as 'text/plain'"));
    EXPECT_THAT(Ask(Get("/v1/documents/d")), StartsWith("HTTP/1.1 404")) << type;
  }
  EXPECT_THAT(put("text/plain"), StartsWith("HTTP/1.1 201 "));
  EXPECT_EQ(Text("d"), body);
  // What `curl --data-binary` says of any body.
  EXPECT_THAT(put("application/x-www-form-urlencoded"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpUploadTest, ThePatternReachesTheEngine) {
  Ask(Put("/v1/documents/d?dilation=4&window=64&initial=1&context=4096", "text"));
  const engine::SessionOptions seen = engine_.seen().ingest;
  EXPECT_EQ(seen.dilation, 4);
  EXPECT_EQ(seen.window, 64);
  EXPECT_EQ(seen.initial, 1);
  EXPECT_EQ(seen.context, 4096);
  Ask(Put("/v1/documents/e?dilation=16,-1,1/4&window=8,16&initial=0/1&top_k_blocks=3", "text"));
  const engine::SessionOptions by_layer = engine_.seen().ingest;
  EXPECT_EQ(by_layer.dilation, std::nullopt);
  EXPECT_EQ(by_layer.layer_dilations, (engine::LayerNumbers{{16}, {-1}, {1, 4}}));
  EXPECT_EQ(by_layer.layer_windows, (engine::LayerNumbers{{8}, {16}}));
  EXPECT_EQ(by_layer.layer_initials, (engine::LayerNumbers{{0, 1}}));
  EXPECT_EQ(by_layer.top_k_blocks, 3);
}

TEST_F(HttpUploadTest, AnIdWithOtherContentIsRefused) {
  engine_.AddDocument("d", "the whale swims");
  ExpectError(Put("/v1/documents/d", "the whale sings"), 409, "'d' exists with other content");
  EXPECT_EQ(Text("d"), "the whale swims");
}

TEST_F(HttpUploadTest, ADocumentIsReplacedWhereTheRequestSaysSo) {
  const auto put = [&](const std::string& text, const std::string& query,
                       const std::string& headers) {
    return Ask(Put("/v1/documents/d" + query, text, kClose + headers));
  };
  const auto tag = [](const std::string& text) {
    return absl::StrCat("\"", Sha256Hex(text), "\"");
  };
  EXPECT_THAT(put("one", "", "If-Match: *\r\n"), StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(put("one", "", "If-None-Match: *\r\n"), StartsWith("HTTP/1.1 201"));
  const std::string there = put("two", "", "If-None-Match: *\r\n");
  EXPECT_THAT(there, StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(there, HasSubstr(Sha256Hex("one")));
  EXPECT_THAT(put("two", "", "If-Match: " + tag("three") + "\r\n"), StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(put("two", "", "If-Match: W/" + tag("one") + "\r\n"), StartsWith("HTTP/1.1 412"));
  EXPECT_EQ(Text("d"), "one");
  EXPECT_THAT(put("two", "", "If-Match: " + tag("one") + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(engine_.seen().replacement->sha256, Sha256Hex("one")) << "if it changes meanwhile";
  EXPECT_EQ(Text("d"), "two");
  EXPECT_THAT(put("three", "?replace=true", ""), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(Text("d"), "three");
  EXPECT_THAT(put("four", "?replace=yes", ""), HasSubstr("replace: \\\"yes\\\", expected true"));
  EXPECT_THAT(put("four", "?replace=true", "Content-Range: bytes 0-3/8\r\n"),
              HasSubstr("sent in one request"));
  EXPECT_EQ(Text("d"), "three");
}

TEST_F(HttpUploadTest, ADocumentGoesOnWithWhatIsAppended) {
  const auto append = [&](const std::string& text, const std::string& query = "",
                          const std::string& headers = "") {
    return Ask(absl::StrCat("POST /v1/documents/d/append", query, " HTTP/1.1\r\nHost: x\r\n",
                            kClose, headers, "Content-Length: ", text.size(), "\r\n\r\n", text));
  };
  const auto tag = [](const std::string& text) {
    return absl::StrCat("If-Match: \"", Sha256Hex(text), "\"\r\n");
  };
  EXPECT_THAT(append("none", "", "If-Match: *\r\n"), StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(append("one"), StartsWith("HTTP/1.1 201"));
  const std::string longer = append(" two");
  EXPECT_THAT(longer, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(Body(longer)["bytes"], 7);
  EXPECT_EQ(Body(longer)["sha256"], Sha256Hex("one two"));
  EXPECT_THAT(append(" three", "", tag("one")), StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(append(" three", "", tag("one two")), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(engine_.seen().replacement->sha256, Sha256Hex("one two")) << "if it changes meanwhile";
  EXPECT_THAT(append(" three", "", tag("one two")), StartsWith("HTTP/1.1 412")) << "not twice";
  EXPECT_THAT(append("x", "", "Content-Range: bytes 0-0/1\r\n"),
              HasSubstr("a text that is appended to another is sent in one request"));
  EXPECT_THAT(append("x", "?replace=true"), HasSubstr("replace"));
  EXPECT_EQ(Text("d"), "one two three");
}

TEST_F(HttpUploadTest, AnAppendThatIsBrokenOffChangesNothing) {
  engine_.AddDocument("d", "the whale");
  {
    const Socket socket(server_->address());
    socket.Send(absl::StrCat("POST /v1/documents/d/append HTTP/1.1\r\nHost: x\r\n", kLines,
                             "Content-Length: 40\r\n\r\n swims in the sea"));
    const std::vector<json> lines = Lines("\r\n\r\n" + socket.ReadUntil("}\n"));
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines[0]["accepted_bytes"], 17) << "of what is appended";
  }
  AwaitNoIngest();
  EXPECT_EQ(Text("d"), "the whale");
}

TEST_F(HttpUploadTest, ADocumentGetsTheMetadataThatComesWithIt) {
  const auto put = [&](const std::string& text, const std::string& metadata,
                       const std::string& headers = kClose) {
    const std::string query =
        metadata.empty() ? "" : absl::StrCat("?metadata=%7B%22year%22%3A", metadata, "%7D");
    return Body(Ask(Put("/v1/documents/d" + query, text, headers)))["metadata"];
  };
  const auto year = [](int value) { return json({{"year", value}}); };
  EXPECT_EQ(put("the whale swims", "1851"), year(1851));
  EXPECT_EQ(put("the whale swims", ""), year(1851));
  EXPECT_EQ(put("the whale swims", "1852"), year(1852));
  EXPECT_EQ(put("swims", "1853", Range("10-14/15")), year(1853));  // a part of what is there
  EXPECT_EQ(put("swims", "", Range("10-14/15")), year(1853));
  const std::string replaces = absl::StrCat(kClose, "If-Match: *\r\n");
  EXPECT_EQ(put("the whale sings", "", replaces), year(1853));
  EXPECT_EQ(put("the whale sings", "1854", replaces), year(1854));
  ExpectError(Put("/v1/documents/e?metadata=1", "text"), 400, "metadata: number");
  EXPECT_THAT(Ask(Get("/v1/documents/e")), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpUploadTest, PartsOfAPublishedDocumentAreCompared) {
  const std::string text = "the whale swims";
  engine_.AddDocument("d", text);
  const auto part = [&](size_t begin, const std::string& bytes, const std::string& total) {
    return Put("/v1/documents/d", bytes,
               Range(absl::StrCat(begin, "-", begin + bytes.size() - 1, "/", total)));
  };
  const std::string first = Ask(part(0, "the whale", "15"));
  EXPECT_THAT(first, StartsWith("HTTP/1.1 202"));
  EXPECT_EQ(Body(first)["committed_bytes"], 9);
  EXPECT_THAT(Ask(part(9, " swims", "15")), StartsWith("HTTP/1.1 200"));
  ExpectError(part(9, " sings", "15"), 409, "first difference at offset 11");
  ExpectError(part(9, " swims on", "*"), 409, "it has 15 bytes, the input at least 18");
  ExpectError(part(9, " swi", "*"), 409, "it has 15 bytes, the input 13");
  ExpectError(part(40, "x", "*"), 409, "it has 15 bytes");
  EXPECT_EQ(Text("d"), text);
}

}  // namespace
}  // namespace recollect
