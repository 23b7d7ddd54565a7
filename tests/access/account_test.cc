#include "access/account.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "access/guard.h"
#include "base/clock.h"
#include "tests/access/access_testing.h"

namespace recollect::access {
namespace {

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

std::shared_ptr<Account> With(const Quota& quota, const std::string& prefix = "") {
  Key key = KeyOf("ci", Right::kFull, prefix);
  key.quota = quota;
  return std::make_shared<Account>(key);
}

TEST(AccountTest, WithoutAQuotaNothingIsRefused) {
  const auto account = With({});
  account->SpendTokens(1'000'000'000);
  EXPECT_THAT(account->CheckTokens(), IsOk());
  EXPECT_EQ(account->counted_prefix(), std::nullopt);
  std::vector<std::shared_ptr<void>> places;
  for (int i = 0; i < 1000; ++i) {
    auto place = account->TakeSession();
    ASSERT_THAT(place, IsOk());
    places.push_back(*std::move(place));
  }
}

TEST(AccountTest, SessionsAreGivenBack) {
  auto account = With({.max_sessions = 2});
  auto first = account->TakeSession().value(), second = account->TakeSession().value();
  EXPECT_THAT(account->TakeSession(),
              StatusIs(kExhausted, "key 'ci': 2 sessions are open, its quota is 2"));
  first = nullptr;
  EXPECT_THAT(account->TakeSession(), IsOk());
  first = account->TakeSession().value();
  EXPECT_THAT(account->TakeSession(), StatusIs(kExhausted, "2 sessions"));
  account = nullptr;  // places outlive whoever gave them
}

TEST(AccountTest, ARequestMayBeginWhileAnythingIsLeftOfTheMinute) {
  const auto account = With({.tokens_per_minute = 1'000'000});
  EXPECT_THAT(account->CheckTokens(), IsOk());
  account->SpendTokens(500'000);
  EXPECT_THAT(account->CheckTokens(), IsOk());
  account->SpendTokens(2'500'000);
  const absl::Status refused = account->CheckTokens();
  EXPECT_THAT(refused, StatusIs(kExhausted, "its quota is 1000000 a minute"));
  // Two minutes' worth too much, less what came back meanwhile.
  ASSERT_TRUE(RetryAfter(refused).has_value());
  EXPECT_LE(*RetryAfter(refused), absl::Minutes(2));
  EXPECT_GT(*RetryAfter(refused), absl::Minutes(1));
}

TEST(AccountTest, ABucketFillsWithTime) {
  const auto account = With({.tokens_per_minute = 60'000'000'000});  // a million in a millisecond
  account->SpendTokens(60'000'000'001);
  const absl::Time begin = SteadyNow();
  while (!account->CheckTokens().ok()) ASSERT_LT(SteadyNow() - begin, absl::Seconds(10));
}

TEST(AccountTest, ANewQuotaKeepsWhatWasUsed) {
  const auto account = With({.max_sessions = 1, .tokens_per_minute = 10});
  const auto place = account->TakeSession().value();
  account->SpendTokens(1000);
  Key key = KeyOf("ci");
  key.quota = {.max_sessions = 2, .tokens_per_minute = 20};
  account->Set(key);
  EXPECT_THAT(account->CheckTokens(), StatusIs(kExhausted, "its quota is 20 a minute"));
  const auto second = account->TakeSession();
  EXPECT_THAT(second, IsOk());
  EXPECT_THAT(account->TakeSession(), StatusIs(kExhausted, "its quota is 2"));
  account->Set(KeyOf("ci"));
  EXPECT_THAT(account->CheckTokens(), IsOk());
}

TEST(AccountTest, DocumentsAndTheirTextAreBounded) {
  const auto account = With({.max_documents = 3, .max_bytes = 100}, "a/");
  EXPECT_EQ(account->counted_prefix(), "a/");
  EXPECT_EQ(account->CheckDocument(2, 40).value(), 60);
  EXPECT_THAT(account->CheckDocument(3, 0), StatusIs(kExhausted, "3 documents are there"));
  EXPECT_THAT(account->CheckDocument(1, 100), StatusIs(kExhausted, "100 bytes"));
  EXPECT_THAT(account->CheckBytes(60, 60), IsOk());
  EXPECT_THAT(account->CheckBytes(61, 60), StatusIs(kExhausted, "61 bytes"));
  EXPECT_EQ(With({.max_bytes = 1})->counted_prefix(), "");
}

TEST(AccountTest, OnlyARefusalForATimeSaysWhen) {
  EXPECT_EQ(RetryAfter(absl::ResourceExhaustedError("x")), std::nullopt);
  EXPECT_EQ(RetryAfter(WithRetryAfter(absl::ResourceExhaustedError("x"), absl::Seconds(3))),
            absl::Seconds(3));
}

TEST_F(KeysFileTest, AQuotaIsReadBackAndItsFieldsAreChecked) {
  Key key = KeyOf("ci", Right::kFull, "a/");
  key.quota = {3, 1'000'000, 4, 60'000};
  EXPECT_EQ(DecodeKey(EncodeKey(key)).value(), key);
  EXPECT_THAT(EncodeKey(key), ::testing::HasSubstr(R"("max_documents": 3, "max_bytes": 1000000)"));
  for (const std::string value : {"0", "-1", "1.5", "\"4\"", "null", "9223372036854775808"}) {
    std::string line = EncodeKey(KeyOf("ci"));
    line.insert(line.size() - 1, ", \"max_sessions\": " + value);
    EXPECT_THAT(DecodeKey(line), StatusIs(absl::StatusCode::kInvalidArgument,
                                          "max_sessions: " + value + ", expected a whole number"));
  }
}

TEST_F(KeysFileTest, AReloadChangesTheQuotaAndEndsNoCall) {
  Key key = KeyOf("ci");
  key.quota = {.max_sessions = 1};
  Write(EncodeKey(key));
  const auto guard = Guard::Open(path_).value();
  const Caller before = guard->Admit("Bearer secret-ci").value();
  const auto place = before.account()->TakeSession().value();
  EXPECT_EQ(guard->Admit("Bearer secret-ci").value().account(), before.account());
  key.quota = {.max_sessions = 2};
  Write(EncodeKey(key));
  ASSERT_THAT(guard->Reload(), IsOk());
  EXPECT_THAT(guard->CheckStill(before), IsOk());
  const Caller after = guard->Admit("Bearer secret-ci").value();
  const auto second = after.account()->TakeSession();
  EXPECT_THAT(second, IsOk());
  EXPECT_THAT(before.account()->TakeSession(), StatusIs(kExhausted, "2 sessions are open"));
}

}  // namespace
}  // namespace recollect::access
