// The real program as a server on RocksDB, with the tiny model: what survives restarts, kills and
// damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/e2e/server_testing.h"
#include "tests/support/eventually.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool StartsWithName(const fs::path& task, const std::string& name) {
  return absl::StartsWith(ReadFile(task / "comm"), name);
}

class ServerE2eTest : public ServerTest {
 protected:
  absl::StatusOr<client::GenerateResult> Ask(const std::string& mount) {
    v1::GenerateRequest request;
    request.mutable_session()->add_mounts(mount);
    request.mutable_prompt()->set_text("under a grey ship");
    request.set_max_tokens(40);
    request.set_ignore_eos(true);
    request.set_with_retrievals(true);
    return client_->Generate(request);
  }
};

TEST_F(ServerE2eTest, TheReadyLineAsJson) {
  BackgroundProcess server({RECOLLECT_BINARY, "serve", "--model", Path("model"), "--data-dir",
                            Path("data"), "--grpc-listen", "127.0.0.1:0", "--json"});
  const auto ready = nlohmann::json::parse(server.ReadLine());
  EXPECT_THAT(ready["grpc"].get<std::string>(), StartsWith("127.0.0.1:"));
  EXPECT_EQ(ready["pid"], server.pid());
  EXPECT_EQ(ready["model"], "model");
  EXPECT_EQ(ready["documents"], 0);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

// gRPC gives work to threads of its executor that it could not start: such a call never ends.
// Else a file of the database would be its standard error.
TEST_F(ServerE2eTest, AStandardErrorThatItIsStartedWithoutIsOpened) {
  auto arguments = Serve(Path("model"), "auto");
  arguments.insert(arguments.begin(), {"/bin/sh", "-c", R"(exec "$@" 2>&-)", "sh"});
  Start(arguments);
  EXPECT_EQ(fs::read_symlink(absl::StrCat("/proc/", server_->pid(), "/fd/2")), "/dev/null");
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, StartsNoThreadOfTheExecutorWhileItServes) {
  StartServer(Path("model"));
  const auto executor_threads = [&] {
    std::set<std::string> threads;
    for (const auto& task : fs::directory_iterator(absl::StrCat("/proc/", server_->pid(), "/task")))
      if (StartsWithName(task.path(), "default-exec")) threads.insert(task.path().filename());
    return threads;
  };
  const size_t all = 2 * static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF));
  // Each thread gives itself its name, soon after it has started.
  EXPECT_TRUE(Eventually([&] { return executor_threads().size() >= all; }));
  const std::set<std::string> before = executor_threads();
  EXPECT_EQ(before.size(), all);
  std::vector<std::thread> clients;
  for (int i = 0; i < 32; ++i) {
    clients.emplace_back([&] {
      const auto client = client::Client::Connect(address_).value();
      for (int call = 0; call < 20; ++call) EXPECT_TRUE(client->ListDocuments(10, "").ok());
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(executor_threads(), before);
}

TEST_F(ServerE2eTest, LifeOfADocument) {
  StartServer(Path("model"));
  EXPECT_THAT(ready_, HasSubstr(" model=model documents=0"));
  EXPECT_THAT(ready_, HasSubstr(" pid=" + std::to_string(server_->pid())));
  const std::string text = Text(3000);
  const auto ingested =
      Json(Run({"ingest", "--server", address_, "--id", "d", "-", "--json"}, text));
  EXPECT_EQ(Json(Run({"docs", "list", "--server", address_, "--json"}))["documents"][0], ingested);
  v1::RetrieveRequest retrieve;
  retrieve.mutable_session()->add_mounts("d");
  retrieve.mutable_query()->set_text("a grey ship");
  retrieve.set_with_text(true);
  const auto response = client_->Retrieve(retrieve).value();
  const auto& retrievals = response.retrievals();
  ASSERT_EQ(retrievals.size(), 2);
  for (const v1::Hit& hit : retrievals[0].hits()) {
    EXPECT_EQ(hit.text(), text.substr(hit.text_begin(), hit.text_end() - hit.text_begin()));
  }
  const auto before = Ask("d").value();
  EXPECT_EQ(before.tokens.size(), 40u);
  EXPECT_EQ(Ask("d").value().tokens, before.tokens);  // warm
  EXPECT_EQ(StopServer(), 0);

  StartServer(Path("model"));
  EXPECT_THAT(ready_, HasSubstr(" documents=1"));
  const auto after = Ask("d").value();
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.text, before.text);
  EXPECT_EQ(after.retrievals[0].hits(0).tier(), v1::TIER_STORE);
  EXPECT_EQ(Ask("d").value().tokens, before.tokens);
  EXPECT_EQ(StopServer(), 0);

  // Without a server, on the same directory.
  const auto embedded = Json(Embedded({"generate", "--mount", "d", "--prompt", "under a grey ship",
                                       "--max-tokens", "40", "--ignore-eos", "--json"}));
  EXPECT_EQ(embedded["tokens"].get<std::vector<int32_t>>(), before.tokens);

  StartServer(Path("model"));
  EXPECT_EQ(Run({"docs", "delete", "d", "--server", address_}).exit_code, 0);
  EXPECT_EQ(Ask("d").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, OnePortAndOneDirectoryHaveOneServer) {
  StartServer(Path("model"));
  const ProcessResult port =
      Run({"serve", "--model", Path("model"), "--data-dir", ":memory:", "--grpc-listen", address_});
  EXPECT_EQ(port.exit_code, 7);
  EXPECT_THAT(port.err, HasSubstr("FAILED_PRECONDITION: cannot listen on " + address_));
  const ProcessResult directory = Embedded({"docs", "list"});
  EXPECT_EQ(directory.exit_code, 7);
  EXPECT_THAT(directory.err, HasSubstr(Path("data")));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, AnotherModelRefusesTheDocumentButListsIt) {
  WriteTinyModel(Path("other"), TinyConfig(), 2);
  StartServer(Path("model"));
  ASSERT_TRUE(client_->IngestText("d", client::ReadFrom(Text(500))).ok());
  EXPECT_EQ(StopServer(), 0);
  StartServer(Path("other"));
  const std::string read_by = client_->GetDocument("d").value().fingerprint();
  const std::string serving = client_->GetModel().value().fingerprint();
  EXPECT_NE(read_by, serving);
  const absl::Status status = Ask("d").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(read_by));
  EXPECT_THAT(std::string(status.message()), HasSubstr(serving));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, AKilledIngestResumesAndEqualsAnUninterruptedOne) {
  const std::string text = Text(60000);
  StartServer(Path("model"));
  std::thread victim([&] { (void)client_->IngestText("d", client::ReadFrom(text)); });
  // Wait for a commit.
  const auto observer = client::Client::Connect(address_).value();
  int64_t committed = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto ingests = observer->ListIngests().value();
    return !ingests.empty() && (committed = ingests.front().committed_offset()) > 0;
  }));
  server_->Signal(SIGKILL);
  victim.join();
  server_->Wait();
  ASSERT_GT(committed, 0);
  ASSERT_LT(committed, static_cast<int64_t>(text.size()));

  StartServer(Path("model"));
  // Another input is not mixed with what is there, and leaves it as it is.
  std::string other = text;
  other[static_cast<size_t>(committed / 2)] = '#';
  const absl::Status mixed = client_->IngestText("d", client::ReadFrom(other)).status();
  EXPECT_EQ(mixed.code(), absl::StatusCode::kAlreadyExists) << mixed;
  EXPECT_THAT(std::string(mixed.message()), HasSubstr("had read other input"));
  const std::string start = text.substr(0, static_cast<size_t>(committed / 2));
  EXPECT_EQ(client_->IngestText("d", client::ReadFrom(start)).status().code(),
            absl::StatusCode::kOutOfRange);
  const auto resumed = client_->IngestText("d", client::ReadFrom(text));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_LT(client_->GetStats()->ingested_tokens(), resumed->tokens());
  const auto whole = client_->IngestText("e", client::ReadFrom(text)).value();
  EXPECT_EQ(resumed->sha256(), whole.sha256());
  EXPECT_EQ(resumed->tokens(), whole.tokens());
  EXPECT_EQ(resumed->chunks(), whole.chunks());
  EXPECT_EQ(Ask("d").value().tokens, Ask("e").value().tokens);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, SigtermEndsAnIngestAtACommitAndItResumes) {
  const std::string text = Text(60000);
  StartServer(Path("model"));
  absl::Status status;
  std::thread ingest([&] { status = client_->IngestText("d", client::ReadFrom(text)).status(); });
  const auto observer = client::Client::Connect(address_).value();
  EXPECT_TRUE(Eventually([&] { return !observer->ListIngests().value().empty(); }));
  server_->Signal(SIGTERM);
  ingest.join();
  EXPECT_EQ(server_->Wait(), 0);
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
  StartServer(Path("model"));
  EXPECT_EQ(client_->IngestText("d", client::ReadFrom(text)).value().bytes(),
            static_cast<int64_t>(text.size()));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, ADeleteDuringAnIngestStands) {
  StartServer(Path("model"));
  ProcessResult ingest;
  std::thread running([&] {
    ingest = Run({"ingest", "--server", address_, "--id", "d", File("text", Text(60000))});
  });
  EXPECT_TRUE(Eventually([&] { return !client_->ListIngests().value().empty(); }));
  EXPECT_TRUE(client_->DeleteDocument("d").ok());
  running.join();
  EXPECT_EQ(ingest.exit_code, 7);
  EXPECT_THAT(ingest.err, HasSubstr("the document was deleted"));
  EXPECT_EQ(client_->GetDocument("d").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client_->ListIngests().value().empty());
  EXPECT_EQ(StopServer(), 0);
}

