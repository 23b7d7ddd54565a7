#include "access/guard.h"

#include "tests/access/access_testing.h"

namespace recollect::access {
namespace {

constexpr auto kUnknown = absl::StatusCode::kUnauthenticated;

TEST_F(KeysFileTest, AKeyIsAdmittedByItsHash) {
  Write(EncodeKey(KeyOf("ci")) + "\n" + EncodeKey(KeyOf("web", Right::kRead, "a/")));
  const auto guard = Guard::Open(path_).value();
  EXPECT_EQ(*guard->Admit("Bearer secret-web").value().key(), KeyOf("web", Right::kRead, "a/"));
  EXPECT_EQ(guard->Admit("bearer  secret-ci ").value().name(), "ci");
}

TEST_F(KeysFileTest, NoKeyAndAWrongOneAreToldTheSame) {
  Write(EncodeKey(KeyOf("ci")));
  const auto guard = Guard::Open(path_).value();
  const absl::Status none = guard->Admit("").status();
  EXPECT_THAT(none, StatusIs(kUnknown, "Bearer"));
  for (const std::string sent : {"Bearer", "Bearer ", "Bearer secret-c", "Bearer secret-cii",
                                 "secret-ci", "Basic secret-ci", "Bearer secret-ci secret-ci"}) {
    EXPECT_EQ(guard->Admit(sent).status(), none) << sent;
  }
  EXPECT_EQ(guard->Admit("Bearer " + KeyOf("ci").sha256).status(), none) << "the hash is no key";
}

TEST_F(KeysFileTest, ReloadingTakesNewKeysAndRefusesThoseThatAreGone) {
  Write(EncodeKey(KeyOf("old")));
  const auto guard = Guard::Open(path_).value();
  const Caller old = guard->Admit("Bearer secret-old").value();
  EXPECT_THAT(guard->CheckStill(old), IsOk());
  Write(EncodeKey(KeyOf("new")));
  EXPECT_THAT(guard->Admit("Bearer secret-new"), StatusIs(kUnknown, "")) << "not before";
  ASSERT_THAT(guard->Reload(), IsOk());
  EXPECT_THAT(guard->Admit("Bearer secret-new"), IsOk());
  EXPECT_THAT(guard->Admit("Bearer secret-old"), StatusIs(kUnknown, ""));
  EXPECT_THAT(guard->CheckStill(old), StatusIs(kUnknown, "key 'old' is revoked"));
  Write(EncodeKey(KeyOf("new", Right::kRead)));
  const Caller full = guard->Admit("Bearer secret-new").value();
  ASSERT_THAT(guard->Reload(), IsOk());
  EXPECT_THAT(guard->CheckStill(full), StatusIs(kUnknown, "has changed"));
}

TEST_F(KeysFileTest, ABadFileLeavesTheKeysAsTheyWere) {
  Write(EncodeKey(KeyOf("ci")));
  const auto guard = Guard::Open(path_).value();
  Write(EncodeKey(KeyOf("other")) + "\n{\n");
  EXPECT_THAT(guard->Reload(), StatusIs(absl::StatusCode::kInvalidArgument, "line 2"));
  EXPECT_THAT(guard->Admit("Bearer secret-ci"), IsOk());
  EXPECT_THAT(guard->Admit("Bearer secret-other"), StatusIs(kUnknown, ""));
  std::filesystem::remove(path_);
  EXPECT_THAT(guard->Reload(), StatusIs(absl::StatusCode::kNotFound, path_));
  EXPECT_THAT(guard->Admit("Bearer secret-ci"), IsOk());
  Write("# none\n");
  EXPECT_THAT(guard->Reload(), IsOk());
  EXPECT_THAT(guard->Admit("Bearer secret-ci"), StatusIs(kUnknown, "")) << "all are revoked";
}

TEST_F(KeysFileTest, WithoutAFileThereIsNoGuard) {
  EXPECT_THAT(Guard::Open(path_), StatusIs(absl::StatusCode::kNotFound, path_));
}

}  // namespace
}  // namespace recollect::access
