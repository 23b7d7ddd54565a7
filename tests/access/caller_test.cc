#include "access/caller.h"

#include <algorithm>
#include <vector>

#include "tests/access/access_testing.h"

namespace recollect::access {
namespace {

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

Caller CallerOf(Right right, const std::string& prefix = "") {
  return Caller(std::make_shared<const Key>(KeyOf("ci", right, prefix)));
}

TEST(CallerTest, ARightThatIsMissingIsNamed) {
  EXPECT_THAT(CallerOf(Right::kRead).CheckRight(Right::kRead, "Generate"), IsOk());
  EXPECT_THAT(CallerOf(Right::kFull).CheckRight(Right::kRead, "Generate"), IsOk());
  EXPECT_THAT(CallerOf(Right::kFull).CheckRight(Right::kFull, "Ingest"), IsOk());
  EXPECT_THAT(CallerOf(Right::kRead).CheckRight(Right::kFull, "Ingest"),
              StatusIs(kDenied, "key 'ci' has the right 'read', Ingest needs 'full'"));
}

TEST(CallerTest, AnybodyMayAndNobodyMayNot) {
  EXPECT_THAT(Caller::Anybody().CheckRight(Right::kFull, "Ingest"), IsOk());
  EXPECT_THAT(Caller::Anybody().CheckAllDocuments("CreateBackup"), IsOk());
  EXPECT_THAT(Caller::Anybody().CheckDocument("d"), IsOk());
  EXPECT_THAT(Caller().CheckRight(Right::kRead, "Generate"), StatusIs(kDenied, "Generate"));
  EXPECT_THAT(Caller().CheckAllDocuments("CreateBackup"), StatusIs(kDenied, "CreateBackup"));
  EXPECT_THAT(Caller().CheckDocument("d"), StatusIs(kDenied, ""));
}

TEST(CallerTest, APrefixBoundsTheDocuments) {
  const Caller caller = CallerOf(Right::kFull, "team-a/");
  EXPECT_THAT(caller.CheckDocument("team-a/moby"), IsOk());
  EXPECT_THAT(
      caller.CheckDocuments(std::vector<std::string>{"team-a/x", "team-b/x"}),
      StatusIs(kDenied, "document 'team-b/x': key 'ci' is for ids that begin with 'team-a/'"));
  for (const char* id : {"", "team-a", "team-A/x", "x/team-a/"}) {
    EXPECT_THAT(caller.CheckDocument(id), StatusIs(kDenied, "team-a/")) << id;
  }
  EXPECT_THAT(caller.CheckAllDocuments("CreateBackup"), StatusIs(kDenied, "all documents"));
  EXPECT_THAT(CallerOf(Right::kFull).CheckAllDocuments("CreateBackup"), IsOk());
}

// Whatever the prefix: of ids in byte order, those behind ListFrom begin with the caller's.
TEST(CallerTest, AListBeginsAtTheFirstThatIsTheCallers) {
  std::vector<std::string> ids = {
      "a", "a/",     "a/b",     "a/\u00ff",           "a/\U0010ffff",        "a0",
      "b", "\u00e9", "\u00e9x", std::string("\0", 1), std::string("a\0b", 3)};
  std::sort(ids.begin(), ids.end());
  for (const std::string& prefix : ids) {
    const Caller caller = CallerOf(Right::kRead, prefix);
    const auto first = std::upper_bound(ids.begin(), ids.end(), caller.ListFrom(""));
    const auto expected =
        std::find_if(ids.begin(), ids.end(), [&](const auto& id) { return caller.MaySee(id); });
    EXPECT_EQ(*first, *expected) << prefix;
  }
  EXPECT_EQ(CallerOf(Right::kRead, "a/").ListFrom("a/b"), "a/b") << "the next page";
  EXPECT_EQ(CallerOf(Right::kRead).ListFrom(""), "");
  EXPECT_EQ(Caller::Anybody().ListFrom("x"), "x");
}

}  // namespace
}  // namespace recollect::access
