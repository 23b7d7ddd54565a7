// Two servers that share nothing but what was ingested into each: one is killed in the middle of a
// generation, a session or an ingest, and the client goes on at the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/cli/cli_testing.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

constexpr int kTokens = 10000;  // of an answer: enough that it does not end before the kill

class FailoverE2eTest : public CliTest {
 protected:
  struct Server {
    std::unique_ptr<BackgroundProcess> process;
    std::string address, http;
  };

  Server StartOne(const std::string& name, const std::string& address = "127.0.0.1:0") const {
    Server server;
    server.process = std::make_unique<BackgroundProcess>(
        std::vector<std::string>{RECOLLECT_BINARY, "serve", "--model", Path("model"), "--data-dir",
                                 Path(name), "--grpc-listen", address, "--http-listen",
                                 "127.0.0.1:0", "--threads", "2", "--log-level", "error"});
    const std::string ready = server.process->ReadLine();
    EXPECT_TRUE(absl::StartsWith(ready, "recollect ready grpc=127.0.0.1:")) << ready;
    server.address = ready.substr(21, ready.find(' ', 21) - 21);
    server.http = "http://" + ready.substr(ready.find(" http=") + 6);
    return server;
  }
  void StartBoth() {
    for (const char* name : {"a", "b"}) servers_.push_back(StartOne(name));
  }
  void IngestIntoBoth() {
    for (const Server& server : servers_) {
      const auto client = client::Client::Connect(server.address).value();
      ASSERT_TRUE(client->IngestText("d", client::ReadFrom(Text(1500))).ok());
    }
  }
  std::string Both() const { return servers_[0].address + "," + servers_[1].address; }
  void Kill(size_t server) {
    servers_[server].process->Signal(SIGKILL);
    servers_[server].process->Wait();
    servers_[server].process = nullptr;
  }
  // The number of the live server of which `is` is true, as soon as there is one.
  size_t Find(const std::function<bool(client::Client&)>& is) const {
    std::vector<std::unique_ptr<client::Client>> clients;
    for (const Server& server : servers_) {
      clients.push_back(
          server.process == nullptr ? nullptr : client::Client::Connect(server.address).value());
    }
    for (const absl::Time end = absl::Now() + absl::Minutes(1); absl::Now() < end;) {
      for (size_t i = 0; i < clients.size(); ++i) {
        if (clients[i] != nullptr && is(*clients[i])) return i;
      }
    }
    ADD_FAILURE() << "no server did what was waited for";
    return 0;
  }
  // Kills the server that has a request running, and returns its number.
  size_t KillTheBusyOne() {
    const size_t busy =
        Find([](client::Client& at) { return at.GetStats().value().running_requests() > 0; });
    Kill(busy);
    return busy;
  }
  std::unique_ptr<client::Client> ConnectToBoth() {
    client::ClientOptions options;
    options.failover_timeout = absl::Seconds(20);  // a slow machine is no dead server
    options.on_failover = [this](const std::string& what) { said_.push_back(what); };
    return client::Client::Connect(Both(), options).value();
  }
  static v1::GenerateRequest Request(int max_tokens) {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("under a grey ship");
    request.mutable_sampling()->set_temperature(1.3F);
    request.mutable_sampling()->set_seed(5);
    request.set_max_tokens(max_tokens);
    request.set_ignore_eos(true);
    request.set_with_retrievals(true);
    return request;
  }
  static std::vector<std::pair<int64_t, int>> Places(const client::GenerateResult& result) {
    std::vector<std::pair<int64_t, int>> places;
    for (const v1::Retrieval& retrieval : result.retrievals)
      places.emplace_back(retrieval.position(), retrieval.group());
    return places;
  }

  std::vector<Server> servers_;
  std::vector<std::string> said_;
};

