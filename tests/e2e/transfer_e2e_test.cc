// The real program: documents to files and back, with and without a server.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/server_testing.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TransferE2eTest : public ServerTest {
 protected:
  // Without a server, on the tiny model and another data directory.
  ProcessResult On(const std::string& data, std::vector<std::string> arguments,
                   const std::string& input = "") const {
    arguments.insert(arguments.end(), {"--model", Path("model"), "--data-dir", Path(data),
                                       "--threads", "2", "--dtype", "fp32"});
    return Run(arguments, input);
  }
  nlohmann::json Tokens(const std::string& data, const std::string& id) const {
    return Json(On(data, {"generate", "--mount", id, "--prompt", "under a grey ship",
                          "--max-tokens", "30", "--ignore-eos", "--json"}))["tokens"];
  }
  std::string Ids(const std::string& data) const {
    std::string ids;
    const auto listed = Json(On(data, {"docs", "list", "--json"}));
    for (const auto& document : listed["documents"]) {
      ids += document["id"].get<std::string>() + " ";
    }
    return ids;
  }
};

TEST_F(TransferE2eTest, FromOneDirectoryToAnother) {
  ASSERT_EQ(On("data", {"ingest", "--id", "book", File("book.txt", Text(3000))}).exit_code, 0);
  const auto exported =
      Json(On("data", {"docs", "export", "book", Path("book.recollect"), "--json"}));
  EXPECT_EQ(exported["bytes"], fs::file_size(Path("book.recollect")));
  EXPECT_EQ(exported["document"]["id"], "book");
  EXPECT_EQ(fs::status(Path("book.recollect")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(Path("book.recollect.partial")));

  const auto imported = Json(On("other", {"docs", "import", Path("book.recollect"), "--json"}));
  EXPECT_EQ(imported["id"], "book");
  EXPECT_EQ(imported["fingerprint"], exported["document"]["fingerprint"]);
  EXPECT_EQ(imported["sha256"], exported["document"]["sha256"]);
  EXPECT_EQ(On("other", {"docs", "text", "book"}).out, Text(3000));
  const auto tokens = Tokens("data", "book");
  ASSERT_EQ(tokens.size(), 30u);
  EXPECT_EQ(Tokens("other", "book"), tokens);
}

TEST_F(TransferE2eTest, ThroughStandardOutputAndInput) {
  ASSERT_EQ(On("data", {"ingest", "--id", "book", File("book.txt", Text(900))}).exit_code, 0);
  ASSERT_EQ(On("data", {"docs", "export", "book", Path("book.recollect")}).exit_code, 0);
  const ProcessResult piped = On("data", {"docs", "export", "book", "-"});
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_TRUE(piped.out == ReadFile(Path("book.recollect"))) << "the file and nothing else";
  const ProcessResult imported = On("other", {"docs", "import", "-", "--id", "copy"}, piped.out);
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_EQ(On("other", {"docs", "text", "copy"}).out, Text(900));
  EXPECT_EQ(On("data", {"docs", "export", "none", "-"}).out, "");
  const ProcessResult json = On("data", {"docs", "export", "book", "-", "--json"});
  EXPECT_EQ(json.out, "");
  EXPECT_THAT(json.err, HasSubstr("standard output is the file itself"));
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(TransferE2eTest, OfAServer) {
  Start(Serve(Path("model"), "fp32"));
  ASSERT_TRUE(client_->IngestText("book", client::ReadFrom(Text(3000))).ok());
  const std::vector<std::string> server = {"--server", address_};
  const auto with_server = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), server.begin(), server.end());
    return Run(arguments);
  };
  ASSERT_EQ(with_server({"docs", "export", "book", Path("book.recollect")}).exit_code, 0);
  EXPECT_EQ(
      Json(with_server({"docs", "import", Path("book.recollect"), "--id", "copy", "--json"}))["id"],
      "copy");
  const auto again = with_server({"docs", "import", Path("book.recollect")});
  EXPECT_NE(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("'book' exists"));
  EXPECT_EQ(StopServer(), 0);
  EXPECT_EQ(Ids("data"), "book copy ");
  EXPECT_EQ(Tokens("data", "copy"), Tokens("data", "book"));
}

TEST_F(TransferE2eTest, WrongUseAndDamageLeaveNothing) {
  ASSERT_EQ(On("data", {"ingest", "--id", "book", File("book.txt", Text(900))}).exit_code, 0);
  const std::string path = Path("book.recollect");
  ASSERT_EQ(On("data", {"docs", "export", "book", path}).exit_code, 0);
  const std::string whole = ReadFile(path);
  EXPECT_THAT(On("data", {"docs", "export", "book", path}).err,
              HasSubstr("nothing is written over"));
  EXPECT_THAT(On("data", {"docs", "export", "none", Path("none")}).err, HasSubstr("'none'"));
  EXPECT_THAT(On("data", {"docs", "export", "book", Path("no/where")}).err, HasSubstr("no/where"));
  EXPECT_FALSE(fs::exists(Path("none")));
  EXPECT_FALSE(fs::exists(Path("none.partial")));
  EXPECT_TRUE(ReadFile(path) == whole);

  const auto refused = [&](const std::string& bytes, const std::string& why) {
    const auto result = On("other", {"docs", "import", File("file", bytes)});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(Ids("other"), "");
  };
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
  refused(flipped, "checksum");
  refused(whole.substr(0, whole.size() - 10), "ends after");
  refused(Text(100), "not a document file");
  refused("", "is empty");
  EXPECT_THAT(On("other", {"docs", "import", Path("missing")}).err, HasSubstr("missing: No such"));
  EXPECT_THAT(On("other", {"docs", "import", Path("model")}).err, HasSubstr("is a directory"));
  EXPECT_THAT(On("other", {"docs", "import", path, "--id", "a,b"}).err, HasSubstr("id"));
  // Another model's.
  WriteTinyModel(Path("model2"), TinyConfig(), 2);
  const auto other = Run({"docs", "import", path, "--model", Path("model2"), "--data-dir",
                          Path("other"), "--threads", "2"});
  EXPECT_THAT(other.err, HasSubstr("this model has"));
  EXPECT_EQ(Ids("other"), "");
  ASSERT_EQ(On("other", {"docs", "import", path}).exit_code, 0);
  EXPECT_EQ(Ids("other"), "book ");
}

TEST_F(TransferE2eTest, KilledInTheMiddleOfAnImport) {
  ASSERT_EQ(On("data", {"ingest", "--id", "book", File("book.txt", Text(900))}).exit_code, 0);
  const std::string path = Path("book.recollect");
  ASSERT_EQ(On("data", {"docs", "export", "book", path}).exit_code, 0);
  const std::string whole = ReadFile(path);
  StartServer(Path("model"), "fp32");
  // The server is killed when it has taken all but the end.
  (void)client_->ImportDocument("copy",
                                [&](int64_t offset, int64_t) -> absl::StatusOr<std::string> {
                                  if (offset == 0) return whole.substr(0, whole.size() - 10);
                                  server_->Signal(SIGKILL);
                                  (void)server_->Wait();
                                  return whole.substr(whole.size() - 10);
                                });
  client_.reset();
  StartServer(Path("model"), "fp32");
  EXPECT_FALSE(client_->GetDocument("copy").ok());
  EXPECT_TRUE(client_->ListIngests()->empty());
  EXPECT_TRUE(client_->ImportDocument("copy", client::ReadFrom(whole)).ok());
  EXPECT_EQ(StopServer(), 0);
  EXPECT_EQ(Ids("data"), "book copy ");
}

}  // namespace
}  // namespace recollect
