#include "cli/common/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace recollect::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::ModelInfo Model() {
  v1::ModelInfo model;
  model.set_groups(2);
  model.set_width(256);
  model.set_retrieval_width(640);
  return model;
}

v1::Stats StatsOf(int64_t free_bytes, int64_t landmark_budget) {
  v1::Stats stats;
  stats.set_store_free_bytes(free_bytes);
  stats.set_landmark_budget_bytes(landmark_budget);
  return stats;
}

TEST(RoomTest, SizesFollowInProportion) {
  const TextSize part{3000, 1000, 20};
  const TextSize by_bytes = ScaledToBytes(part, 1500);
  EXPECT_EQ(by_bytes.bytes, 1500);
  EXPECT_EQ(by_bytes.tokens, 500);
  EXPECT_EQ(by_bytes.chunks, 10);
}

TEST(RoomTest, CountsTextTokensStatesAndKeys) {
  const TextSize size{3000, 1000, 20};
  const Room room = RoomFor(Model(), {}, size);
  EXPECT_EQ(room.landmark_bytes, 20 * 640 * 2);
  EXPECT_EQ(room.disk_bytes, 3000 + 1000 * 4 + 1000 * 256 * 2 + 20 * 640 * 2);
  v1::ModelInfo plain = Model();
  plain.set_groups(0);
  EXPECT_EQ(RoomFor(plain, {}, size).landmark_bytes, 0);
  EXPECT_EQ(RoomFor(plain, {}, size).disk_bytes, 3000 + 1000 * 4);
}

TEST(RoomTest, CountsStatesAsTheServerStoresThem) {
  v1::Stats stats;
  stats.set_chunk_states_format("bf16");
  const TextSize size{3000, 1000, 20};
  const int64_t bf16 = RoomFor(Model(), stats, size).disk_bytes;
  stats.set_chunk_states_format("mxint8");
  const int64_t mxint8 = RoomFor(Model(), stats, size).disk_bytes;
  EXPECT_EQ(bf16, RoomFor(Model(), {}, size).disk_bytes);  // of an older server
  EXPECT_EQ(bf16 - mxint8, 1000 * 256 * 2 - 1000 * (256 + 256 / 32));
}

TEST(RoomTest, CountsSketchesOfLargeDocuments) {
  v1::Stats stats;
  stats.set_landmark_sketch_chunks(100);
  stats.set_landmark_sketch_key_bytes(233);
  EXPECT_EQ(RoomFor(Model(), stats, {30000, 10000, 199}).landmark_bytes, 199 * (640 * 2 + 233));
  EXPECT_EQ(RoomFor(Model(), stats, {30000, 10000, 99}).landmark_bytes, 99 * 640 * 2);
  // They are not stored.
  EXPECT_EQ(RoomFor(Model(), stats, {30000, 10000, 199}).disk_bytes,
            RoomFor(Model(), {}, {30000, 10000, 199}).disk_bytes);
}

TEST(RoomTest, NamesWhatIsNeededAndWhatThereIs) {
  const int64_t mib = 1 << 20;
  const Room room{10 * mib, 3 * mib};
  EXPECT_TRUE(CheckRoom("x", StatsOf(10 * mib, 3 * mib), room, room).ok());
  EXPECT_TRUE(CheckRoom("x", StatsOf(0, 3 * mib), room, room).ok());  // in memory
  const absl::Status disk = CheckRoom("books.txt", StatsOf(9 * mib, 3 * mib), room, room);
  EXPECT_EQ(disk.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(disk.message()),
              AllOf(HasSubstr("books.txt"), HasSubstr("10.0 MiB of disk"), HasSubstr("9.0 MiB")));
  const absl::Status keys = CheckRoom("books.txt", StatsOf(10 * mib, 2 * mib), room, room);
  EXPECT_EQ(keys.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(keys.message()),
              AllOf(HasSubstr("3.0 MiB"), HasSubstr("--landmark-budget"), HasSubstr("2.0 MiB")));
  // What is written already needs no disk any more, but its keys all need the budget.
  EXPECT_TRUE(CheckRoom("x", StatsOf(mib, 3 * mib), {mib, 0}, room).ok());
}

}  // namespace
}  // namespace recollect::cli
