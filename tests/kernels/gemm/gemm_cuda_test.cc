#include "kernels/gemm/gemm_cuda.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "kernels/gemm/gemm.h"
#include "tests/kernels/cuda/cuda_test_util.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

class GemmCudaTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<CublasLt> lt = CublasLt::Create();
    ASSERT_TRUE(lt.ok()) << lt.status();
    lt_.emplace(*std::move(lt));
  }
  GemmCuda Make(const GemmShape& shape) {
    absl::StatusOr<GemmCuda> gemm = GemmCuda::Create(*lt_, shape);
    EXPECT_TRUE(gemm.ok()) << gemm.status();
    return *std::move(gemm);
  }
  std::optional<CublasLt> lt_;
};

// Numbers of one format in device memory.
class Operand {
 public:
  Operand(const std::vector<float>& numbers, DType dtype) {
    if (dtype == DType::kFloat32) {
      floats_.emplace(numbers);
      return;
    }
    std::vector<Bf16> rounded;
    for (float number : numbers) rounded.push_back(Bf16::FromFloat(number));
    halves_.emplace(rounded);
  }
  void* at(int64_t i) const {
    return floats_ ? static_cast<void*>(floats_->data() + i) : halves_->data() + i;
  }
  std::vector<float> Download() const {
    if (floats_) return floats_->Download();
    std::vector<float> numbers;
    for (Bf16 number : halves_->Download()) numbers.push_back(number.ToFloat());
    return numbers;
  }

 private:
  std::optional<DeviceArray<float>> floats_;
  std::optional<DeviceArray<Bf16>> halves_;
};

std::vector<GemmShape> Shapes() {
  using enum DType;
  std::vector<GemmShape> shapes;
  for (bool add : {false, true}) {
    for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {33, 47}, {256, 640}}) {
      shapes.push_back({n, k, kFloat32, kFloat32, add});
    }
    for (auto [n, k] : {std::pair<int64_t, int64_t>{8, 8}, {40, 24}, {1280, 256}, {256, 640}}) {
      shapes.push_back({n, k, kBf16, kFloat32, add});
      if (!add) shapes.push_back({n, k, kBf16, kBf16});
    }
  }
  return shapes;
}

// Test data of a shape; y is what products that add begin with.
struct Data {
  Data(const GemmShape& s, int64_t row_count)
      : shape(s),
        rows(row_count),
        weights(Normals(s.n * s.k, 1)),
        x(Normals(rows * s.k, 2)),
        y(s.add ? Normals(rows * s.n, 3) : Nans(rows * s.n)) {
    if (s.out == DType::kBf16) {
      for (float& number : y) number = recollect::RoundToBf16(number);
    }
  }
  // Rows in steps of `step`, on the device.
  std::vector<float> Run(const GemmCuda& gemm, int64_t step) const {
    const Operand w(weights, shape.in), rows_in(x, shape.in), out(y, shape.out);
    for (int64_t r = 0; r < rows; r += step) {
      EXPECT_EQ(gemm.Run(nullptr, w.at(0), rows_in.at(r * shape.k), std::min(step, rows - r),
                         out.at(r * shape.n)),
                absl::OkStatus());
    }
    return out.Download();
  }
  GemmShape shape;
  int64_t rows;
  std::vector<float> weights, x, y;
};

void ExpectMatchesReference(const Data& data, const std::vector<float>& actual) {
  const auto [n, k, in, out, add] = data.shape;
  const auto operand = [in = in](float v) {
    return std::abs(in == DType::kBf16 ? recollect::RoundToBf16(v) : v);
  };
  std::vector<float> expected(data.rows * n);
  GemmReference(data.weights.data(), n, k, in, data.x.data(), data.rows, expected.data());
  ASSERT_EQ(actual.size(), expected.size());
  for (int64_t i = 0; i < data.rows * n; ++i) {
    double magnitude = 0, result = expected[i];
    for (int64_t j = 0; j < k; ++j) {
      magnitude += operand(data.x[i / n * k + j]) * operand(data.weights[i % n * k + j]);
    }
    if (add) {
      result += data.y[i];
      magnitude += std::abs(data.y[i]);
    }
    // A bf16 result is rounded once more, by at most 2^-8 of it.
    const double rounding = out == DType::kBf16 ? 0x1p-8 * 1.01 * std::abs(result) : 0;
    const double allowed = magnitude + rounding / (testing::kGemmFactor * testing::kFloatEpsilon);
    ASSERT_EQ(testing::Difference(actual[i], result, allowed, testing::kGemmFactor), "")
        << "at " << i;
  }
}

TEST_F(GemmCudaTest, MatchesReference) {
  for (const GemmShape& shape : Shapes()) {
    const GemmCuda gemm = Make(shape);
    for (int64_t rows : {0, 1, 2, 3, 17, 65}) {
      SCOPED_TRACE(absl::StrCat(NameOf(shape), shape.add ? ", added, " : ", ", rows, " rows"));
      const Data data(shape, rows);
      ExpectMatchesReference(data, data.Run(gemm, std::max<int64_t>(rows, 1)));
    }
  }
}

