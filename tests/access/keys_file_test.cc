#include "access/keys_file.h"

#include <set>

#include "tests/access/access_testing.h"

namespace recollect::access {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHash(64, 'a');

std::string Line(const std::string& fields) {
  return R"({"name": "ci", "sha256": ")" + kHash + R"(", "right": "read")" + fields + "}";
}

TEST(KeyTest, WhatIsWrittenIsReadAgain) {
  for (const Key& key : {Key{"ci", kHash, Right::kFull, ""},
                         Key{"A.b_c-9", kHash, Right::kRead, "team \"a\"/ü #"}}) {
    EXPECT_EQ(DecodeKey(EncodeKey(key)).value(), key);
  }
  EXPECT_EQ(EncodeKey({"ci", kHash, Right::kRead, "a/"}), Line(R"(, "prefix": "a/")"));
}

TEST(KeyTest, WhatIsNoKeyIsRefusedByName) {
  const auto refused = [](const std::string& line, const char* why) {
    EXPECT_THAT(DecodeKey(line), StatusIs(absl::StatusCode::kInvalidArgument, why)) << line;
  };
  refused("ci " + kHash + " read", "not a JSON object");
  refused("[1]", "not a JSON object");
  refused(R"({"name": "ci", "right": "read"})", "sha256: 0 characters, expected 64");
  refused(R"({"sha256": ")" + kHash + R"(", "right": "read"})", "name: ''");
  refused(R"({"name": "c i", "sha256": ")" + kHash + R"(", "right": "read"})", "name: 'c i'");
  refused(R"({"name": "ci", "sha256": ")" + kHash + R"("})",
          "right: '', expected 'read' or 'full'");
  refused(R"({"name": "ci", "sha256": ")" + kHash + R"(", "right": "admin"})", "right: 'admin'");
  refused(R"({"name": "ci", "sha256": ")" + std::string(64, 'A') + R"(", "right": "read"})",
          "lower-case");
  refused(R"({"name": 7, "sha256": ")" + kHash + R"(", "right": "read"})",
          "name: number, expected a string");
  refused(Line(R"(, "prefix": "")"), "prefix: empty");
  refused(Line(R"(, "prefix": ")" + std::string(257, 'p') + "\""), "prefix: 257 bytes");
  refused(Line(R"(, "expires": "never")"), "expires: unknown field");
}

TEST(KeyTest, AKeyInPlaceOfItsHashIsNotRepeatedInTheMessage) {
  const std::string secret = NewSecret();
  const absl::Status status =
      DecodeKey(R"({"name": "ci", "sha256": ")" + secret + R"(", "right": "read"})").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "sha256: 46 characters"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr(secret)));
}

TEST(KeyTest, SecretsAreVisibleTextAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string secret = NewSecret();
    EXPECT_EQ(secret.size(), 46u);
    EXPECT_EQ(secret.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-_"),
              std::string::npos);
    EXPECT_TRUE(seen.insert(secret).second);
  }
}

TEST_F(KeysFileTest, CommentsAndEmptyLinesAreNoKeys) {
  const Key ci = KeyOf("ci"), web = KeyOf("web", Right::kRead, "a/");
  EXPECT_THAT(ParseKeys("# of the team\n\n" + EncodeKey(ci) + "\r\n  " + EncodeKey(web)).value(),
              ElementsAre(ci, web));
  EXPECT_TRUE(ParseKeys("").value().empty());
}

// As editors on Windows write files.
TEST_F(KeysFileTest, AFileMayBeginWithAByteOrderMark) {
  const Key ci = KeyOf("ci"), web = KeyOf("web", Right::kRead, "a/");
  for (const char* first : {"", "# of the team\n", "\n"}) {
    Write("\xef\xbb\xbf" + std::string(first) + EncodeKey(ci));
    const auto keys = LoadKeys(path_);
    ASSERT_THAT(keys, IsOk()) << first;
    EXPECT_THAT(*keys, ElementsAre(ci)) << first;
  }
  EXPECT_THAT(AddKey(path_, web), IsOk());
  EXPECT_THAT(RemoveKey(path_, "ci"), IsOk());
  EXPECT_THAT(LoadKeys(path_).value(), ElementsAre(web));
}

