#include "kernels/gemm/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/sync/mutex.h"
#include "kernels/cpu/convert.h"
#include "kernels/gemm/gemm_panel.h"
#include "kernels/gemm/quant_gemm.h"

namespace recollect::kernels {
namespace {

using dnnl::memory;

// Rows of a tile, largest first. Measured on Zen 4 (bf16, k = 256): 64 rows run at the ceiling, 16
// at 98 % of it, and one row alone takes a sixth of the time of 16.
constexpr int kTileRows[] = {64, 16, 8, 4, 1};
constexpr int kTileSizes = 5;
constexpr int kReferenceTile = 1;  // 16 rows
constexpr int kSingleTile = 4;     // 1 row

constexpr ScratchName kState, kRoundedRows, kPaddedRows, kPaddedOutputs, kForOneDnn;

// oneDNN reads OpenMP's thread count of the calling thread, when a primitive is made and when it
// runs.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

const dnnl::engine& Engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

struct Tile {
  bool usable = false;
  dnnl::matmul product;
  memory::desc x, y;
  int64_t scratch_bytes = 0;
};

// The primitives of one shape of weights; every matrix of that shape shares them. Immutable once
// made.
struct Plan {
  memory::desc weights;
  Tile tiles[kTileSizes];
};

bool OneDnnIsAtLeast(dnnl::cpu_isa isa) {
  const auto need = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & need) == need;
}

memory::data_type ToDnnl(DType dtype) {
  return dtype == DType::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::matmul::primitive_desc Describe(int64_t rows, int64_t n, int64_t k, DType dtype,
                                      const memory::desc& weights) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc x({rows, k}, ToDnnl(dtype), memory::format_tag::ab);
  const memory::desc y({rows, n}, memory::data_type::f32, memory::format_tag::ab);
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, weights, y), attributes, Engine());
}

// What a tile reads and writes, for the library. Making one takes microseconds, as long as a small
// product; they are made once, and told where the numbers are for each product.
struct Handles {
  memory x, y, scratch;
};

// The stream and the memory handles of one thread.
struct GemmState {
  dnnl::stream stream{Engine()};
  std::unordered_map<const Tile*, Handles> handles;  // of tiles of plans, which are kept
};

GemmState& StateOf(OpContext& ctx) {
  std::shared_ptr<void>& kept = ctx.Kept(kState);
  if (kept == nullptr) kept = std::make_shared<GemmState>();
  return *static_cast<GemmState*>(kept.get());
}

// Runs one tile; x and y have exactly its rows.
void RunTile(OpContext& ctx, const Tile& tile, const memory& weights, const void* x, float* y) try {
  GemmState& state = StateOf(ctx);
  const auto [found, is_new] = state.handles.try_emplace(&tile);
  Handles& handles = found->second;
  if (is_new) {
    const memory::desc scratch({tile.scratch_bytes}, memory::data_type::u8, memory::format_tag::a);
    handles = {memory(tile.x, Engine(), nullptr), memory(tile.y, Engine(), nullptr),
               memory(scratch, Engine(), nullptr)};
  }
  handles.x.set_data_handle(const_cast<void*>(x));
  handles.y.set_data_handle(y);
  handles.scratch.set_data_handle(
      ctx.Floats(kForOneDnn, tile.scratch_bytes / static_cast<int64_t>(sizeof(float)) + 1));
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, handles.x.get()},
                                       {DNNL_ARG_WEIGHTS, weights.get()},
                                       {DNNL_ARG_DST, handles.y.get()},
                                       {DNNL_ARG_SCRATCHPAD, handles.scratch.get()}};
  const dnnl_status_t status =
      dnnl_primitive_execute(tile.product.get(), state.stream.get(), 4, arguments);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  RECOLLECT_CHECK(status == dnnl_success);
} catch (const dnnl::error& error) {
  // What the library calls so is what everything else here calls so.
  if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
  throw;
}