// Whatever byte is damaged: the right tokens (when the byte was not needed), or an error; never
// other tokens.
TEST_F(ServerE2eTest, AFlippedByteIsDataLossNeverTokens) {
  StartServer(Path("model"));
  ASSERT_TRUE(client_->IngestText("d", client::ReadFrom(Text(800))).ok());
  const std::vector<int32_t> expected = Ask("d").value().tokens;
  EXPECT_EQ(StopServer(), 0);
  const std::string biggest = LargestDataFile();
  ASSERT_FALSE(biggest.empty());
  const std::string intact = ReadFile(biggest);
  int data_loss = 0;
  for (int i = 1; i < 10; ++i) {
    std::string damaged = intact;
    damaged[damaged.size() * i / 10] ^= 0x10;
    WriteFile(biggest, damaged);
    const ProcessResult result =
        Embedded({"generate", "--mount", "d", "--prompt", "under a grey ship", "--max-tokens", "40",
                  "--ignore-eos", "--json", "--log-level", "off"});
    if (result.exit_code == 0) {
      EXPECT_EQ(Json(result)["tokens"].get<std::vector<int32_t>>(), expected)
          << "byte " << i << "/10";
    } else {
      EXPECT_EQ(result.exit_code, 9) << result.err;
      EXPECT_THAT(result.err, HasSubstr("DATA_LOSS"));
      EXPECT_TRUE(result.out.empty());
      ++data_loss;
    }
  }
  EXPECT_GT(data_loss, 0);
  WriteFile(biggest, intact);
  StartServer(Path("model"));
  EXPECT_EQ(Ask("d").value().tokens, expected);
  EXPECT_EQ(StopServer(), 0);
}

