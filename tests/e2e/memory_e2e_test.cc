// A server whose address space is bounded near its use: what it cannot get ends the request or the
// ingest that asked for it, and nothing else. RECOLLECT_MEMORY_ROUNDS=200 and
// RECOLLECT_MEMORY_SEED=7 for more trials, and others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/server_testing.h"
#include "tests/support/eventually.h"

namespace recollect {
namespace {

using ::testing::HasSubstr;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class MemoryE2eTest : public ServerTest {
 protected:
  static std::vector<std::string> Bounded(int64_t kib, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"/bin/sh", "-c", "ulimit -v $0 && exec \"$@\"", absl::StrCat(kib)});
    return arguments;
  }
  void StartBounded(int64_t kib) { Start(Bounded(kib, Serve(Path("model"), "auto"))); }

  // What a start says that it needs, in KiB.
  int64_t NeededKib() const {
    const ProcessResult start = RunProcess(Bounded(400'000, Serve(Path("model"), "auto")));
    EXPECT_EQ(start.exit_code, 8) << start.err;
    const std::string about = "memory: about ";
    const size_t at = start.err.find(about);
    EXPECT_NE(at, std::string::npos) << start.err;
    return std::atoll(start.err.c_str() + at + about.size()) / 1024 + 1;
  }

  // Gives the running server `more` KiB beyond what it has mapped.
  void Bound(int64_t more) {
    const std::string statm = ReadFile(absl::StrCat("/proc/", server_->pid(), "/statm"));
    const auto bytes =
        static_cast<rlim_t>(std::atoll(statm.c_str()) * sysconf(_SC_PAGESIZE) + more * 1024);
    const rlimit limit{bytes, bytes};
    ASSERT_EQ(prlimit(server_->pid(), RLIMIT_AS, &limit, nullptr), 0);
  }

  // SIGTERM. The exit code, or -1 where the process does not end in time.
  int EndInTime() {
    client_.reset();
    server_->Signal(SIGTERM);
    siginfo_t info{};
    const bool ended = Eventually([&] {
      waitid(P_PID, static_cast<id_t>(server_->pid()), &info, WEXITED | WNOHANG | WNOWAIT);
      return info.si_pid != 0;
    });
    const int code = ended ? server_->Wait() : -1;
    server_.reset();
    return code;
  }

  // That everything answers, soon.
  void ExpectWorks(const std::string& text) {
    absl::Status status;
    Eventually([&] { return !absl::IsResourceExhausted(status = TryAll(text)); });
    EXPECT_TRUE(status.ok()) << status;
  }
  absl::Status TryAll(const std::string& text) {
    const auto document = client_->IngestText("after", client::ReadFrom(text));
    if (!document.ok()) return document.status();
    v1::SessionOptions session;
    session.add_mounts("after");
    const auto opened = client_->OpenSession(session);
    if (!opened.ok()) return opened.status();
    v1::GenerateRequest generate;
    generate.set_session_id(opened->id());
    generate.mutable_prompt()->set_text("a grey ship");
    generate.set_max_tokens(20);
    generate.set_ignore_eos(true);
    if (const auto result = client_->Generate(generate); !result.ok()) return result.status();
    if (absl::Status status = client_->CloseSession(opened->id()); !status.ok()) return status;
    v1::ScoreRequest score;
    score.mutable_prompt()->set_text("a grey ship");
    if (const auto result = client_->Score(score); !result.ok()) return result.status();
    v1::RetrieveRequest retrieve;
    *retrieve.mutable_session() = session;
    retrieve.mutable_query()->set_text("a grey ship");
    retrieve.set_with_text(true);
    if (const auto result = client_->Retrieve(retrieve); !result.ok()) return result.status();
    if (const auto stats = client_->GetStats(); !stats.ok()) return stats.status();
    return client_->DeleteDocument("after");
  }
};

TEST_F(MemoryE2eTest, AStartWithoutMemorySaysHowMuchItNeeds) {
  const int64_t needed = NeededKib();
  for (const int64_t kib : {needed / 2, needed * 3 / 4, needed - 4096}) {
    const ProcessResult start = RunProcess(Bounded(kib, Serve(Path("model"), "auto")));
    EXPECT_EQ(start.exit_code, 8) << kib;
    EXPECT_THAT(start.err, HasSubstr("RESOURCE_EXHAUSTED: memory: about ")) << kib;
    EXPECT_THAT(start.err, HasSubstr(absl::StrCat("the limit is ", kib * 1024))) << kib;
  }
  StartBounded(needed + 4096);
  ExpectWorks(Text(2000));
  EXPECT_EQ(EndInTime(), 0);
}

TEST_F(MemoryE2eTest, APromptOfAMegabyteLeavesTheServerAsItWas) {
  StartBounded(NeededKib() + (8 << 10));
  const std::string text = Text(3000);
  ASSERT_TRUE(client_->IngestText("before", client::ReadFrom(text)).ok());
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text(Text(250'000));
  ASSERT_GT(request.prompt().text().size(), 1u << 20);
  request.set_max_tokens(1);
  const auto hasty = client::Client::Connect(address_, {.timeout = absl::Seconds(5)}).value();
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = hasty->Generate(request).status();
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status) ||
                absl::IsDeadlineExceeded(status))
        << status;
    ExpectWorks(text);
  }
  EXPECT_EQ(client_->ReadText("before", 0, static_cast<int64_t>(text.size())).value(), text);
  EXPECT_EQ(EndInTime(), 0);
}

// One client's calls, at random; every outcome is counted.
class Traffic {
 public:
  Traffic(client::Client& client, uint64_t seed, std::string text)
      : client_(client), random_(seed), text_(std::move(text)) {}