memory PackWeights(OpContext& ctx, const float* weights, int64_t n, int64_t k,
                   const memory::desc& packed) {
  memory result(packed, Engine());
  const memory plain({{k, n}, memory::data_type::f32, memory::format_tag::ba}, Engine(),
                     const_cast<float*>(weights));
  dnnl::stream& stream = StateOf(ctx).stream;
  dnnl::reorder(plain, result).execute(stream, const_cast<memory&>(plain), result);
  stream.wait();
  return result;
}

// Numbers in [-1, 1) whose sums round: a tile that adds in another order shows in almost every
// element.
std::vector<float> TestNumbers(int64_t count, uint32_t seed) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
  return numbers;
}

// Keeps only tile sizes that give a row the same bits at every place as the reference tile gives it
// at place 0. oneDNN promises no such thing; with its AVX-512 kernels all sizes pass. Were not even
// the reference tile to agree with itself, one row at a time remains, which is invariant by
// construction.
void KeepAgreeingTiles(int64_t n, int64_t k, DType dtype, Plan& plan) {
  OpContext ctx;
  const std::vector<float> weights = TestNumbers(n * k, 1);
  const memory packed = PackWeights(ctx, weights.data(), n, k, plan.weights);
  // kDistinct rows, over and over: place r holds row r % kDistinct.
  constexpr int kRows = kTileRows[0], kDistinct = kTileRows[kReferenceTile];
  const std::vector<float> x = TestNumbers(kDistinct * k, 2);
  const int64_t row_bytes = k * (dtype == DType::kBf16 ? sizeof(Bf16) : sizeof(float));
  std::vector<char> operand(kRows * row_bytes);
  for (int row = 0; row < kRows; row += kDistinct) {
    char* to = operand.data() + row * row_bytes;
    if (dtype == DType::kBf16) {
      ConvertToBf16(ctx, x.data(), kDistinct * k, reinterpret_cast<Bf16*>(to));
    } else {
      std::memcpy(to, x.data(), kDistinct * row_bytes);
    }
  }

  std::vector<float> expected(kRows * n), actual(kRows * n);
  for (int row = 0; row < kDistinct; ++row) {
    // Row `row` at place 0, followed by others.
    RunTile(ctx, plan.tiles[kReferenceTile], packed, operand.data() + row * row_bytes,
            actual.data());
    for (int place = row; place < kRows; place += kDistinct) {
      std::memcpy(&expected[place * n], actual.data(), n * sizeof(float));
    }
  }
  for (int size = 0; size < kTileSizes; ++size) {
    Tile& tile = plan.tiles[size];
    if (!tile.usable) continue;
    for (int row = 0; row < kRows; row += kTileRows[size]) {
      RunTile(ctx, tile, packed, operand.data() + row * row_bytes, &actual[row * n]);
    }
    tile.usable = std::memcmp(expected.data(), actual.data(), kRows * n * sizeof(float)) == 0;
  }
  if (!plan.tiles[kReferenceTile].usable) {
    for (Tile& tile : plan.tiles) tile.usable = false;
    plan.tiles[kSingleTile].usable = true;
  }
}

std::shared_ptr<const Plan> MakePlan(int64_t n, int64_t k, DType dtype) {
  auto plan = std::make_shared<Plan>();
  const memory::desc any({k, n}, ToDnnl(dtype), memory::format_tag::any);
  plan->weights = Describe(kTileRows[kReferenceTile], n, k, dtype, any).weights_desc();
  for (int size = 0; size < kTileSizes; ++size) {
    Tile& tile = plan->tiles[size];
    try {
      const auto description = Describe(kTileRows[size], n, k, dtype, plan->weights);
      tile.product = dnnl::matmul(description);
      tile.x = description.src_desc();
      tile.y = description.dst_desc();
      tile.scratch_bytes = static_cast<int64_t>(description.scratchpad_desc().get_size());
      tile.usable = true;
    } catch (const dnnl::error&) {
      // No kernel of this size for this layout of weights: do without it, unless it is one that
      // must exist.
      if (size == kReferenceTile || size == kSingleTile) throw;
    }
  }
  KeepAgreeingTiles(n, k, dtype, *plan);
  return plan;
}