// Lazily: also when the test fails while the server still runs on it.
struct Unmount {
  std::string path;
  ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
};

TEST_F(ServerE2eTest, AFullDiskIsSaidAndTheIngestGoesOnWhenThereIsRoom) {
  fs::create_directories(Path("data"));
  if (mount("tmpfs", Path("data").c_str(), "tmpfs", 0, "size=64m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here (" << std::strerror(errno)
                 << "): a really full disk is NOT tested";
  }
  const Unmount unmount{Path("data")};
  StartServer(Path("model"));
  ASSERT_TRUE(client_->IngestText("small", client::ReadFrom(Text(800))).ok());
  const std::vector<int32_t> expected = Ask("small").value().tokens;
  const auto room = static_cast<int64_t>(fs::space(Path("data")).available);
  ASSERT_GT(room, 8 << 20);
  WriteFile(Path("data") + "/ballast", std::string(room - (1 << 20), 'x'));
  const std::string text = Text(30000);
  const ProcessResult full = Run({"ingest", "--server", address_, "--id", "big", "-"}, text);
  EXPECT_EQ(full.exit_code, 8) << full.err;
  EXPECT_THAT(full.err, HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(full.err, HasSubstr("big"));
  EXPECT_TRUE(client_->ReadText("small", 0, 100).ok());
  fs::remove(Path("data") + "/ballast");
  EXPECT_EQ(client_->IngestText("big", client::ReadFrom(text)).value().bytes(),
            static_cast<int64_t>(text.size()));
  EXPECT_EQ(Ask("small").value().tokens, expected);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(ServerE2eTest, ClientsThatLeaveStopTheWork) {
  StartServer(Path("model"));
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("the");
  request.set_max_tokens(60000);
  request.set_ignore_eos(true);
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [](const auto&, const auto&) { return false; };
  EXPECT_EQ(client_->Generate(request, callbacks).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return client_->GetStats()->running_requests() == 0; }));
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
