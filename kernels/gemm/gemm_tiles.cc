#include "kernels/gemm/gemm_tiles.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "base/sync/mutex.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/onednn_isa.h"

namespace recollect::kernels {
namespace avx512 {
MultiplyAmx MultiplyBf16ByTiles;
}  // namespace avx512

namespace {

using dnnl::memory;

constexpr ScratchName kState, kForOneDnn;

// Rows of a test: kDistinct rows, over and over: place r holds row r % kDistinct.
constexpr int kRows = kTileRows[0], kDistinct = kTileRows[kReferenceTile];

memory::data_type ToDnnl(DType dtype) {
  return dtype == DType::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::matmul::primitive_desc Describe(int64_t rows, int64_t n, int64_t k, DType dtype,
                                      const memory::desc& weights) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc x({rows, k}, ToDnnl(dtype), memory::format_tag::ab);
  const memory::desc y({rows, n}, memory::data_type::f32, memory::format_tag::ab);
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, weights, y), attributes, GemmEngine());
}

// What a tile reads and writes, for the library. Making one takes microseconds, as long as a small
// product; they are made once, and told where the numbers are for each product.
struct Handles {
  memory x, y, scratch;
};

// The stream and the memory handles of one thread.
struct GemmState {
  dnnl::stream stream{GemmEngine()};
  std::unordered_map<const Tile*, Handles> handles;  // of tiles of plans, which are kept
};

GemmState& StateOf(OpContext& ctx) {
  std::shared_ptr<void>& kept = ctx.Kept(kState);
  if (kept == nullptr) kept = std::make_shared<GemmState>();
  return *static_cast<GemmState*>(kept.get());
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
  TestProduct test(n, k, dtype, plan.weights);
  const std::vector<float> expected = test.OutputsAtPlace0(plan, n);
  for (int size = 0; size < kTileSizes; ++size) {
    Tile& tile = plan.tiles[size];
    if (!tile.usable) continue;
    const std::vector<float> actual = test.Outputs(plan, size, test.weights(), n);
    tile.usable = std::memcmp(expected.data(), actual.data(), kRows * n * sizeof(float)) == 0;
  }
  if (!plan.tiles[kReferenceTile].usable) {
    for (Tile& tile : plan.tiles) tile.usable = false;
    plan.tiles[kSingleTile].usable = true;
  }
}

// Uses our own code where it knows the layout and has the bits of the reference tile.
void TryAmx([[maybe_unused]] int64_t n, [[maybe_unused]] int64_t k, [[maybe_unused]] DType dtype,
            [[maybe_unused]] Plan& plan) {
#if defined(RECOLLECT_SIMD)
  if (dtype != DType::kBf16 || !LieInPanels(n, k, plan.weights)) return;
  if (!OneDnnAllows(dnnl::cpu_isa::avx512_core_amx)) return;
  TestProduct test(n, k, dtype, plan.weights);
  std::vector<float> actual(static_cast<size_t>(kRows * n));
  avx512::MultiplyBf16ByTiles({.x = static_cast<const uint16_t*>(test.row(0)),
                               .rows = kRows,
                               .weights = static_cast<uint16_t*>(test.weights().get_data_handle()),
                               .n = n,
                               .k = k,
                               .y = actual.data()});
  const std::vector<float> expected = test.OutputsAtPlace0(plan, n);
  if (std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)) == 0) {
    plan.by_amx = avx512::MultiplyBf16ByTiles;
  }
#endif
}

std::shared_ptr<const Plan> MakePlan(int64_t n, int64_t k, DType dtype) {
  const memory::desc any({k, n}, ToDnnl(dtype), memory::format_tag::any);
  const memory::desc layout = Describe(kTileRows[kReferenceTile], n, k, dtype, any).weights_desc();
  std::shared_ptr<Plan> plan = DescribePlan(n, k, dtype, layout);
  KeepAgreeingTiles(n, k, dtype, *plan);
  if (plan->tiles[kReferenceTile].usable) TryAmx(n, k, dtype, *plan);
  return plan;
}

}  // namespace

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

bool LieInPanels(int64_t n, int64_t k, const memory::desc& weights) {
  constexpr int64_t kPairs = kAmxDepth / 2, kInner[] = {kPairs, kAmxPanel, 2}, kAxes[] = {0, 1, 0};
  if (n % kAmxPanel != 0 || k % kAmxDepth != 0) return false;
  const dnnl_blocking_desc_t& layout = weights.data.format_desc.blocking;
  return weights.data.format_kind == dnnl_blocked && weights.data.offset0 == 0 &&
         layout.inner_nblks == std::ssize(kInner) &&
         std::equal(std::begin(kInner), std::end(kInner), layout.inner_blks) &&
         std::equal(std::begin(kAxes), std::end(kAxes), layout.inner_idxs) &&
         layout.strides[0] == kAmxDepth * kAmxPanel && layout.strides[1] == k * kAmxPanel;
}