// Plans are kept for the life of the process: a model has a handful of shapes.
std::shared_ptr<const Plan> PlanFor(int64_t n, int64_t k, DType dtype) {
  using Key = std::tuple<int64_t, int64_t, DType>;
  static auto* const mutex = new Mutex;
  static auto* const plans = new std::map<Key, std::shared_ptr<const Plan>>;
  MutexLock lock(*mutex);
  std::shared_ptr<const Plan>& plan = (*plans)[{n, k, dtype}];
  if (plan == nullptr) plan = MakePlan(n, k, dtype);
  return plan;
}

// The largest tile that so many rows fill to three quarters, since padding costs less than several
// smaller tiles; else the smallest that is usable.
int SizeFor(const Plan& plan, int64_t rows) {
  int smallest = 0;
  for (int size = 0; size < kTileSizes; ++size) {
    if (!plan.tiles[size].usable) continue;
    if (rows * 4 >= kTileRows[size] * 3) return size;
    smallest = size;
  }
  return smallest;
}

}  // namespace

struct PackedMatrix::Impl {
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;
  std::shared_ptr<const Plan> plan;
  memory weights;
  std::vector<float> panels;             // instead of plan and weights (gemm_panel.h)
  std::optional<QuantMatrix> quantized;  // instead of all three
};

PackedMatrix::PackedMatrix() = default;
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;

absl::StatusOr<PackedMatrix> PackedMatrix::Create(const float* weights, int64_t n, int64_t k,
                                                  DType dtype) {
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
  if (!OneDnnIsAtLeast(dnnl::cpu_isa::avx512_core)) {
    matrix.impl_->panels = PackPanels(weights, n, k);
    return matrix;
  }
  const OneThread one_thread;
  try {
    OpContext ctx;
    matrix.impl_->plan = PlanFor(n, k, dtype);
    matrix.impl_->weights = PackWeights(ctx, weights, n, k, matrix.impl_->plan->weights);
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
  static const bool supported = OneDnnIsAtLeast(dnnl::cpu_isa::avx512_core_bf16);
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

void Gemm(OpContext& ctx, const PackedMatrix& weights, const float* x, int64_t rows, float* y) {
  const PackedMatrix::Impl& matrix = weights.impl();
  const int64_t n = matrix.n, k = matrix.k;
  if (matrix.quantized) return QuantGemm(ctx, *matrix.quantized, x, rows, y);
  if (matrix.plan == nullptr) return GemmPanels(ctx, matrix.panels.data(), n, k, x, rows, y);
  const bool bf16 = matrix.dtype == DType::kBf16;
  const OneThread one_thread;
  while (rows > 0) {
    const int size = SizeFor(*matrix.plan, rows);
    const Tile& tile = matrix.plan->tiles[size];
    const int64_t tile_rows = kTileRows[size];
    const int64_t filled = std::min(rows, tile_rows);

    const void* operand = x;
    if (bf16) {
      auto* rounded = reinterpret_cast<Bf16*>(ctx.Floats(kRoundedRows, (tile_rows * k + 1) / 2));
      ConvertToBf16(ctx, x, filled * k, rounded);
      std::memset(static_cast<void*>(rounded + filled * k), 0,
                  (tile_rows - filled) * k * sizeof(Bf16));
      operand = rounded;
    } else if (filled < tile_rows) {
      float* padded = ctx.Floats(kPaddedRows, tile_rows * k);
      std::memcpy(padded, x, filled * k * sizeof(float));
      std::memset(padded + filled * k, 0, (tile_rows - filled) * k * sizeof(float));
      operand = padded;
    }
    float* out = filled == tile_rows ? y : ctx.Floats(kPaddedOutputs, tile_rows * n);
    RunTile(ctx, tile, matrix.weights, operand, out);
    if (out != y) std::memcpy(y, out, filled * n * sizeof(float));

    x += filled * k;
    y += filled * n;
    rows -= filled;
  }
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
