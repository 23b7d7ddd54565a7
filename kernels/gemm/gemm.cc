#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/onednn_isa.h"
#include "kernels/gemm/gemm_panel.h"
#include "kernels/gemm/gemm_row.h"
#include "kernels/gemm/gemm_strips.h"
#include "kernels/gemm/gemm_tiles.h"
#include "kernels/gemm/quant_gemm.h"

namespace recollect::kernels {
namespace {

using dnnl::memory;

// Outputs of a part that a thread of a team takes: several panels.
constexpr int64_t kPanelOutputsShared = 4 * kPanelColumns;

// Rows that our own code for AMX takes at once: in bf16 they leave room in the second-level cache.
constexpr int64_t kMaxAmxRows = 256;

constexpr ScratchName kRoundedRows, kPaddedRows, kPaddedOutputs, kStripOutputs;

}  // namespace

struct PackedMatrix::Impl {
  void CutForTeam();

  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;
  std::shared_ptr<const Plan> plan;
  memory weights;
  std::shared_ptr<const std::vector<Strip>> strips;  // for a team; null or empty: one thread
  std::vector<memory> weights_of_strips;
  bool row_by_vectors = false;           // a row alone, if for a team (gemm_row.h)
  std::vector<float> panels;             // instead of plan and weights (gemm_panel.h)
  std::optional<QuantMatrix> quantized;  // instead of all three
};

void PackedMatrix::Impl::CutForTeam() {
  strips = StripsFor(*plan, n, k, dtype);
  row_by_vectors = RowHasBitsOf(*plan, n, k, dtype);
  for (const Strip& strip : *strips) weights_of_strips.push_back(WeightsOf(strip, weights));
}

PackedMatrix::PackedMatrix() = default;
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;

absl::StatusOr<PackedMatrix> PackedMatrix::Create(const float* weights, int64_t n, int64_t k,
                                                  DType dtype, bool for_team) {
  RECOLLECT_CHECK(weights != nullptr && n >= 1 && k >= 1);
  if (dtype == DType::kBf16 && !Bf16Supported()) {
    return absl::FailedPreconditionError(
        "bf16 matrix products need a CPU with AVX512-BF16 or AMX; use fp32 here");
  }
  PackedMatrix matrix;
  matrix.impl_ = std::make_unique<Impl>();
  matrix.impl_->n = n;
  matrix.impl_->k = k;
  matrix.impl_->dtype = dtype;
  if (!OneDnnAllows(dnnl::cpu_isa::avx512_core)) {
    matrix.impl_->panels = PackPanels(weights, n, k);
    return matrix;
  }
  const OneThread one_thread;
  try {
    OpContext ctx;
    matrix.impl_->plan = PlanFor(n, k, dtype);
    matrix.impl_->weights = PackWeights(ctx, weights, n, k, matrix.impl_->plan->weights);
    if (for_team) matrix.impl_->CutForTeam();
  } catch (const dnnl::error& error) {
    return absl::Status(error.status == dnnl_out_of_memory ? absl::StatusCode::kResourceExhausted
                                                           : absl::StatusCode::kInternal,
                        absl::StrCat("oneDNN, matrix of ", n, " x ", k, ": ", error.what()));
  }
  return matrix;
}

absl::StatusOr<PackedMatrix> PackedMatrix::CreateQuantized(std::span<const QuantRows> parts,
                                                           int64_t k) {
  ASSIGN_OR_RETURN(QuantMatrix quantized, QuantMatrix::Create(parts, k));
  PackedMatrix matrix;
  matrix.impl_ = std::make_unique<Impl>();
  matrix.impl_->n = quantized.n();
  matrix.impl_->k = k;
  matrix.impl_->quantized = std::move(quantized);
  return matrix;
}

int64_t PackedMatrix::n() const { return impl_->n; }
int64_t PackedMatrix::k() const { return impl_->k; }
DType PackedMatrix::dtype() const { return impl_->dtype; }
int64_t PackedMatrix::bytes() const {
  if (impl_->quantized) return impl_->quantized->bytes();
  if (impl_->plan == nullptr) return static_cast<int64_t>(impl_->panels.size() * sizeof(float));
  return static_cast<int64_t>(impl_->plan->weights.get_size());
}

bool Bf16Supported() {
  static const bool supported = OneDnnAllows(dnnl::cpu_isa::avx512_core_bf16);
  return supported;
}

std::vector<int> GemmTileRows(const PackedMatrix& weights) {
  if (weights.impl().plan == nullptr) return {1};
  std::vector<int> rows;
  for (int size = 0; size < kTileSizes; ++size) {
    if (weights.impl().plan->tiles[size].usable) rows.push_back(kTileRows[size]);
  }
  return rows;
}

namespace {

// Rows of x as tiles of `padded` rows read them: rounded, and followed by zeros.
const void* OperandOf(OpContext& ctx, const PackedMatrix::Impl& matrix, const float* x,
                      int64_t rows, int64_t padded) {
  const int64_t k = matrix.k;
  if (matrix.dtype == DType::kBf16) {
    auto* rounded = reinterpret_cast<Bf16*>(ctx.Floats(kRoundedRows, (padded * k + 1) / 2));
    ConvertToBf16(ctx, x, rows * k, rounded);
    std::memset(static_cast<void*>(rounded + rows * k), 0, (padded - rows) * k * sizeof(Bf16));
    return rounded;
  }
  if (rows == padded) return x;
  float* copy = ctx.Floats(kPaddedRows, padded * k);
  std::memcpy(copy, x, rows * k * sizeof(float));
  std::memset(copy + rows * k, 0, (padded - rows) * k * sizeof(float));
  return copy;
}

// One tile with all outputs.
void RunWhole(OpContext& ctx, const PackedMatrix::Impl& matrix, const float* x, int64_t rows,
              int64_t padded, float* y) {
  const Tile& tile = matrix.plan->tiles[SizeFor(*matrix.plan, rows)];
  const void* operand = OperandOf(ctx, matrix, x, rows, padded);
  float* out = rows == padded ? y : ctx.Floats(kPaddedOutputs, padded * matrix.n);
  RunTile(ctx, tile, matrix.weights, operand, out);
  if (out != y) std::memcpy(y, out, rows * matrix.n * sizeof(float));
}

// All rows, in equal parts.
void RunAmx(OpContext& ctx, const PackedMatrix::Impl& matrix, const float* x, int64_t rows,
            float* y) {
  const int64_t parts = (rows + kMaxAmxRows - 1) / kMaxAmxRows;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * rows / parts, some = (part + 1) * rows / parts - first;
    const void* operand = OperandOf(ctx, matrix, x + first * matrix.k, some, some);
    matrix.plan->by_amx({.x = static_cast<const uint16_t*>(operand),
                         .rows = some,
                         .weights = static_cast<uint16_t*>(matrix.weights.get_data_handle()),
                         .n = matrix.n,
                         .k = matrix.k,
                         .y = y + first * matrix.n});
  }
}

// The outputs of one strip, tile by tile.
void RunStrip(OpContext& own, const PackedMatrix::Impl& matrix, size_t at, const char* operand,
              int64_t rows, float* y) {
  const Strip& strip = (*matrix.strips)[at];
  const int64_t of_row =
      matrix.k * static_cast<int64_t>(matrix.dtype == DType::kBf16 ? sizeof(Bf16) : sizeof(float));
  const OneThread one_thread;
  for (int64_t r = 0; r < rows;) {
    const int size = SizeFor(*strip.plan, rows - r);
    float* out = own.Floats(kStripOutputs, kTileRows[size] * strip.outputs);
    RunTile(own, strip.plan->tiles[size], matrix.weights_of_strips[at], operand + r * of_row, out);
    for (const int64_t end = std::min<int64_t>(rows, r + kTileRows[size]); r < end; ++r) {
      std::copy_n(out, strip.outputs, y + r * matrix.n + strip.first);
      out += strip.outputs;
    }
  }
}

// The rows of one tile with all outputs, strip by strip on the team.
void RunStrips(OpContext& ctx, const PackedMatrix::Impl& matrix, const float* x, int64_t rows,
               float* y) {
  const std::vector<Strip>& strips = *matrix.strips;
  const int64_t padded =
      std::max(PaddedRows(*strips.front().plan, rows), PaddedRows(*strips.back().plan, rows));
  const auto* operand = static_cast<const char*>(OperandOf(ctx, matrix, x, rows, padded));
  ctx.Share(static_cast<int>(strips.size()), [&](OpContext& own, int part) {
    RunStrip(own, matrix, static_cast<size_t>(part), operand, rows, y);
  });
}

void RunPanels(OpContext& ctx, const PackedMatrix::Impl& matrix, const float* x, int64_t rows,
               float* y) {
  const int64_t n = matrix.n, step = ctx.has_team() ? kPanelOutputsShared : n;
  ctx.Share(static_cast<int>((n + step - 1) / step), [&](OpContext& own, int part) {
    const int64_t first = part * step;
    GemmPanels(own, matrix.panels.data() + first * matrix.k, std::min(step, n - first), matrix.k, x,
               rows, y + first, n);
  });
}

}  // namespace