TEST_F(KeysFileTest, TheLineThatIsWrongIsNamed) {
  const std::string ci = EncodeKey(KeyOf("ci"));
  Write("# keys\n" + ci + "\n{\n");
  EXPECT_THAT(LoadKeys(path_),
              StatusIs(absl::StatusCode::kInvalidArgument, path_ + ": line 3: not a JSON object"));
  EXPECT_THAT(ParseKeys(ci + "\n" + ci), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  "line 2: name: 'ci' is that of an earlier line"));
  Key same = KeyOf("ci");
  same.name = "other";
  EXPECT_THAT(ParseKeys(ci + "\n" + EncodeKey(same)),
              StatusIs(absl::StatusCode::kInvalidArgument, "line 2: sha256: that of key 'ci'"));
  std::string many;
  for (size_t i = 0; i <= kMaxKeys; ++i) many += EncodeKey(KeyOf(std::to_string(i))) + "\n";
  EXPECT_THAT(ParseKeys(many),
              StatusIs(absl::StatusCode::kInvalidArgument, "line 1025: more than 1024 keys"));
}

TEST_F(KeysFileTest, AMissingFileIsNamed) {
  EXPECT_THAT(LoadKeys(path_), StatusIs(absl::StatusCode::kNotFound, path_));
  EXPECT_THAT(LoadKeys(directory_), StatusIs(absl::StatusCode::kInvalidArgument, "directory"));
  EXPECT_THAT(RemoveKey(path_, "ci"), StatusIs(absl::StatusCode::kNotFound, path_));
}

TEST_F(KeysFileTest, KeysAreAddedAndRemovedAndTheRestStays) {
  EXPECT_THAT(AddKey(path_, KeyOf("ci")), IsOk());
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Write("# by hand\n" + EncodeKey(KeyOf("ci")));  // without the end of the line
  EXPECT_THAT(AddKey(path_, KeyOf("web", Right::kRead, "a/")), IsOk());
  EXPECT_THAT(AddKey(path_, KeyOf("web")),
              StatusIs(absl::StatusCode::kAlreadyExists, "there is a key 'web'"));
  EXPECT_THAT(RemoveKey(path_, "nobody"), StatusIs(absl::StatusCode::kNotFound, "'nobody'"));
  EXPECT_THAT(RemoveKey(path_, "ci"), IsOk());
  EXPECT_EQ(Read(), "# by hand\n" + EncodeKey(KeyOf("web", Right::kRead, "a/")) + "\n");
  EXPECT_THAT(RemoveKey(path_, "web"), IsOk());
  EXPECT_EQ(Read(), "# by hand\n");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(KeysFileTest, ADamagedFileIsNotWrittenOver) {
  Write("{\n");
  EXPECT_THAT(AddKey(path_, KeyOf("ci")), StatusIs(absl::StatusCode::kInvalidArgument, "line 1"));
  EXPECT_THAT(RemoveKey(path_, "ci"), StatusIs(absl::StatusCode::kInvalidArgument, "line 1"));
  EXPECT_EQ(Read(), "{\n");
  EXPECT_THAT(AddKey(directory_ / "no such" / "keys", KeyOf("ci")),
              StatusIs(absl::StatusCode::kUnavailable, "no such"));
}

TEST_F(KeysFileTest, AFileThatOthersMayReadIsWarnedOf) {
  Write(EncodeKey(KeyOf("ci")) + "\n");
  SetLogLevel(LogLevel::kWarning);
  const auto warned = [&](mode_t mode) {
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(LoadKeys(path_), IsOk());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warned(0644), HasSubstr("mode 0644, others may read or write it"));
  EXPECT_EQ(warned(0600), "");
}

}  // namespace
}  // namespace recollect::access
