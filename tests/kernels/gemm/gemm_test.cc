#include "kernels/gemm/gemm.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "kernels/cpu/onednn_isa.h"
#include "kernels/gemm/gemm_panel.h"
#include "kernels/gemm/gemm_row.h"
#include "kernels/gemm/gemm_strips.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/cpu/served_team.h"

namespace recollect::kernels {
namespace {

using ::testing::ElementsAre;

std::vector<DType> DTypes() {
  std::vector<DType> dtypes = {DType::kFloat32};
  if (Bf16Supported()) dtypes.push_back(DType::kBf16);
  return dtypes;
}

struct Shape {
  int64_t n, k;
};
constexpr Shape kShapes[] = {{1, 1},     {3, 5},      {16, 8},   {33, 47},
                             {256, 256}, {1280, 256}, {256, 640}};

std::vector<int64_t> StripOutputs(const std::vector<Strip>& strips) {
  std::vector<int64_t> outputs;
  for (const Strip& strip : strips) outputs.push_back(strip.outputs);
  return outputs;
}

PackedMatrix Pack(const std::vector<float>& weights, Shape shape, DType dtype) {
  auto matrix = PackedMatrix::Create(weights.data(), shape.n, shape.k, dtype);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return *std::move(matrix);
}

TEST(GemmTest, MatchesReference) {
  for (DType dtype : DTypes()) {
    for (Shape shape : kShapes) {
      const std::vector<float> weights = Normals(shape.n * shape.k, 1);
      const PackedMatrix matrix = Pack(weights, shape, dtype);
      EXPECT_EQ(matrix.n(), shape.n);
      EXPECT_EQ(matrix.k(), shape.k);
      EXPECT_EQ(matrix.dtype(), dtype);
      EXPECT_GE(matrix.bytes(), shape.n * shape.k * (dtype == DType::kBf16 ? 2 : 4));
      for (int64_t rows : {0, 1, 2, 3, 5, 15, 16, 17, 63, 65}) {
        SCOPED_TRACE(absl::StrCat(dtype == DType::kBf16 ? "bf16 " : "fp32 ", rows, " rows, ",
                                  shape.n, " x ", shape.k));
        Guarded x(Normals(rows * shape.k, 2)), y(rows * shape.n), expected(rows * shape.n);
        OpContext ctx;
        Gemm(ctx, matrix, x.data(), rows, y.data());
        GemmReference(weights.data(), shape.n, shape.k, dtype, x.data(), rows, expected.data());
        for (int64_t i = 0; i < rows * shape.n; ++i) {
          double magnitude = 0;
          for (int64_t j = 0; j < shape.k; ++j) {
            magnitude +=
                std::abs(x[i / shape.n * shape.k + j] * weights[i % shape.n * shape.k + j]);
          }
          const std::string difference =
              testing::Difference(y[i], expected[i], magnitude, testing::kGemmFactor);
          ASSERT_EQ(difference, "") << "at " << i;
        }
      }
    }
  }
}

TEST(GemmTest, ARowHasTheSameBitsInAnyBatchAndAtAnyPlace) {
  const int64_t total = 150;
  for (DType dtype : DTypes()) {
    for (Shape shape :
         {Shape{1280, 256}, Shape{256, 640}, Shape{4096, 256}, Shape{33, 47}, Shape{32, 256}}) {
      SCOPED_TRACE(
          absl::StrCat(dtype == DType::kBf16 ? "bf16 " : "fp32 ", shape.n, " x ", shape.k));
      const PackedMatrix matrix = Pack(Normals(shape.n * shape.k, 1), shape, dtype);
      const std::vector<float> x = Normals(total * shape.k, 2);
      OpContext ctx;
      std::vector<float> alone(total * shape.n);
      for (int64_t r = 0; r < total; ++r) {
        Gemm(ctx, matrix, &x[r * shape.k], 1, &alone[r * shape.n]);
      }
      for (int64_t step : {2, 3, 4, 7, 16, 31, 64, 100, 150}) {
        std::vector<float> y(total * shape.n);
        for (int64_t r = 0; r < total; r += step) {
          Gemm(ctx, matrix, &x[r * shape.k], std::min(step, total - r), &y[r * shape.n]);
        }
        EXPECT_TRUE(SameBits(y, alone)) << "in steps of " << step;
      }
    }
  }
}

// Our own code for AMX takes over at 16 rows, and 256 at a time.
TEST(GemmTest, ManyRowsOnAmxHaveTheBitsOfAFew) {
  if (!OneDnnAllows(dnnl::cpu_isa::avx512_core_amx)) GTEST_SKIP() << "needs AMX";
  for (Shape shape : {Shape{1280, 256}, Shape{256, 256}, Shape{256, 640}, Shape{768, 256}}) {
    ASSERT_NE(PlanFor(shape.n, shape.k, DType::kBf16)->by_amx, nullptr);
    const PackedMatrix matrix = Pack(Normals(shape.n * shape.k, 1), shape, DType::kBf16);
    for (int64_t rows : {16, 17, 32, 33, 61, 257}) {
      SCOPED_TRACE(absl::StrCat(rows, " rows, ", shape.n, " x ", shape.k));
      const std::vector<float> x = Normals(rows * shape.k, 2);
      Guarded y(rows * shape.n);
      std::vector<float> few(rows * shape.n);
      OpContext ctx;
      Gemm(ctx, matrix, x.data(), rows, y.data());
      for (int64_t r = 0; r < rows; r += 8) {
        Gemm(ctx, matrix, &x[r * shape.k], std::min<int64_t>(8, rows - r), &few[r * shape.n]);
      }
      EXPECT_TRUE(SameBits(y.values(), few));
    }
  }
}

// Other layouts of weights stay with oneDNN.
TEST(GemmTest, AmxNeedsWholePanels) {
  for (Shape shape : {Shape{100, 64}, Shape{64, 40}, Shape{33, 47}}) {
    EXPECT_EQ(PlanFor(shape.n, shape.k, Bf16Supported() ? DType::kBf16 : DType::kFloat32)->by_amx,
              nullptr);
  }
}

TEST(GemmTest, ThreadsShareAMatrix) {
  const Shape shape{256, 256};
  const int64_t rows = 20;
  for (DType dtype : DTypes()) {
    const PackedMatrix matrix = Pack(Normals(shape.n * shape.k, 1), shape, dtype);
    const std::vector<float> x = Normals(rows * shape.k, 2);
    std::vector<float> expected(rows * shape.n);
    OpContext ctx;
    Gemm(ctx, matrix, x.data(), rows, expected.data());
    std::vector<std::vector<float>> results(4, std::vector<float>(rows * shape.n));
    std::vector<std::thread> threads;
    for (std::vector<float>& result : results) {
      threads.emplace_back([&] {
        OpContext own;
        for (int i = 0; i < 20; ++i) Gemm(own, matrix, x.data(), rows, result.data());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& result : results) EXPECT_TRUE(SameBits(result, expected));
  }
}

// 576 and 192 outputs: a model with 9 heads of 64, whose products are cut into uneven parts.
TEST(GemmTest, ATeamComputesTheSameBits) {
  for (DType dtype : DTypes()) {
    for (Shape shape : {Shape{576, 576}, Shape{192, 576}, Shape{128, 96}, Shape{100, 70}}) {
      const std::vector<float> weights = Normals(shape.n * shape.k, 1);
      const PackedMatrix alone = Pack(weights, shape, dtype);
      const auto shared = PackedMatrix::Create(weights.data(), shape.n, shape.k, dtype, true);
      ASSERT_TRUE(shared.ok()) << shared.status();
      for (int64_t rows : {1, 3, 16, 70}) {
        SCOPED_TRACE(absl::StrCat(rows, " rows, ", shape.n, " x ", shape.k));
        const std::vector<float> x = Normals(rows * shape.k, 2);
        OpContext ctx;
        std::vector<float> expected(rows * shape.n);
        Gemm(ctx, alone, x.data(), rows, expected.data());
        for (int servers : {1, 3}) {
          ServedTeam team(servers);
          Guarded y(rows * shape.n);
          Gemm(team.leader(), *shared, x.data(), rows, y.data());
          EXPECT_TRUE(SameBits(y.values(), expected)) << servers << " servers";
        }
      }
    }
  }
}

// A product that no thread shares must not go unnoticed where the parts are known to agree.
TEST(GemmTest, WeightsForATeamHaveStrips) {
  if (DetectIsa() != Isa::kAvx512 || std::getenv("DNNL_MAX_CPU_ISA") != nullptr) {
    GTEST_SKIP() << "needs AVX-512 without DNNL_MAX_CPU_ISA";
  }
  for (DType dtype : DTypes()) {
    EXPECT_THAT(StripOutputs(*StripsFor(*PlanFor(576, 576, dtype), 576, 576, dtype)),
                ElementsAre(128, 128, 128, 128, 64));
    EXPECT_THAT(StripOutputs(*StripsFor(*PlanFor(192, 576, dtype), 192, 576, dtype)),
                ElementsAre(128, 64));
  }
}

// With AMX, oneDNN multiplies single bf16 rows without it, in another order, so that none is used.
bool OneDnnMultipliesByAmx() {
  const Shape shape{256, 256};
  return Bf16Supported() &&
         GemmTileRows(Pack(Normals(shape.n * shape.k, 1), shape, DType::kBf16)).back() != 1;
}

// A slow fallback must not go unnoticed where vectors are known to agree.
TEST(GemmTest, VectorsMultiplyARowOfWeightsForATeam) {
  if (DetectIsa() != Isa::kAvx512 || !OneDnnMultipliesByAmx()) GTEST_SKIP() << "needs AMX";
  const DType dtype = DType::kBf16;
  EXPECT_TRUE(RowHasBitsOf(*PlanFor(576, 576, dtype), 576, 576, dtype));
  EXPECT_TRUE(RowHasBitsOf(*PlanFor(192, 576, dtype), 192, 576, dtype));
  EXPECT_FALSE(RowHasBitsOf(*PlanFor(100, 576, dtype), 100, 576, dtype));
  EXPECT_FALSE(RowHasBitsOf(*PlanFor(128, 80, dtype), 128, 80, dtype));
}

// AMX takes denormal numbers for 0: weights, rows, products and sums.
TEST(GemmTest, ARowOfSmallNumbersHasTheSameBitsAloneAndAmongOthers) {
  if (!Bf16Supported()) GTEST_SKIP() << "needs bf16";
  const Shape shape{128, 64};
  const int64_t rows = 16;
  for (const float size : {1e-18f, 1e-19f, 1e-20f, 1e-38f}) {
    SCOPED_TRACE(size);
    std::vector<float> weights = Normals(shape.n * shape.k, 1), x = Normals(rows * shape.k, 2);
    for (float& weight : weights) weight *= size;
    for (float& number : x) number *= std::min(1.0f, 1e-38f / size);
    const auto matrix =
        PackedMatrix::Create(weights.data(), shape.n, shape.k, DType::kBf16, /*for_team=*/true);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    OpContext ctx;
    std::vector<float> together(rows * shape.n), alone(rows * shape.n);
    Gemm(ctx, *matrix, x.data(), rows, together.data());
    for (int64_t r = 0; r < rows; ++r) {
      Gemm(ctx, *matrix, &x[r * shape.k], 1, &alone[r * shape.n]);
    }
    EXPECT_TRUE(SameBits(alone, together));
  }
}

TEST(GemmTest, RepackingGivesTheSameBits) {
  const Shape shape{100, 70};
  const std::vector<float> weights = Normals(shape.n * shape.k, 1), x = Normals(shape.k, 2);
  for (DType dtype : DTypes()) {
    OpContext ctx;
    std::vector<float> a(shape.n), b(shape.n);
    Gemm(ctx, Pack(weights, shape, dtype), x.data(), 1, a.data());
    Gemm(ctx, Pack(weights, shape, dtype), x.data(), 1, b.data());
    EXPECT_TRUE(SameBits(a, b));
  }
}

// A slow fallback must not go unnoticed where the large tiles are known to agree.
TEST(GemmTest, UsesEveryTileSizeOnAvx512) {
  // oneDNN's own limit lets the tests run its other paths.
  if (DetectIsa() != Isa::kAvx512 || std::getenv("DNNL_MAX_CPU_ISA") != nullptr) {
    GTEST_SKIP() << "needs AVX-512 without DNNL_MAX_CPU_ISA";
  }
  const Shape shape{256, 256};
  for (DType dtype : DTypes()) {
    const PackedMatrix matrix = Pack(Normals(shape.n * shape.k, 1), shape, dtype);
    const std::vector<int> rows = GemmTileRows(matrix);
    // With AMX, oneDNN multiplies single bf16 rows without it, in another order.
    if (dtype == DType::kBf16 && rows.back() != 1) {
      EXPECT_THAT(rows, ElementsAre(64, 16, 8, 4));
    } else {
      EXPECT_THAT(rows, ElementsAre(64, 16, 8, 4, 1));
    }
  }
}

TEST(GemmPanelsTest, EveryInstructionSetMatchesReferenceAndIsRowInvariant) {
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > DetectIsa()) continue;
    for (Shape shape : {Shape{1, 1}, Shape{16, 8}, Shape{33, 47}, Shape{100, 640}}) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", shape.n, " x ", shape.k));
      OpContext ctx(isa);
      const int64_t rows = 17;
      const std::vector<float> weights = Normals(shape.n * shape.k, 1);
      const std::vector<float> panels = PackPanels(weights.data(), shape.n, shape.k);
      const std::vector<float> x = Normals(rows * shape.k, 2);
      Guarded y(rows * shape.n), alone(rows * shape.n), expected(rows * shape.n);
      GemmPanels(ctx, panels.data(), shape.n, shape.k, x.data(), rows, y.data(), shape.n);
      GemmReference(weights.data(), shape.n, shape.k, DType::kFloat32, x.data(), rows,
                    expected.data());
      for (int64_t r = 0; r < rows; ++r) {
        GemmPanels(ctx, panels.data(), shape.n, shape.k, &x[r * shape.k], 1,
                   alone.data() + r * shape.n, shape.n);
        for (int64_t j = 0; j < shape.n; ++j) {
          double magnitude = 0;
          for (int64_t i = 0; i < shape.k; ++i) {
            magnitude += std::abs(x[r * shape.k + i] * weights[j * shape.k + i]);
          }
          const int64_t at = r * shape.n + j;
          EXPECT_CLOSE(y[at], expected[at], magnitude, testing::kGemmFactor);
        }
      }
      EXPECT_TRUE(SameBits(y.values(), alone.values()));
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
