// The part of the suite over the engine and its fake that is about what a key may use.
#include <atomic>
#include <future>

#include "tests/engine/engine_contract.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;

class QuotaContractTest : public EngineContractTest {
 protected:
  static std::shared_ptr<access::Account> With(const access::Quota& quota,
                                               const std::string& prefix = "") {
    return std::make_shared<access::Account>(
        access::Key{"ci", "", access::Right::kFull, prefix, quota});
  }
  GenerateRequest AskFor(std::shared_ptr<access::Account> account) const {
    GenerateRequest request = Ask(3);
    request.account = std::move(account);
    return request;
  }
  absl::Status IngestFor(const std::shared_ptr<access::Account>& account, const std::string& id,
                         const std::string& text) {
    ASSIGN_OR_RETURN(const auto stream,
                     engine_->BeginIngest(id, /*from_tokens=*/false, {}, {.account = account}));
    RETURN_IF_ERROR(Append(*stream, 0, text).status());
    return Finish(*stream).status();
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, QuotaContractTest, ::testing::ValuesIn(kImplementations), NameOf);

constexpr auto kExhausted = StatusCode::kResourceExhausted;

TEST_P(QuotaContractTest, WhatIsReadIsCountedAndTheNextRequestIsRefused) {
  const auto account = With({.tokens_per_minute = 2});
  EXPECT_THAT(Generate(*engine_, AskFor(account)).status, IsOk()) << "begins with a full minute";
  const absl::Status refused = Generate(*engine_, AskFor(account)).status;
  EXPECT_THAT(refused, StatusIs(kExhausted, "its quota is 2 a minute"));
  EXPECT_TRUE(access::RetryAfter(refused).has_value());
  ScoreRequest score{{}, {}, {"a", {}}, {}};
  score.account = account;
  EXPECT_THAT(Score(*engine_, score), StatusIs(kExhausted, "a minute"));
  RetrieveRequest retrieve{{}, {"a", {}}};
  retrieve.account = account;
  EXPECT_THAT(Retrieve(*engine_, retrieve), StatusIs(kExhausted, "a minute"));
  EXPECT_THAT(Generate(*engine_, Ask(3)).status, IsOk()) << "others go on";
}

TEST_P(QuotaContractTest, SessionsAreCountedOpenOrNot) {
  const auto account = With({.max_sessions = 1});
  const SessionId open = engine_->OpenSession({}, {.account = account}).value();
  EXPECT_THAT(engine_->OpenSession({}, {.account = account}),
              StatusIs(kExhausted, "key 'ci': 1 sessions are open, its quota is 1"));
  EXPECT_THAT(Generate(*engine_, AskFor(account)).status, StatusIs(kExhausted, "1 sessions"));
  GenerateRequest within = AskFor(account);
  within.session = open;
  EXPECT_THAT(Generate(*engine_, within).status, IsOk());
  ASSERT_THAT(engine_->CloseSession(open), IsOk());
  const Running running = Start(AskFor(account));
  EXPECT_THAT(engine_->OpenSession({}, {.account = account}), StatusIs(kExhausted, ""));
  running.handle->Cancel();
  EXPECT_THAT(running.events->Wait(), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_THAT(engine_->OpenSession({}, {.account = account}), IsOk());
}

TEST_P(QuotaContractTest, DocumentsUnderThePrefixAreCounted) {
  const auto account = With({.max_documents = 2}, "a/");
  ASSERT_THAT(Ingest(*engine_, "b", "of others"), IsOk());
  ASSERT_THAT(IngestFor(account, "a/1", "text"), IsOk());
  const auto open = engine_->BeginIngest("a/2", false, {}, {.account = account});
  ASSERT_THAT(open, IsOk());
  EXPECT_THAT(IngestFor(account, "a/3", "text"),
              StatusIs(kExhausted, "2 documents are there, its quota is 2"));
  EXPECT_THAT(engine_->GetDocument("a/3"), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(IngestFor(account, "a/1", "text"), IsOk()) << "it is there already";
  ASSERT_THAT(engine_->DeleteDocument("a/1"), IsOk());
  EXPECT_THAT(IngestFor(account, "a/3", "text"), IsOk());
}

TEST_P(QuotaContractTest, TextIsCountedBeforeAndWhileItIsRead) {
  const auto account = With({.max_bytes = 10});
  ASSERT_THAT(IngestFor(account, "a", "six in"), IsOk());
  EXPECT_THAT(IngestFor(account, "b", "fives"), StatusIs(kExhausted, "5 bytes of text up to here"));
  EXPECT_THAT(engine_->GetDocument("b"), StatusIs(StatusCode::kNotFound, ""));
  EXPECT_THAT(IngestFor(account, "b", "four"), IsOk());
  EXPECT_THAT(IngestFor(account, "c", "x"), StatusIs(kExhausted, "10 bytes"));
}

TEST_P(QuotaContractTest, AnImportIsCountedBeforeItIsWritten) {
  ASSERT_THAT(Ingest(*engine_, "six", "six in"), IsOk());
  std::string file;
  {
    const auto out = engine_->ExportDocument("six").value();
    for (std::string part = out->Next().value(); !part.empty(); part = out->Next().value())
      file += part;
  }
  const auto import = [&](const std::shared_ptr<access::Account>& account, const std::string& id) {
    const auto stream = engine_->ImportDocument(id, {.account = account}).value();
    const absl::Status taken = stream->Append(file);
    return taken.ok() ? stream->Finish().status() : taken;
  };
  const auto bytes = With({.max_bytes = 10}, "a/");
  EXPECT_THAT(import(bytes, "a/1"), IsOk());
  EXPECT_THAT(import(bytes, "a/2"),
              StatusIs(kExhausted, "6 bytes of text up to here, 4 were left"));
  const auto documents = With({.max_documents = 2}, "a/");
  {
    // It is on its way, and counts, but it has not said its name to the store.
    const auto other = engine_->BeginIngest("a/3", false, {}, {.account = documents});
    ASSERT_THAT(other, IsOk());
    EXPECT_THAT(import(documents, "a/2"),
                StatusIs(kExhausted, "2 documents are there, its quota is 2"));
    EXPECT_THAT(engine_->GetDocument("a/2"), StatusIs(StatusCode::kNotFound, ""));
    ASSERT_THAT(engine_->DeleteDocument("a/3"), IsOk());
  }
  EXPECT_THAT(import(documents, "a/2"), IsOk());
  EXPECT_THAT(import(nullptr, "a/3"), IsOk());
}

// The fake reads at once whatever it is sent.
TEST(QuotaTest, AnIngestWaitsUntilItsAccountMayReadAgain) {
  const std::unique_ptr<Engine> engine = MakeReal(4, 4);
  access::Key key{"ci", "", access::Right::kFull, "", {.tokens_per_minute = 1}};
  const auto account = std::make_shared<access::Account>(key);
  account->SpendTokens(1'000'000);
  const auto stream = engine->BeginIngest("d", false, {}, {.account = account}).value();
  std::promise<absl::Status> answered;
  std::atomic<bool> done = false;
  stream->Append(0, SampleText(20'000, 1), [&](const auto& status) {
    done = true;
    answered.set_value(status.status());
  });
  // The scheduler has had turns enough to begin with it.
  EXPECT_THAT(Ingest(*engine, "other", SampleText(20'000, 2)), IsOk());
  EXPECT_FALSE(done);
  key.quota = {};
  account->Set(key);
  EXPECT_THAT(answered.get_future().get(), IsOk());
  EXPECT_THAT(Finish(*stream), IsOk());
}

}  // namespace
}  // namespace recollect::engine