  void Run(absl::Time until) {
    for (int i = 0; absl::Now() < until; ++i) {
      switch (Below(6)) {
        case 0:
        case 1:
          Count("ingest", client_
                              .IngestText(absl::StrCat("d", Below(1000)),
                                          client::ReadFrom(Some(1 << Between(8, 18))))
                              .status());
          break;
        case 2:
          Count("generate", Generate(0));
          break;
        case 3:
          GenerateOnASession();
          break;
        case 4: {
          v1::ScoreRequest score;
          score.mutable_prompt()->set_text(Some(1 << Between(4, 16)));
          Count("score", client_.Score(score).status());
          break;
        }
        default: {
          v1::RetrieveRequest retrieve;
          retrieve.mutable_session()->add_mounts("before");
          retrieve.mutable_query()->set_text(Some(1 << Between(4, 18)));
          retrieve.set_k(static_cast<int64_t>(Below(500)));
          retrieve.set_with_text(true);
          Count("retrieve", client_.Retrieve(retrieve).status());
        }
      }
    }
  }
  const std::map<std::string, std::map<std::string, int>>& outcomes() const { return outcomes_; }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  int Between(int low, int high) { return low + static_cast<int>(Below(high - low + 1)); }
  std::string Some(size_t bytes) {
    return text_.substr(Below(text_.size() - std::min(text_.size() - 1, bytes)), bytes);
  }
  absl::Status Generate(uint64_t session) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    if (session == 0) request.mutable_session()->add_mounts("before");
    request.mutable_prompt()->set_text(Some(Below(2) == 0 ? (2 << 20) - 1 : 1 << Between(2, 20)));
    request.set_max_tokens(static_cast<int64_t>(Below(100)));
    request.set_ignore_eos(true);
    request.set_with_retrievals(Below(2) == 0);
    return client_.Generate(request).status();
  }
  void GenerateOnASession() {
    v1::SessionOptions options;
    options.add_mounts("before");
    const auto session = client_.OpenSession(options);
    Count("open", session.status());
    if (!session.ok()) return;
    for (uint64_t i = Below(4); i > 0; --i) Count("go on", Generate(session->id()));
    Count("close", client_.CloseSession(session->id()));
  }
  void Count(const char* what, const absl::Status& status) {
    ++outcomes_[what][absl::StatusCodeToString(status.code())];
  }

  client::Client& client_;
  std::mt19937_64 random_;
  const std::string text_;
  std::map<std::string, std::map<std::string, int>> outcomes_;
};

TEST_F(MemoryE2eTest, WhateverTheBoundEverythingAnswersAfterwards) {
  const int64_t rounds = FromEnvironment("RECOLLECT_MEMORY_ROUNDS", 2);
  const int64_t seed = FromEnvironment("RECOLLECT_MEMORY_SEED", 1);
  const int64_t needed = NeededKib();
  const std::string text = Text(3000), pool = Text(450'000);
  std::map<std::string, std::map<std::string, int>> outcomes;
  int ended = 0;
  for (int64_t round = 0; round < rounds && !HasFailure(); ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(seed * 1'000'003 + round));
    const int64_t more = (144 << 10) + static_cast<int64_t>(random() % (96 << 10));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", round ", round, ", ", more, " KiB more"));
    std::filesystem::remove_all(Path("data"));
    StartBounded(needed + (1 << 20));
    if (HasFatalFailure()) break;
    ASSERT_TRUE(client_->IngestText("before", client::ReadFrom(text)).ok());
    Bound(more);
    // Whoever waits for ever is a failure, not a test that never ends.
    std::atomic<bool> done{false};
    std::thread watch([&] {
      if (!Eventually([&] { return done.load(); }, std::chrono::minutes(5))) {
        server_->Signal(SIGKILL);
      }
    });
    const absl::Time until = absl::Now() + absl::Seconds(2);
    const auto hasty = client::Client::Connect(address_, {.timeout = absl::Seconds(3)}).value();
    std::vector<std::unique_ptr<Traffic>> traffic;
    std::vector<std::thread> threads;
    // So many long prompts at once are more than there is room for.
    for (int i = 0; i < 24; ++i) {
      traffic.push_back(std::make_unique<Traffic>(*hasty, random(), pool));
      threads.emplace_back([&, i] { traffic[i]->Run(until); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& one : traffic) {
      for (const auto& [what, codes] : one->outcomes()) {
        for (const auto& [code, count] : codes) {
          outcomes[what][code] += count;
          EXPECT_THAT(code, testing::AnyOf("OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED",
                                           // of a session or an id after one of those
                                           "FAILED_PRECONDITION", "ALREADY_EXISTS", "ABORTED"))
              << what;
        }
      }
    }
    ExpectWorks(text);
    EXPECT_EQ(client_->ReadText("before", 0, static_cast<int64_t>(text.size())).value_or(""), text);
    const int code = EndInTime();
    EXPECT_EQ(code, 0);
    ended += code == 0;
    done = true;
    watch.join();
  }
  std::printf("%d of %lld rounds ended well\n", ended, static_cast<long long>(rounds));
  for (const auto& [what, codes] : outcomes) {
    std::printf("%-10s", what.c_str());
    for (const auto& [code, count] : codes) std::printf(" %s %d", code.c_str(), count);
    std::printf("\n");
  }
}

}  // namespace
}  // namespace recollect
