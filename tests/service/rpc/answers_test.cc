// What callers hear, whatever they call: of requests that are none, and of the server's machine.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/service/raw_call.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

// As gRPC's own code tells a method that is not there from a request that is none.
TEST_F(ServiceTest, RequestsThatCannotBeParsedAreInvalidArguments) {
  const std::string cut("\x0a\x7f", 2);  // field 1, of 127 bytes
  for (const char* method : {"Documents/GetDocument", "Documents/DeleteDocument",
                             "Documents/ReadText", "Documents/Retrieve", "Generation/OpenSession",
                             "Generation/Generate", "Generation/Score"}) {
    EXPECT_THAT(RawCall(server_->address(), absl::StrCat("/recollect.v1.", method), cut).status(),
                Fails(absl::StatusCode::kInvalidArgument,
                      absl::StrCat("the request of recollect.v1.", method)));
  }
  const std::string no_utf8("\x0a\x02\xc3(", 4);  // the id
  for (const char* method : {"GetDocument", "DeleteDocument", "ReadText"}) {
    EXPECT_THAT(
        RawCall(server_->address(), absl::StrCat("/recollect.v1.Documents/", method), no_utf8)
            .status(),
        Fails(absl::StatusCode::kInvalidArgument, "UTF-8"));
  }
  EXPECT_THAT(RawCall(server_->address(), "/recollect.v1.Documents/Ingest", cut).status(),
              Fails(absl::StatusCode::kInvalidArgument, ""));
  for (const char* method :
       {"/recollect.v1.Documents/NoSuch", "/no.such/Method", "recollect.v1.Documents/GetDocument",
        "/", "/recollect.v1.Documents"}) {
    EXPECT_THAT(
        RawCall(server_->address(), method, cut).status(),
        Fails(absl::StatusCode::kUnimplemented, absl::StrCat("there is no method '", method, "'")));
  }
  EXPECT_LT(
      RawCall(server_->address(), "/" + std::string(5000, 'x'), cut).status().message().size(),
      400u);
  EXPECT_TRUE(client_->GetStats().ok());
}

// Groups of a field that the message has not, inside each other: the library bounds their depth.
TEST_F(ServiceTest, RequestsThatAreNestedDeepAreRefused) {
  for (const size_t depth : {size_t{1000}, size_t{1'000'000}}) {
    const std::string nested = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    for (const char* method :
         {"Documents/GetDocument", "Documents/Retrieve", "Generation/Generate", "Admin/GetStats"}) {
      EXPECT_THAT(
          RawCall(server_->address(), absl::StrCat("/recollect.v1.", method), nested).status(),
          Fails(absl::StatusCode::kInvalidArgument, "cannot be parsed"))
          << method << " " << depth;
    }
  }
  EXPECT_TRUE(client_->GetStats().ok());
}

// A browser that trusts the server's certificate sends its site with each POST, of any type.
TEST_F(ServiceTest, WithoutKeysWebPagesAreRefused) {
  engine_.AddDocument("d", "text of it");
  v1::DeleteDocumentRequest request;
  request.set_id("d");
  const auto ask = [&](const char* method, const std::map<std::string, std::string>& metadata) {
    return RawCall(server_->address(), absl::StrCat("/recollect.v1.", method),
                   request.SerializeAsString(), metadata)
        .status();
  };
  for (const char* method : {"Documents/DeleteDocument", "Documents/GetDocument",
                             "Documents/ExportDocument", "Generation/Generate", "Admin/GetStats"}) {
    EXPECT_THAT(
        ask(method, {{"origin", "https://evil.example"}}),
        Fails(absl::StatusCode::kPermissionDenied, "origin: 'https://evil.example' is a web page"))
        << method;
  }
  EXPECT_TRUE(engine_.GetDocument("d").ok());
  EXPECT_TRUE(ask("Documents/DeleteDocument", {{"x-origin", "a"}}).ok());
}

TEST_F(ServiceTest, WhatDoesNotShowIsShown) {
  EXPECT_EQ(client_->GetDocument("a\nb\u202e").status().message(),
            "no document 'a\\u{a}b\\u{202e}'");
}

TEST_F(ServiceTest, RemoteCallersSeeNoPathsOfTheServer) {
  engine_.Set({.error = absl::DataLossError("document 'a/b': block checksum in /data/000009.sst")});
  const char* hidden = "document 'a/b': block checksum in a file";
  EXPECT_EQ(client_->GetDocument("a/b").status().message(), hidden);
  const auto local = client::Client::OnChannel(server_->InProcessChannel());
  EXPECT_EQ(local->GetDocument("a/b").status().message(), hidden);  // of a server that listens
  auto embedded = service::Server::Start({"", "fake"}, engine_);
  ASSERT_TRUE(embedded.ok());
  EXPECT_THAT(
      client::Client::OnChannel((*embedded)->InProcessChannel())->GetDocument("a/b").status(),
      Fails(absl::StatusCode::kDataLoss, "/data/000009.sst"));
}

}  // namespace
}  // namespace recollect
