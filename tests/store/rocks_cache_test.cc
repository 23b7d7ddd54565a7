// The cache of records on this machine's disk.
#include "store/rocks/rocks_cache.h"

#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/io/log.h"
#include "tests/store/rocks_testing.h"
#include "tests/store/store_testing.h"
#include "tests/support/eventually.h"

namespace recollect::store::rocks {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::Optional;

std::unique_ptr<RecordCache> Open(const std::string& directory, int64_t bytes = kMinCacheBytes) {
  auto cache = OpenRocksCache({directory, bytes});
  EXPECT_THAT(cache, IsOk());
  return cache.ok() ? *std::move(cache) : nullptr;
}

std::string Key(int64_t i) { return absl::StrCat("key ", 100000000 + i * 7919 % 1000000); }

std::string Record(int64_t i, size_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(i));
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

// What comes faster than the disk takes it is not kept: then it is put again.
void Put(RecordCache& cache, int64_t begin, int64_t end, size_t bytes) {
  for (int64_t i = begin; i < end; ++i) {
    const std::pair<std::string, std::string> record[] = {{Key(i), Record(i, bytes)}};
    const std::string keys[] = {Key(i)};
    Eventually([&] {
      cache.Put(record);
      return cache.Get(keys)[0] == record[0].second;
    });
  }
}

// How many of [begin, end) are there. One that is there and not as it was put is a failure.
int64_t Count(RecordCache& cache, int64_t begin, int64_t end, size_t bytes) {
  int64_t there = 0;
  for (int64_t i = begin; i < end; ++i) {
    const std::string keys[] = {Key(i)};
    const auto found = cache.Get(keys)[0];
    if (!found) continue;
    ++there;
    EXPECT_EQ(*found, Record(i, bytes)) << i;
  }
  return there;
}

TEST(RocksCacheTest, GivesWhatWasPutAlsoToTheNextProcess) {
  const TempDir directory;
  {
    const auto cache = Open(directory.path());
    const std::pair<std::string, std::string> records[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
    cache->Put(records);
    const std::string keys[] = {"b", "none", "a"};
    EXPECT_THAT(cache->Get(keys),
                ElementsAre(Optional(std::string("2")), std::nullopt, Optional(std::string("3"))));
    EXPECT_EQ(cache->state().budget_bytes, kMinCacheBytes);
    EXPECT_FALSE(cache->state().read_only);
  }
  const auto again = Open(directory.path());
  const std::string keys[] = {"a"};
  EXPECT_THAT(again->Get(keys), ElementsAre(Optional(std::string("3"))));
}

TEST(RocksCacheTest, KeepsItsBudgetAndTheLatest) {
  constexpr size_t kBytes = 32 << 10;
  constexpr int64_t kRecords = 3 * kMinCacheBytes / static_cast<int64_t>(kBytes);
  const TempDir directory;
  {
    const auto cache = Open(directory.path());
    int64_t largest = 0;
    for (int64_t i = 0; i < kRecords; ++i) {
      Put(*cache, i, i + 1, kBytes);
      if (i % 16 == 0) largest = std::max(largest, DirectoryBytes(directory.path()));
    }
    // RocksDB deletes a dropped file a little later: on a busy machine one or two are still there.
    EXPECT_LE(largest, kMinCacheBytes + 2 * kMinCacheBytes / 64);
    EXPECT_GT(largest, kMinCacheBytes * 3 / 4);
    EXPECT_EQ(Count(*cache, kRecords - 100, kRecords, kBytes), 100);
    const int64_t there = Count(*cache, 0, kRecords, kBytes);
    EXPECT_GT(there, kRecords / 4);
    EXPECT_LE(there, kRecords / 3);
    EXPECT_LE(cache->state().bytes, kMinCacheBytes);
  }
  const auto again = Open(directory.path());
  EXPECT_EQ(Count(*again, kRecords - 100, kRecords, kBytes), 100);
}

// A larger cache that is opened with a smaller budget shrinks with the next file.
TEST(RocksCacheTest, ASmallerBudgetShrinksIt) {
  constexpr size_t kBytes = 32 << 10;
  const TempDir directory;
  Put(*Open(directory.path(), 3 * kMinCacheBytes), 0, 2500, kBytes);
  EXPECT_GT(DirectoryBytes(directory.path()), 2 * kMinCacheBytes);
  const auto cache = Open(directory.path());
  Put(*cache, 2500, 2600, kBytes);
  EXPECT_TRUE(Eventually([&] { return DirectoryBytes(directory.path()) <= kMinCacheBytes; }));
  EXPECT_EQ(Count(*cache, 2500, 2600, kBytes), 100);
}

// Damage in tables is a miss at most, and what is put again is found, whatever is damaged.
TEST(RocksCacheTest, DamagedFilesLoseNoMoreThanWhatTheyHad) {
  SetLogLevel(LogLevel::kOff);
  constexpr size_t kBytes = 4 << 10;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const TempDir directory;
    Put(*Open(directory.path()), 0, 300, kBytes);
    std::vector<std::string> names;
    for (const auto& [name, bytes] : Files(directory.path())) {
      if (name != "RECOLLECT-CACHE" && !bytes.empty()) names.push_back(name);
    }
    const std::string file = directory.path() + "/" + names[random() % names.size()];
    const int64_t size = std::ssize(ReadFile(file));
    switch (random() % 3) {
      case 0:
        FlipByte(file, static_cast<int64_t>(random() % static_cast<uint64_t>(size)));
        break;
      case 1:
        std::filesystem::resize_file(file, random() % static_cast<uint64_t>(size));
        break;
      default:
        std::filesystem::remove(file);
    }
    const auto cache = Open(directory.path());
    ASSERT_NE(cache, nullptr) << seed << " " << file;
    Count(*cache, 0, 300, kBytes);
    Put(*cache, 0, 300, kBytes);
    EXPECT_EQ(Count(*cache, 0, 300, kBytes), 300) << seed << " " << file;
  }
  SetLogLevel(LogLevel::kInfo);
}

// Others fill the disk. What is in the cache is read, nothing is added, and room is used again.
TEST(RocksCacheTest, ADiskThatIsNearlyFullTakesNothingAndSaysSo) {
  constexpr size_t kBytes = 4 << 10;
  const TempDir directory;
  if (mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=96m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here: a cache on a full disk is NOT tested";
  }
  const std::string others = directory.path() + "/others", inside = directory.path() + "/cache";
  const auto fill = [&](int64_t bytes) {
    std::ofstream out(others, std::ios::binary);
    const std::string zeros(1 << 20, '\0');
    for (int64_t i = 0; i < bytes; i += std::ssize(zeros)) out << zeros;
  };
  {
    const auto cache = Open(inside);
    Put(*cache, 0, 100, kBytes);
    EXPECT_FALSE(cache->state().read_only);
    fill(60 << 20);
    testing::internal::CaptureStderr();
    const std::pair<std::string, std::string> record[] = {{Key(100), Record(100, kBytes)}};
    for (int i = 0; i < 3; ++i) cache->Put(record);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::ContainsRegex("takes no more records.*bytes free"));
    EXPECT_TRUE(cache->state().read_only);
    EXPECT_EQ(Count(*cache, 0, 100, kBytes), 100);
    EXPECT_EQ(Count(*cache, 100, 101, kBytes), 0);
    std::filesystem::remove(others);
    Put(*cache, 100, 200, kBytes);
    EXPECT_FALSE(cache->state().read_only);
    EXPECT_EQ(Count(*cache, 0, 200, kBytes), 200);
  }
  fill(int64_t{100} << 20);
  EXPECT_THAT(OpenRocksCache({inside, kMinCacheBytes}).status(),
              StatusIs(StatusCode::kResourceExhausted, inside));
  std::filesystem::remove(others);
  EXPECT_EQ(Count(*Open(inside), 0, 200, kBytes), 200);
  umount(directory.path().c_str());
}

TEST(RocksCacheTest, RefusesWhatIsNoCache) {
  const TempDir directory;
  std::ofstream(directory.path() + "/book.txt") << "mine";
  EXPECT_THAT(OpenRocksCache({directory.path(), kMinCacheBytes}).status(),
              StatusIs(StatusCode::kFailedPrecondition, "book.txt"));
  EXPECT_EQ(ReadFile(directory.path() + "/book.txt"), "mine");
  const std::string inside = directory.path() + "/a/cache";
  const auto cache = Open(inside);
  EXPECT_THAT(
      OpenRocksCache({inside, kMinCacheBytes}).status(),
      StatusIs(StatusCode::kFailedPrecondition, "cache directory " + inside + " is in use"));
  EXPECT_THAT(OpenRocksCache({directory.path() + "/book.txt", kMinCacheBytes}).status(),
              StatusIs(StatusCode::kFailedPrecondition, "book.txt"));
  EXPECT_THAT(OpenRocksCache({inside, kMinCacheBytes - 1}).status(),
              StatusIs(StatusCode::kInvalidArgument, absl::StrCat(kMinCacheBytes)));
}

}  // namespace
}  // namespace recollect::store::rocks