TEST_F(FailoverE2eTest, AGenerationGoesOnWithTheSameTokens) {
  StartBoth();
  ASSERT_NO_FATAL_FAILURE(IngestIntoBoth());
  v1::GenerateRequest request = Request(kTokens);
  request.mutable_session()->add_mounts("d");
  const auto client = ConnectToBoth();
  const auto whole = client->Generate(request).value();
  ASSERT_EQ(whole.tokens.size(), size_t{kTokens});

  // Killed inside a callback: so many tokens have come, whatever the speed.
  int64_t seen = 0;
  bool killed = false;
  client::GenerateCallbacks callbacks;
  callbacks.on_tokens = [&](const std::vector<int32_t>& tokens, const std::string&) {
    seen += std::ssize(tokens);
    if (seen >= 70 && !std::exchange(killed, true)) KillTheBusyOne();
    return true;
  };
  const auto result = client->Generate(request, callbacks);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(killed);
  EXPECT_EQ(result->tokens, whole.tokens);
  EXPECT_EQ(result->text, whole.text);
  EXPECT_EQ(Places(*result), Places(whole));
  EXPECT_EQ(seen, kTokens);
  EXPECT_EQ(result->done.usage().generated_tokens(), kTokens);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_THAT(said_[0], HasSubstr("is gone"));
  // What only reads finds the other at once.
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(client->GetDocument("d").ok());
}

TEST_F(FailoverE2eTest, TheCommandLineSurvivesAndEndsClearlyWithoutServers) {
  StartBoth();
  ASSERT_NO_FATAL_FAILURE(IngestIntoBoth());
  const std::vector<std::string> arguments = {
      "generate",     "--mount",      "d",        "--prompt", "under a grey ship",
      "--max-tokens", "2000",         "--seed",   "5",        "--temperature",
      "1.3",          "--ignore-eos", "--server", Both()};
  const ProcessResult whole = Run(arguments);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(whole.err, "");
  ProcessResult cut;
  std::thread running([&] { cut = Run(arguments); });
  const size_t dead = KillTheBusyOne();
  running.join();
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_EQ(cut.out, whole.out);
  EXPECT_THAT(cut.err, HasSubstr(absl::StrCat("recollect: the server at ", servers_[dead].address,
                                              " is gone")));
  EXPECT_THAT(cut.err, HasSubstr("the answer goes on at another"));

  ProcessResult none;
  std::thread last([&] { none = Run(arguments); });
  KillTheBusyOne();
  last.join();
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_THAT(none.err, HasSubstr("UNAVAILABLE: none of the servers " + Both() +
                                  " answers any more; the last: "));
  const ProcessResult never = Run(arguments);
  EXPECT_EQ(never.exit_code, 5);
  EXPECT_THAT(never.err, HasSubstr("no server answers at " + Both()));
  const ProcessResult bad = Run({"docs", "list", "--server", "127.0.0.1:1,,127.0.0.1:2"});
  EXPECT_EQ(bad.exit_code, 4);
  EXPECT_THAT(bad.err, HasSubstr("server '': expected HOST:PORT"));
  EXPECT_EQ(Run({"docs", "list", "--server", "127.0.0.1:1,127.0.0.1:1"}).exit_code, 4);
}

