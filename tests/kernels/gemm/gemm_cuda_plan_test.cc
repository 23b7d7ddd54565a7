#include "kernels/gemm/gemm_cuda_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace recollect::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr GemmShape kShape{.n = 4096, .k = 256};

// What an algorithm of a library makes of the row: its bits, or why there are none.
using FakeAlgorithm = std::function<absl::StatusOr<std::string>(int64_t rows, int64_t place)>;

absl::StatusOr<std::string> Good(int64_t, int64_t) { return std::string("good"); }
absl::StatusOr<std::string> ByRows(int64_t rows, int64_t) { return absl::StrCat(rows); }
absl::StatusOr<std::string> ByPlace(int64_t, int64_t place) { return absl::StrCat(place); }
absl::StatusOr<std::string> Missing(int64_t, int64_t) { return absl::UnimplementedError("none"); }

// Good but for products of `rows` rows, whose row at `place` is another.
FakeAlgorithm OtherAt(int64_t rows, int64_t place) {
  return [rows, place](int64_t r, int64_t p) {
    return std::string(r == rows && p == place ? "other" : "good");
  };
}

// Good where it runs at all.
FakeAlgorithm MissingFor(int64_t rows) {
  return [rows](int64_t r, int64_t p) { return r == rows ? Missing(r, p) : Good(r, p); };
}

struct Library {
  absl::StatusOr<GemmPlan> Choose(const GemmShape& shape = kShape) {
    tried.assign(algorithms.size(), 0);
    return ChooseGemm(shape, static_cast<int>(algorithms.size()),
                      [this](int algorithm, int64_t rows, int64_t place) {
                        EXPECT_LE(0, place);
                        EXPECT_LT(place, rows);
                        ++tried[algorithm];
                        return algorithms[algorithm](rows, place);
                      });
  }
  std::vector<FakeAlgorithm> algorithms;
  std::vector<int> tried = {};
};

void ExpectPlan(const absl::StatusOr<GemmPlan>& plan, const std::vector<GemmRange>& ranges) {
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ranges, ranges) << NameOf(*plan);
}

TEST(ChooseGemmTest, TakesTheFirstWhoseBitsAgreeAndTriesNoMore) {
  Library library{{ByRows, ByPlace, Missing, Good, Good}};
  ExpectPlan(library.Choose(), {{1, 8192, 3}});
  EXPECT_EQ(library.tried[4], 0);
  ExpectPlan(library.Choose(), {{1, 8192, 3}});  // another time, too
}

TEST(ChooseGemmTest, RefusesOneThatDiffersForAnyNumberOfRowsThatMatters) {
  for (int64_t rows :
       {1, 2, 3, 5, 7, 8, 16, 17, 24, 63, 64, 65, 127, 128, 256, 512, 1000, 4096, 8192}) {
    for (int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
      Library library{{OtherAt(rows, place), Good}};
      if (rows == 1) library.algorithms[0] = MissingFor(1);
      ExpectPlan(library.Choose(), {{1, 8192, 1}});
    }
    Library library{{MissingFor(rows), Good}};
    ExpectPlan(library.Choose(), {{1, 8192, 1}});
  }
}

// The same call twice with other bits, as where blocks add in the order in which they come.
TEST(ChooseGemmTest, RefusesOneThatDoesNotRepeat) {
  int calls = 0;
  Library library{{[&](int64_t, int64_t) { return absl::StrCat(calls++ / 2); }, Good}};
  ExpectPlan(library.Choose(), {{1, 8192, 1}});
}

// Good for a number of rows that `runs` accepts, and else missing.
FakeAlgorithm GoodWhere(std::function<bool(int64_t)> runs) {
  return [runs](int64_t rows, int64_t place) {
    return runs(rows) ? Good(rows, place) : Missing(rows, place);
  };
}

