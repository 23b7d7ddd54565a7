// Holds what tests of uploads share: requests that PUT documents to the fake engine, which commits
// at multiples of 16 bytes.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/http/http_testing.h"

namespace recollect {

class HttpUploadTest : public HttpTest {
 protected:
  static constexpr char kClose[] = "Connection: close\r\n";
  static constexpr char kLines[] = "Connection: close\r\nAccept: application/x-ndjson\r\n";

  static std::string PutHead(const std::string& path, const std::string& headers) {
    return absl::StrCat("PUT ", path, " HTTP/1.1\r\nHost: x\r\n", headers);
  }
  static std::string Put(const std::string& path, const std::string& body,
                         const std::string& headers = kClose) {
    return absl::StrCat(PutHead(path, headers), "Content-Length: ", body.size(), "\r\n\r\n", body);
  }
  static std::string Range(const std::string& range) {
    return absl::StrCat(kClose, "Content-Range: bytes ", range, "\r\n");
  }
  static std::string Chunk(const std::string& bytes) {
    return absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
  }
  // The lines of JSON in an answer in chunks.
  static std::vector<nlohmann::json> Lines(const std::string& answer) {
    std::vector<nlohmann::json> lines;
    for (const absl::string_view line :
         absl::StrSplit(answer.substr(answer.find("\r\n\r\n")), '\n'))
      if (absl::StartsWith(line, "{")) lines.push_back(nlohmann::json::parse(std::string(line)));
    return lines;
  }

  void ExpectError(const std::string& request, int status, const std::string& message) const {
    const std::string answer = Ask(request);
    EXPECT_THAT(answer, ::testing::StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << message;
    const nlohmann::json error = Body(answer)["error"];
    EXPECT_THAT(error["message"].get<std::string>(), ::testing::HasSubstr(message));
    EXPECT_TRUE(error.contains("type") && error.contains("param") && error.contains("code"));
  }
  std::string Text(const std::string& id) {
    const auto info = engine_.GetDocument(id);
    return info.ok() ? engine_.ReadText(id, 0, info->bytes).value() : info.status().ToString();
  }
  int64_t Committed(const std::string& id) {
    const nlohmann::json ingest = Body(Ask(Get("/v1/documents/" + id)));
    return ingest.value("committed_bytes", int64_t{-1});
  }
  void AwaitNoIngest() {
    engine_.Await([](const FakeEngine::Seen& seen) { return seen.ingests == 0; });
  }
};

}  // namespace recollect
