// PUT of documents over the fake engine, which commits at multiples of 16 bytes.
#include <poll.h>

#include <future>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kClose[] = "Connection: close\r\n";
constexpr char kLines[] = "Connection: close\r\nAccept: application/x-ndjson\r\n";

std::string PutHead(const std::string& path, const std::string& headers) {
  return absl::StrCat("PUT ", path, " HTTP/1.1\r\nHost: x\r\n", headers);
}
std::string Put(const std::string& path, const std::string& body,
                const std::string& headers = kClose) {
  return absl::StrCat(PutHead(path, headers), "Content-Length: ", body.size(), "\r\n\r\n", body);
}
std::string Range(const std::string& range) {
  return absl::StrCat(kClose, "Content-Range: bytes ", range, "\r\n");
}
std::string Chunk(const std::string& bytes) {
  return absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
}
// The lines of JSON in an answer in chunks.
std::vector<json> Lines(const std::string& answer) {
  std::vector<json> lines;
  for (const absl::string_view line : absl::StrSplit(answer.substr(answer.find("\r\n\r\n")), '\n'))
    if (absl::StartsWith(line, "{")) lines.push_back(json::parse(std::string(line)));
  return lines;
}

class HttpUploadTest : public HttpTest {
 protected:
  void ExpectError(const std::string& request, int status, const std::string& message) const {
    const std::string answer = Ask(request);
    EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << message;
    const json error = Body(answer)["error"];
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(message));
    EXPECT_TRUE(error.contains("type") && error.contains("param") && error.contains("code"));
  }
  std::string Text(const std::string& id) {
    const auto info = engine_.GetDocument(id);
    return info.ok() ? engine_.ReadText(id, 0, info->bytes).value() : info.status().ToString();
  }
  int64_t Committed(const std::string& id) {
    const json ingest = Body(Ask(Get("/v1/documents/" + id)));
    return ingest.value("committed_bytes", int64_t{-1});
  }
  void AwaitNoIngest() {
    engine_.Await([](const FakeEngine::Seen& seen) { return seen.ingests == 0; });
  }
};

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