const dnnl::engine& GemmEngine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

std::shared_ptr<Plan> DescribePlan(int64_t n, int64_t k, DType dtype, const memory::desc& weights) {
  auto plan = std::make_shared<Plan>();
  plan->weights = weights;
  for (int size = 0; size < kTileSizes; ++size) {
    Tile& tile = plan->tiles[size];
    try {
      const auto description = Describe(kTileRows[size], n, k, dtype, weights);
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
  return plan;
}

memory PackWeights(OpContext& ctx, const float* weights, int64_t n, int64_t k,
                   const memory::desc& packed) {
  memory result(packed, GemmEngine());
  const memory plain({{k, n}, memory::data_type::f32, memory::format_tag::ba}, GemmEngine(),
                     const_cast<float*>(weights));
  dnnl::stream& stream = StateOf(ctx).stream;
  dnnl::reorder(plain, result).execute(stream, const_cast<memory&>(plain), result);
  stream.wait();
  return result;
}

void RunTile(OpContext& ctx, const Tile& tile, const memory& weights, const void* x, float* y) try {
  GemmState& state = StateOf(ctx);
  const auto [found, is_new] = state.handles.try_emplace(&tile);
  Handles& handles = found->second;
  if (is_new) {
    const memory::desc scratch({tile.scratch_bytes}, memory::data_type::u8, memory::format_tag::a);
    handles = {memory(tile.x, GemmEngine(), nullptr), memory(tile.y, GemmEngine(), nullptr),
               memory(scratch, GemmEngine(), nullptr)};
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

int SizeFor(const Plan& plan, int64_t rows) {
  int smallest = 0;
  for (int size = 0; size < kTileSizes; ++size) {
    if (!plan.tiles[size].usable) continue;
    if (rows * 4 >= kTileRows[size] * 3) return size;
    smallest = size;
  }
  return smallest;
}

int64_t PaddedRows(const Plan& plan, int64_t rows) {
  int64_t padded = 0;
  while (padded < rows) padded += kTileRows[SizeFor(plan, rows - padded)];
  return padded;
}

TestProduct::TestProduct(int64_t n, int64_t k, DType dtype, const memory::desc& layout)
    : row_bytes_(k * static_cast<int64_t>(dtype == DType::kBf16 ? sizeof(Bf16) : sizeof(float))),
      rows_(static_cast<size_t>(kRows * row_bytes_)) {
  weights_ = PackWeights(ctx_, TestNumbers(n * k, 1).data(), n, k, layout);
  const std::vector<float> x = TestNumbers(kDistinct * k, 2);
  for (int row = 0; row < kRows; row += kDistinct) {
    char* to = rows_.data() + row * row_bytes_;
    if (dtype == DType::kBf16) {
      ConvertToBf16(ctx_, x.data(), kDistinct * k, reinterpret_cast<Bf16*>(to));
    } else {
      std::memcpy(to, x.data(), static_cast<size_t>(kDistinct * row_bytes_));
    }
  }
}

std::vector<float> TestProduct::Outputs(const Plan& plan, int size, const memory& weights,
                                        int64_t outputs) {
  std::vector<float> y(static_cast<size_t>(kRows * outputs));
  for (int row = 0; row < kRows; row += kTileRows[size]) {
    RunTile(ctx_, plan.tiles[size], weights, rows_.data() + row * row_bytes_,
            y.data() + row * outputs);
  }
  return y;
}

std::vector<float> TestProduct::OutputsAtPlace0(const Plan& plan, int64_t outputs) {
  std::vector<float> expected(static_cast<size_t>(kRows * outputs));
  std::vector<float> y(static_cast<size_t>(kDistinct * outputs));
  for (int row = 0; row < kDistinct; ++row) {
    // Row `row` at place 0, followed by others.
    RunTile(ctx_, plan.tiles[kReferenceTile], weights_, rows_.data() + row * row_bytes_, y.data());
    for (int place = row; place < kRows; place += kDistinct) {
      std::memcpy(expected.data() + place * outputs, y.data(),
                  static_cast<size_t>(outputs) * sizeof(float));
    }
  }
  return expected;
}

std::shared_ptr<const Plan> PlanFor(int64_t n, int64_t k, DType dtype) {
  using Key = std::tuple<int64_t, int64_t, DType>;
  static auto* const mutex = new Mutex;
  static auto* const plans = new std::map<Key, std::shared_ptr<const Plan>>;
  MutexLock lock(*mutex);
  std::shared_ptr<const Plan>& plan = (*plans)[{n, k, dtype}];
  if (plan == nullptr) plan = MakePlan(n, k, dtype);
  return plan;
}

}  // namespace recollect::kernels
