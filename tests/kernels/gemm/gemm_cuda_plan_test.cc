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

void ExpectPlan(const absl::StatusOr<GemmPlan>& plan, int algorithm, int64_t piece_rows,
                bool whole) {
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->algorithm, algorithm);
  EXPECT_EQ(plan->piece_rows, piece_rows);
  EXPECT_EQ(plan->whole, whole);
}

TEST(ChooseGemmTest, TakesTheFirstWhoseBitsAgreeAndTriesNoMore) {
  Library library{{ByRows, ByPlace, Missing, Good, Good}};
  ExpectPlan(library.Choose(), 3, 8192, false);
  EXPECT_EQ(library.tried[4], 0);
  EXPECT_THAT(library.Choose()->algorithm, 3) << "another time";
}

TEST(ChooseGemmTest, RefusesOneThatDiffersForAnyNumberOfRowsThatMatters) {
  for (int64_t rows :
       {1, 2, 3, 5, 7, 8, 16, 17, 24, 63, 64, 65, 127, 128, 256, 512, 1000, 4096, 8192}) {
    for (int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
      Library library{{OtherAt(rows, place), Good}};
      if (rows == 1) library.algorithms[0] = MissingFor(1);
      ExpectPlan(library.Choose(), 1, 8192, false);
    }
    Library library{{MissingFor(rows), Good}};
    ExpectPlan(library.Choose(), 1, 8192, false);
  }
}

// The same call twice with other bits, as where blocks add in the order in which they come.
TEST(ChooseGemmTest, RefusesOneThatDoesNotRepeat) {
  int calls = 0;
  Library library{{[&](int64_t, int64_t) { return absl::StrCat(calls++ / 2); }, Good}};
  ExpectPlan(library.Choose(), 1, 8192, false);
}

TEST(ChooseGemmTest, FallsBackToTilesOfOneSizeThenToSingleRows) {
  Library library{{MissingFor(64), ByPlace, ByRows, Good}};
  library.algorithms.pop_back();
  ExpectPlan(library.Choose(), 2, 64, true);
  library.algorithms.pop_back();
  ExpectPlan(library.Choose(), 0, 1, true);
  library.algorithms = {MissingFor(1), ByPlace};
  library.algorithms[0] = [](int64_t rows, int64_t place) {
    return rows == 1 ? Missing(rows, place) : ByPlace(rows, place);
  };
  ExpectPlan(library.Choose(), 1, 1, true);
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
  ExpectPlan(library.Choose({.n = 1 << 20, .k = 256}), 0, 512, false);
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
  const GemmPlan any{0, 512, false}, tiles{0, 64, true}, single{0, 1, true};
  EXPECT_THAT(pieces(any, 0), ElementsAre());
  EXPECT_THAT(pieces(any, 1), ElementsAre(Rows{1, 1}));
  EXPECT_THAT(pieces(any, 1025), ElementsAre(Rows{512, 512}, Rows{512, 512}, Rows{1, 1}));
  EXPECT_THAT(pieces(tiles, 1), ElementsAre(Rows{1, 64}));
  EXPECT_THAT(pieces(tiles, 64), ElementsAre(Rows{64, 64}));
  EXPECT_THAT(pieces(tiles, 130), ElementsAre(Rows{64, 64}, Rows{64, 64}, Rows{2, 64}));
  EXPECT_THAT(pieces(single, 2), ElementsAre(Rows{1, 1}, Rows{1, 1}));
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
      {{8, 8, kFloat32, kBf16}, "8 x 8 fp32 to bf16"}};
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