TEST(ChooseGemmTest, TakesSeveralOfTheSameBitsWhereNoneWillDoAlone) {
  const FakeAlgorithm few = GoodWhere([](int64_t rows) { return rows <= 64; });
  const FakeAlgorithm many = GoodWhere([](int64_t rows) { return rows >= 48; });
  const FakeAlgorithm more = GoodWhere([](int64_t rows) { return rows > 128; });
  ExpectPlan(Library{{ByRows, few, more, many}}.Choose(), {{1, 64, 1}, {65, 8192, 3}});
  // Between two numbers that have no algorithm in common, rows are padded.
  ExpectPlan(Library{{few, more}}.Choose(), {{1, 64, 0}, {192, 8192, 1}});
  ExpectPlan(Library{{more, few}}.Choose(), {{1, 64, 1}, {192, 8192, 0}});
  ExpectPlan(Library{{MissingFor(64)}}.Choose(), {{1, 63, 0}, {65, 8192, 0}});
  ExpectPlan(Library{{many}}.Choose(), {{48, 8192, 0}});
  ExpectPlan(Library{{few}}.Choose(), {{1, 64, 0}});
  // Other bits are not mixed in.
  const FakeAlgorithm other = [](int64_t rows, int64_t) -> absl::StatusOr<std::string> {
    return rows > 64 ? "other" : "good";
  };
  ExpectPlan(Library{{few, other}}.Choose(), {{1, 64, 0}});
}

TEST(ChooseGemmTest, FallsBackToTilesOfOneSizeThenToSingleRows) {
  const absl::StatusOr<GemmPlan> tiles = Library{{ByPlace, ByRows}}.Choose();
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  EXPECT_TRUE(tiles->whole()) << NameOf(*tiles);
  EXPECT_EQ(tiles->padded_rows(), tiles->piece_rows());
  EXPECT_GE(tiles->piece_rows(), 48) << "as many products as rows";
  EXPECT_LE(tiles->piece_rows(), 256) << "as much as a prefill for a row";
  ExpectPlan(Library{{ByPlace}}.Choose(), {{1, 1, 0}});
  const FakeAlgorithm not_one = [](int64_t rows, int64_t place) {
    return rows == 1 ? Missing(rows, place) : ByPlace(rows, place);
  };
  ExpectPlan(Library{{not_one, ByPlace}}.Choose(), {{1, 1, 1}});
}

TEST(ChooseGemmTest, SaysWhenNothingRuns) {
  for (const std::vector<FakeAlgorithm>& algorithms :
       {std::vector<FakeAlgorithm>{}, {Missing, Missing}}) {
    const absl::StatusOr<GemmPlan> plan = Library{algorithms}.Choose();
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("4096 x 256 fp32 to fp32"));
  }
}

// The choice of a machine that is short of memory must not be another than its choice tomorrow.
TEST(ChooseGemmTest, OtherErrorsAreNoReasonToTakeAnother) {
  for (const absl::Status& error :
       {absl::ResourceExhaustedError("memory"), absl::UnavailableError("device")}) {
    Library library{{ByRows, [&](int64_t, int64_t) { return error; }, Good}};
    EXPECT_EQ(library.Choose().status(), error);
    EXPECT_EQ(library.tried[2], 0);
  }
}

TEST(ChooseGemmTest, WideResultsAreTestedOnFewerRows) {
  EXPECT_EQ(MostTestedRows({.n = 1, .k = 1}), 8192);
  EXPECT_EQ(MostTestedRows({.n = 32768, .k = 256}), 2048);
  EXPECT_EQ(MostTestedRows({.n = 32768, .k = 256, .in = DType::kBf16, .out = DType::kBf16}), 4096);
  EXPECT_EQ(MostTestedRows({.n = 1 << 20, .k = 256}), 512);
  Library library{{OtherAt(1000, 0)}};
  ExpectPlan(library.Choose({.n = 1 << 20, .k = 256}), {{1, 512, 0}});
}

