#include "cli/common/usage.h"

#include <gtest/gtest.h>

namespace recollect::cli {
namespace {

TEST(UsageTest, TheNearestNameIsFound) {
  const std::vector<std::string> verbs = {"serve", "score", "store", "stats", "ingest", "--server"};
  EXPECT_EQ(Nearest("serve", verbs), "serve");
  EXPECT_EQ(Nearest("srve", verbs), "serve") << "one is missing";
  EXPECT_EQ(Nearest("ingesst", verbs), "ingest") << "one is too many";
  EXPECT_EQ(Nearest("stets", verbs), "stats") << "one is another";
  EXPECT_EQ(Nearest("sotre", verbs), "store") << "two are in the other order";
  EXPECT_EQ(Nearest("ingset-", verbs), "ingest") << "two mistakes in a long word";
  EXPECT_EQ(Nearest("--sever", verbs), "--server");
  for (const char* far : {"", "s", "generate", "st", "xxxxx"}) EXPECT_EQ(Nearest(far, verbs), "");
  EXPECT_EQ(Nearest(std::string(1'000'000, 's'), verbs), "");
  EXPECT_EQ(Nearest("x", {}), "");
}

}  // namespace
}  // namespace recollect::cli