void Gemm(OpContext& ctx, const PackedMatrix& weights, const float* x, int64_t rows, float* y) {
  const PackedMatrix::Impl& matrix = weights.impl();
  const int64_t n = matrix.n, k = matrix.k;
  if (matrix.quantized) return QuantGemm(ctx, *matrix.quantized, x, rows, y);
  if (matrix.plan == nullptr) return RunPanels(ctx, matrix, x, rows, y);
  if (rows == 1 && matrix.row_by_vectors) {
    const void* const row = OperandOf(ctx, matrix, x, 1, 1);
    return GemmRow(ctx, matrix.weights, n, k, static_cast<const Bf16*>(row), y);
  }
  const bool shared = ctx.has_team() && matrix.weights_of_strips.size() > 1;
  if (matrix.plan->by_amx != nullptr && rows >= kAmxRows && !shared) {
    return RunAmx(ctx, matrix, x, rows, y);
  }
  const OneThread one_thread;
  while (rows > 0) {
    const int64_t padded = kTileRows[SizeFor(*matrix.plan, rows)], some = std::min(rows, padded);
    if (shared) {
      RunStrips(ctx, matrix, x, some, y);
    } else {
      RunWhole(ctx, matrix, x, some, padded, y);
    }
    x += some * k;
    y += some * n;
    rows -= some;
  }
}

void ReadSoon(OpContext& ctx, const PackedMatrix& weights) {
  const PackedMatrix::Impl& matrix = weights.impl();
  if (!ctx.has_team()) return;
  if (matrix.quantized) return ReadQuantSoon(ctx, *matrix.quantized);
  if (matrix.row_by_vectors) ReadRowSoon(ctx, matrix.weights, matrix.n, matrix.k);
}

void GemmReference(const float* weights, int64_t n, int64_t k, DType dtype, const float* x,
                   int64_t rows, float* y) {
  const auto operand = [dtype](float v) {
    return static_cast<double>(dtype == DType::kBf16 ? recollect::RoundToBf16(v) : v);
  };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += operand(x[r * k + i]) * operand(weights[j * k + i]);
      y[r * n + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace recollect::kernels