TEST_F(FailoverE2eTest, ASessionIsOpenedAgainAndAnswersTheSame) {
  StartBoth();
  ASSERT_NO_FATAL_FAILURE(IngestIntoBoth());
  v1::SessionOptions options;
  options.add_mounts("d");
  // On one server, without a failure.
  std::vector<client::GenerateResult> expected;
  int64_t positions = 0;
  {
    const auto alone = client::Client::Connect(servers_[0].address).value();
    const uint64_t id = alone->OpenSession(options).value().id();
    for (const int max_tokens : {30, 0, 90, 40}) {
      v1::GenerateRequest request = Request(max_tokens);
      request.set_session_id(id);
      expected.push_back(alone->Generate(request).value());
    }
    positions = alone->GetSession(id).value().positions();
    ASSERT_TRUE(alone->CloseSession(id).ok());
  }
  const auto client = ConnectToBoth();
  const uint64_t id = client->OpenSession(options).value().id();
  v1::ScoreRequest score;
  score.set_session_id(id);
  EXPECT_EQ(client->Score(score).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto ask = [&](int max_tokens) {
    v1::GenerateRequest request = Request(max_tokens);
    request.set_session_id(id);
    return client->Generate(request);
  };
  for (size_t turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(ask(expected[turn].tokens.empty() ? 0 : 30)->tokens, expected[turn].tokens);
  }
  // Between two calls; in the middle of one it is the test above. The survivor has it all.
  const size_t home = Find([](client::Client& at) { return at.GetStats().value().sessions() > 0; });
  Kill(home);
  const auto third = ask(90);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->tokens, expected[2].tokens);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_THAT(said_[0], HasSubstr(absl::StrCat("the session at ", servers_[home].address)));
  EXPECT_THAT(said_[0], HasSubstr("where its 2 calls were read again"));
  // Another process at the old address knows nothing of it; nor does its session of that number,
  // if there is one, belong to this client.
  servers_[home] = StartOne("c", servers_[home].address);
  EXPECT_EQ(ask(40)->tokens, expected[3].tokens);
  EXPECT_EQ(client->GetSession(id)->positions(), positions);
  EXPECT_TRUE(client->CloseSession(id).ok());
  EXPECT_EQ(client->GetSession(id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FailoverE2eTest, ASessionIsSavedWhereItIsOpenedAgain) {
  StartBoth();
  const auto client = ConnectToBoth();
  v1::GenerateRequest request;
  request.set_session_id(client->OpenSession({}).value().id());
  request.mutable_prompt()->set_text("the grey whale");
  request.set_max_tokens(8);
  const std::string said = "the grey whale" + client->Generate(request).value().text;
  v1::SaveSessionRequest save;
  save.set_session_id(request.session_id());
  save.set_document_id("talk");
  Kill(Find([](client::Client& at) { return at.GetStats().value().sessions() > 0; }));
  const auto saved = client->SaveSession(save);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(client->ReadText("talk", 0, saved->bytes()).value(), said);
  save.set_session_id(99);
  EXPECT_EQ(client->SaveSession(save).status().code(), absl::StatusCode::kNotFound);
}

// Each server has a store of its own: the other begins anew, and gets the input from its start.
TEST_F(FailoverE2eTest, AnIngestGoesOnAtAnotherWithoutAHole) {
  StartBoth();
  const std::string text = Text(60000);
  ProcessResult ingest;
  std::thread running([&] {
    ingest = Run({"ingest", "--id", "d", File("text", text), "--server", Both()});
  });
  const size_t home = Find([](client::Client& at) {
    const auto ingests = at.ListIngests().value();
    return !ingests.empty() && ingests[0].committed_offset() > 0;
  });
  Kill(home);
  running.join();
  ASSERT_EQ(ingest.exit_code, 0) << ingest.err;
  EXPECT_THAT(ingest.err, HasSubstr("recollect: the ingest of 'd' was broken off"));
  EXPECT_THAT(ingest.err, HasSubstr("goes on at byte 0; "));
  const auto survivor = client::Client::Connect(servers_[1 - home].address).value();
  EXPECT_EQ(survivor->GetDocument("d")->bytes(), std::ssize(text));
  EXPECT_EQ(survivor->ReadText("d", 0, std::ssize(text)).value(), text);
}

// Nothing sticks to a replica but the parts of an upload, where replicas have stores of their own.
TEST_F(FailoverE2eTest, OverHttpAnyReplicaAnswersAndAPartOfAnUploadNeedsItsOwn) {
  StartBoth();
  ASSERT_NO_FATAL_FAILURE(IngestIntoBoth());
  const std::string question =
      R"({"model": "model", "prompt": "under a grey ship", "mounts": ["d"], "max_tokens": 60, "seed": 4})";
  std::vector<std::string> texts;
  for (const Server& server : servers_) {
    const ProcessResult answer =
        RunProcess({"curl", "-sS", server.http + "/v1/completions", "-d", question});
    texts.push_back(Json(answer)["choices"][0]["text"]);
    EXPECT_EQ(RunProcess({"curl", "-sSf", server.http + "/readyz"}).exit_code, 0);
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_FALSE(texts[0].empty());

  const std::string text = Text(20000);
  const auto send = [&](const Server& server, size_t begin, size_t end) {
    return RunProcess({"curl", "-sSi", "-X", "PUT", "--data-binary",
                       "@" + File("part", text.substr(begin, end - begin)), "-H",
                       absl::StrCat("Content-Range: bytes ", begin, "-", end - 1, "/", text.size()),
                       server.http + "/v1/documents/parts"})
        .out;
  };
  const std::string first = send(servers_[0], 0, 70000);
  ASSERT_THAT(first, HasSubstr(" 202 "));
  const auto committed = nlohmann::json::parse(first.substr(first.rfind("\r\n\r\n") + 4));
  const size_t next = committed["committed_bytes"];
  ASSERT_GT(next, 0u);
  const std::string wrong = send(servers_[1], next, text.size());
  EXPECT_THAT(wrong, HasSubstr(" 416 "));
  EXPECT_THAT(wrong, HasSubstr("Content-Range: bytes */0"));
  EXPECT_THAT(send(servers_[0], next, text.size()), HasSubstr(" 201 "));
}

}  // namespace
}  // namespace recollect
