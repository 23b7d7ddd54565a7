// The files of the web page over HTTP: types, headers, and that they name each other rightly.
#include "http/page/page.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string FileOf(std::string_view name) {
  std::ifstream file(absl::StrCat(RECOLLECT_SOURCE_DIR, "/http/page/",
                                  absl::string_view(name.data(), name.size())));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(HttpTest, ThePageIsServedWithHeadersThatKeepItToThisServer) {
  const std::string answer = Ask(Get("/"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Security-Policy: default-src 'self';"));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nCache-Control: no-store\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n" + FileOf("index.html")));
  EXPECT_THAT(Ask(Get("/page/app.js")), HasSubstr("\r\nContent-Type: text/javascript; "));
  EXPECT_THAT(Ask(Get("/page/style.css")), HasSubstr("\r\nContent-Type: text/css; "));
  EXPECT_THAT(Ask(Get("/page/icon.svg")), HasSubstr("\r\nContent-Type: image/svg+xml; "));
}

TEST_F(HttpTest, OnlyFilesOfThePageAreServed) {
  for (const char* path : {"/page", "/page/", "/page/nothing.js", "/page/../server.cc",
                           "/page/%2e%2e/server.cc", "/index.html", "//"})
    EXPECT_THAT(Ask(Get(path)), StartsWith("HTTP/1.1 404")) << path;
  EXPECT_THAT(Ask(Post("/", "x")), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Ask(Get("/livez")), ::testing::Not(HasSubstr("Content-Security-Policy")));
}

// A module that CMake does not know would be missing in the browser only.
TEST_F(HttpTest, EveryFileOfThePageIsInTheBinaryByteForByte) {
  std::set<std::string> on_disk, embedded;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(RECOLLECT_SOURCE_DIR) + "/http/page")) {
    const std::string ending = entry.path().extension();
    if (ending != ".cc" && ending != ".h") on_disk.insert(entry.path().filename());
  }
  for (const http::EmbeddedFile& file : http::PageFiles()) {
    embedded.emplace(file.name);
    EXPECT_EQ(file.content, FileOf(file.name)) << file.name;
  }
  EXPECT_EQ(embedded, on_disk);
}

TEST_F(HttpTest, WhatThePageLoadsIsThereAndNothingIsInline) {
  const std::regex loads(R"re((?:src=|href=|from )"([^"]+)")re");
  int found = 0;
  for (const http::EmbeddedFile& file : http::PageFiles()) {
    const std::string text(file.content);
    for (std::sregex_iterator it(text.begin(), text.end(), loads), end; it != end; ++it, ++found) {
      std::string path = (*it)[1];
      if (path.starts_with("./")) path = "/page/" + path.substr(2);
      EXPECT_NE(http::FindPageFile(path), nullptr) << file.name << " loads " << path;
    }
  }
  EXPECT_GT(found, 10);
  const std::string index = FileOf("index.html");
  for (const char* refused : {"<style", " style=", " onclick=", "<script>"})
    EXPECT_EQ(index.find(refused), std::string::npos) << refused;
}

}  // namespace
}  // namespace recollect