TEST_F(GemmCudaTest, ARowHasTheSameBitsInAnyBatchAndAtAnyPlace) {
  for (const GemmShape& shape : Shapes()) {
    SCOPED_TRACE(absl::StrCat(NameOf(shape), shape.add ? ", added" : ""));
    const GemmCuda gemm = Make(shape);
    // Slow fallbacks must not go unnoticed.
    EXPECT_EQ(gemm.plan().padded_rows(), 0) << NameOf(gemm.plan());
    EXPECT_GE(gemm.plan().piece_rows(), 512) << NameOf(gemm.plan());
    const Data data(shape, 700);
    const std::vector<float> alone = data.Run(gemm, 1);
    for (int64_t step : {2, 3, 7, 16, 31, 64, 100, 129, 513, 700}) {
      EXPECT_TRUE(SameBits(data.Run(gemm, step), alone)) << "in steps of " << step;
    }
  }
}

// More rows than one product has.
TEST_F(GemmCudaTest, RowsBeyondOneProductHaveTheSameBits) {
  const GemmShape shape{16, 24, DType::kBf16, DType::kFloat32, true};
  const GemmCuda gemm = Make(shape);
  const Data data(shape, MostTestedRows(shape) + 70);
  EXPECT_TRUE(SameBits(data.Run(gemm, data.rows), data.Run(gemm, 1000)));
}

TEST_F(GemmCudaTest, TilesOfOneSizeGiveTheSameBits) {
  for (const GemmShape& shape : Shapes()) {
    SCOPED_TRACE(absl::StrCat(NameOf(shape), shape.add ? ", added" : ""));
    GemmCuda gemm = Make(shape);
    const Data data(shape, 130);
    const std::vector<float> expected = data.Run(gemm, data.rows);
    for (int64_t tile : {64, 1}) {
      ASSERT_EQ(gemm.UseTilesForTest(tile), absl::OkStatus());
      EXPECT_TRUE(SameBits(data.Run(gemm, data.rows), expected)) << "tiles of " << tile;
      EXPECT_TRUE(SameBits(data.Run(gemm, 3), expected)) << "tiles of " << tile << ", padded";
    }
  }
}

TEST_F(GemmCudaTest, AnotherObjectOfTheShapeGivesTheSameBits) {
  const GemmShape shape{1280, 256, DType::kBf16, DType::kFloat32};
  const Data data(shape, 65);
  const GemmCuda first = Make(shape);
  EXPECT_TRUE(SameBits(data.Run(Make(shape), 65), data.Run(first, 65)));
}

// As if the process had ended between.
TEST_F(GemmCudaTest, AKeptChoiceGivesTheSameBits) {
  for (const GemmShape& shape : Shapes()) {
    SCOPED_TRACE(absl::StrCat(NameOf(shape), shape.add ? ", added" : ""));
    const GemmCuda first = Make(shape);
    const absl::StatusOr<GemmCuda> second = GemmCuda::Restore(*lt_, shape, first.choice());
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(NameOf(second->plan()),
              NameOf(GemmCuda::Restore(*lt_, shape, second->choice())->plan()));
    const Data data(shape, 130);
    EXPECT_TRUE(SameBits(data.Run(*second, 130), data.Run(first, 130)));
    EXPECT_TRUE(SameBits(data.Run(*second, 3), data.Run(first, 130)));
  }
}

TEST_F(GemmCudaTest, RunsInACapturedGraph) {
  const GemmShape shape{256, 640, DType::kBf16, DType::kFloat32, true};
  GemmCuda gemm = Make(shape);
  for (bool tiles : {false, true}) {
    if (tiles) {
      ASSERT_EQ(gemm.UseTilesForTest(64), absl::OkStatus());
    }
    const Data data(shape, 17);
    const Operand w(data.weights, shape.in), x(data.x, shape.in), y(data.y, shape.out);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_CUDA(cudaStreamCreate(&stream));
    EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_EQ(gemm.Run(stream, w.at(0), x.at(0), data.rows, y.at(0)), absl::OkStatus());
    EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
    EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    EXPECT_CUDA(cudaGraphLaunch(executable, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_TRUE(SameBits(y.Download(), data.Run(gemm, data.rows)));
    EXPECT_CUDA(cudaGraphExecDestroy(executable));
    EXPECT_CUDA(cudaGraphDestroy(graph));
    EXPECT_CUDA(cudaStreamDestroy(stream));
  }
}

TEST_F(GemmCudaTest, RefusesWhatItWasNotChosenFor) {
  const auto refused = [&](const absl::Status& status, const char* message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  refused(GemmCuda::Create(*lt_, {.n = 12, .k = 16, .in = DType::kBf16}).status(),
          "12 x 16 bf16 to fp32, expected multiples of 8");
  const GemmCuda gemm = Make({.n = 8, .k = 6});
  const auto at = [](uintptr_t address) { return reinterpret_cast<float*>(address); };
  refused(gemm.Run(nullptr, at(4096 + 8), at(4096), 1, at(8192)), "weights begin 8 bytes past");
  refused(gemm.Run(nullptr, at(4096), at(4096 + 4), 1, at(8192)),
          "x begin 4 bytes past a multiple of 8");
  refused(gemm.Run(nullptr, at(4096), at(4096), 1, at(8192 + 8)),
          "y begin 8 bytes past a multiple of 16");
}

}  // namespace
}  // namespace recollect::kernels