TEST_F(HttpUploadTest, OneUploadWritesADocument) {
  const Socket first(server_->address());
  first.Send(PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 8\r\n\r\ntext")));
  first.ReadUntil("}\n");
  ExpectError(Put("/v1/documents/d", "text"), 409, "another stream writes 'd'");
  first.Send("more");
  EXPECT_EQ(Lines("\r\n\r\n" + first.ReadAll()).back()["document"]["bytes"], 8);
}

TEST_F(HttpUploadTest, OnlySoManyRunAtOnce) {
  engine_.max_ingests = 1;
  const Socket first(server_->address());
  first.Send(PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 8\r\n\r\ntext")));
  first.ReadUntil("}\n");
  ExpectError(Put("/v1/documents/e", "text"), 429, "1 ingests are open, at most 1 are allowed");
  EXPECT_THAT(Ask(Put("/v1/documents/e", "text")), HasSubstr("\r\nRetry-After: 1\r\n"));
  first.Send("more");
  first.ReadAll();
  EXPECT_THAT(Ask(Put("/v1/documents/e", "text")), StartsWith("HTTP/1.1 201"));
}

TEST_F(HttpUploadTest, ManyAtOnceKeepApart) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([this, i] {
      const std::string text(50'000, static_cast<char>('a' + i));
      const std::string path = absl::StrCat("/v1/documents/", i);
      const auto answer = Ask(Put(path, text, i % 2 == 0 ? kClose : kLines));
      EXPECT_THAT(answer, StartsWith(i % 2 == 0 ? "HTTP/1.1 201" : "HTTP/1.1 200")) << i;
      EXPECT_TRUE(Ask(Get(path + "/text")).ends_with("\r\n\r\n" + text)) << i;
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(HttpUploadTest, ADeleteEndsAnUpload) {
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat(kLines,
                                                      "Content-Length: 24\r\n\r\n"
                                                      "sixteen bytes is")));
  socket.ReadUntil("}\n");
  Ask("DELETE /v1/documents/d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  socket.Send(" a commit");
  const json error = Lines("\r\n\r\n" + socket.ReadAll()).back()["error"];
  EXPECT_EQ(error["code"], "failed_precondition");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("deleted"));
  EXPECT_EQ(Committed("d"), -1);
}

class HttpResumeTest : public HttpUploadTest {
 protected:
  // Is broken off by its client.
  void BreakOff(const std::string& begun) {
    {
      const Socket socket(server_->address());
      socket.Send(
          PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 1000\r\n\r\n", begun)));
      socket.ReadUntil("}\n");
    }
    AwaitNoIngest();
  }
};

TEST_F(HttpResumeTest, WhatWasCommittedStaysAndTheRestIsSent) {
  BreakOff("a text that is broken off");
  EXPECT_EQ(Committed("d"), 16);
  EXPECT_THAT(Ask(Put("/v1/documents/d", "roken no more", Range("16-28/29"))),
              StartsWith("HTTP/1.1 201"));
  EXPECT_EQ(Text("d"), "a text that is broken no more");
}

TEST_F(HttpResumeTest, OrTheWholeIsSentAgain) {
  const std::string text = "a text that is broken off, and sent again";
  BreakOff(text.substr(0, 25));
  ExpectError(Put("/v1/documents/d", "A text that is broken off"), 409,
              "ingest of document \"d\" has read 16 other bytes");
  ExpectError(Put("/v1/documents/d", text.substr(0, 9)), 409, "the text has 9 bytes");
  EXPECT_EQ(Committed("d"), 16);
  const Socket socket(server_->address());
  socket.Send(absl::StrCat(
      PutHead("/v1/documents/d", absl::StrCat(kClose, "Transfer-Encoding: chunked\r\n\r\n")),
      Chunk(text.substr(0, 15)), Chunk(text.substr(15, 1)), Chunk(text.substr(16)), "0\r\n\r\n"));
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 201"));
  EXPECT_EQ(Text("d"), text);
}

TEST_F(HttpResumeTest, WhatIsNoHttpEndsAnUpload) {
  ExpectError(absl::StrCat(PutHead("/v1/documents/d", "Transfer-Encoding: chunked\r\n\r\n"),
                           Chunk("a text that is broken off"), "zz\r\n"),
              400, "not HTTP");
  AwaitNoIngest();
  EXPECT_EQ(Committed("d"), 16);
}

TEST_F(HttpResumeTest, AClientThatSaysNothingMoreIsGone) {
  Start({.listen = "127.0.0.1:0", .model_name = "fake", .timeout = absl::Milliseconds(100)});
  const std::string begun = Ask(PutHead(
      "/v1/documents/d", absl::StrCat(kClose, "Content-Length: 1000\r\n\r\n", "sixteen bytes is")));
  EXPECT_EQ(begun, "");
  AwaitNoIngest();
  Start({.listen = "127.0.0.1:0", .model_name = "fake"});
  EXPECT_EQ(Committed("d"), 16);
}

// The thread that answers for the engine is kept busy: what the server has not been answered, it
// does not read on, and the client cannot send.
TEST_F(HttpUploadTest, ABodyIsReadNoFasterThanTheEngineTakesIt) {
  constexpr size_t kBytes = 64 << 20;
  std::promise<void> busy, go_on;
  engine_.Score({}, [&](const auto&) {
    busy.set_value();
    go_on.get_future().wait();
  });
  busy.get_future().wait();
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat("Content-Length: ", kBytes, "\r\n\r\n")));
  const std::string some(1 << 16, 'x');
  size_t sent = 0;
  for (pollfd look{socket.fd(), POLLOUT, 0}; sent < kBytes && poll(&look, 1, 300) == 1;) {
    const ssize_t n = send(socket.fd(), some.data(), some.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
  }
  EXPECT_LT(sent, kBytes / 2);
  go_on.set_value();
}

TEST_F(HttpUploadTest, WhileDrainingALongBodyIsRefused) {
  server_->Refuse();
  ExpectError(Put("/v1/documents/d", std::string(8 << 20, 'x')), 503, "the server is draining");
  EXPECT_THAT(Ask(Put("/v1/documents/d", "x")), HasSubstr("\r\nRetry-After: 1\r\n"));
}

TEST_F(HttpUploadTest, AnUploadThatMeetsTheEnginesEndIsToldSo) {
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat(kLines,
                                                      "Content-Length: 24\r\n\r\n"
                                                      "sixteen bytes is")));
  socket.ReadUntil("}\n");
  server_->Refuse();
  engine_.Shutdown(SteadyNow());
  socket.Send(" a commit");
  EXPECT_EQ(Lines("\r\n\r\n" + socket.ReadAll()).back()["error"]["code"], "unavailable");
  server_->Drain(SteadyNow() + absl::Seconds(10));
}

TEST_F(HttpUploadTest, TheDestructorEndsWhatRuns) {
  const Socket socket(server_->address());
  socket.Send(PutHead("/v1/documents/d", absl::StrCat(kLines, "Content-Length: 24\r\n\r\ntext")));
  socket.ReadUntil("}\n");
  server_.reset();
  EXPECT_EQ(engine_.seen().ingests, 0);
}

}  // namespace
}  // namespace recollect