TEST(GemmPieceTest, PiecesCoverTheRowsOnce) {
  const auto pieces = [](const GemmPlan& plan, int64_t rows) {
    std::vector<std::pair<int64_t, int64_t>> all;
    GemmPiece piece;
    for (int64_t first = 0; first < rows; first += piece.rows) {
      piece = PieceAt(plan, first, rows);
      all.emplace_back(piece.rows, piece.product_rows);
    }
    return all;
  };
  using Rows = std::pair<int64_t, int64_t>;
  const GemmPlan any{{{1, 512, 0}}}, tiles{{{64, 64, 0}}}, single{{{1, 1, 0}}};
  const GemmPlan ranges{{{4, 64, 0}, {100, 512, 1}}};
  EXPECT_THAT(pieces(any, 0), ElementsAre());
  EXPECT_THAT(pieces(any, 1), ElementsAre(Rows{1, 1}));
  EXPECT_THAT(pieces(any, 1025), ElementsAre(Rows{512, 512}, Rows{512, 512}, Rows{1, 1}));
  EXPECT_THAT(pieces(tiles, 1), ElementsAre(Rows{1, 64}));
  EXPECT_THAT(pieces(tiles, 64), ElementsAre(Rows{64, 64}));
  EXPECT_THAT(pieces(tiles, 130), ElementsAre(Rows{64, 64}, Rows{64, 64}, Rows{2, 64}));
  EXPECT_THAT(pieces(single, 2), ElementsAre(Rows{1, 1}, Rows{1, 1}));
  EXPECT_THAT(pieces(ranges, 3), ElementsAre(Rows{3, 4}));
  EXPECT_THAT(pieces(ranges, 64), ElementsAre(Rows{64, 64}));
  EXPECT_THAT(pieces(ranges, 65), ElementsAre(Rows{65, 100}));
  EXPECT_THAT(pieces(ranges, 513), ElementsAre(Rows{512, 512}, Rows{1, 4}));
  EXPECT_EQ(PieceAt(ranges, 0, 64).algorithm, 0);
  EXPECT_EQ(PieceAt(ranges, 0, 65).algorithm, 1);
  EXPECT_EQ(any.padded_rows(), 0);
  EXPECT_EQ(tiles.padded_rows(), 64);
  EXPECT_EQ(single.padded_rows(), 0);
  EXPECT_EQ(ranges.padded_rows(), 100);
  EXPECT_EQ((GemmPlan{{{4, 64, 0}, {65, 512, 1}}}).padded_rows(), 4);
  EXPECT_EQ(NameOf(ranges), "4 to 64 rows: algorithm 0; 100 to 512 rows: algorithm 1");
}

TEST(GemmShapeTest, RefusesWhatNoProductHas) {
  using enum DType;
  EXPECT_EQ(CheckGemmShape({.n = 3, .k = 5}), absl::OkStatus());
  EXPECT_EQ(CheckGemmShape({8, 16, kBf16, kFloat32, true}), absl::OkStatus());
  EXPECT_EQ(CheckGemmShape({8, 16, kBf16, kBf16}), absl::OkStatus());
  const std::pair<GemmShape, const char*> refused[] = {
      {{0, 5}, "0 x 5"},
      {{5, -1}, "5 x -1"},
      {{1 << 29, 1}, "536870912 x 1 fp32 to fp32, expected sides of 1 to 268435456"},
      {{12, 16, kBf16, kFloat32}, "12 x 16 bf16 to fp32, expected multiples of 8"},
      {{16, 12, kBf16, kBf16}, "16 x 12 bf16 to bf16, expected multiples of 8"},
      {{8, 8, kFloat32, kBf16}, "8 x 8 fp32 to bf16"},
      {{8, 8, kBf16, kBf16, true}, "8 x 8 bf16 to bf16, added, expected to be added to fp32"}};
  for (const auto& [shape, message] : refused) {
    const absl::Status status = CheckGemmShape(shape);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(GemmShapeTest, RowsAreAlignedAsTheirBytesAllow) {
  EXPECT_EQ(RowAlignment(2), 2);
  EXPECT_EQ(RowAlignment(4 * 47), 4);
  EXPECT_EQ(RowAlignment(4 * 6), 8);
  EXPECT_EQ(RowAlignment(16), 16);
  EXPECT_EQ(RowAlignment(4096), 16);
}

TEST(GemmShapeTest, ChecksAddresses) {
  const auto message = [](uintptr_t weights, uintptr_t x, uintptr_t y) {
    const auto at = [](uintptr_t address) { return reinterpret_cast<void*>(address); };
    const absl::Status status = CheckGemmAddresses({.n = 8, .k = 6}, at(weights), at(x), at(y));
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message(4096, 4096 + 24, 8192), "");
  EXPECT_EQ(message(4096 + 8, 4096, 8192),
            "product of 8 x 6 fp32 to fp32: weights begin 8 bytes past a multiple of 16");
  EXPECT_THAT(message(4096, 4096 + 4, 8192), HasSubstr("x begin 4 bytes past a multiple of 8"));
  EXPECT_THAT(message(4096, 4096, 8192 + 8), HasSubstr("y begin 8 bytes past a multiple of 16"));
}

}  // namespace
}  // namespace recollect::kernels
