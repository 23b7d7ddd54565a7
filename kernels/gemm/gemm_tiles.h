// oneDNN's products of a few numbers of rows, the tiles of which Gemm (gemm.h) makes all others.
// Private to gemm/.
#pragma once

#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "base/types.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gemm/gemm_amx.h"

namespace recollect::kernels {

// Rows of a tile, largest first. Measured on Zen 4 (bf16, k = 256): 64 rows run at the ceiling, 16
// at 98 % of it, and one row alone takes a sixth of the time of 16.
inline constexpr int kTileRows[] = {64, 16, 8, 4, 1};
inline constexpr int kTileSizes = 5;
inline constexpr int kReferenceTile = 1;  // 16 rows
inline constexpr int kSingleTile = 4;     // 1 row

struct Tile {
  bool usable = false;
  dnnl::matmul product;
  dnnl::memory::desc x, y;
  int64_t scratch_bytes = 0;
};

// The primitives of one shape of weights; every matrix of that shape shares them. Immutable once
// made.
struct Plan {
  dnnl::memory::desc weights;
  Tile tiles[kTileSizes];
  MultiplyAmx* by_amx = nullptr;  // our own code for many rows, with the bits of the tiles
};

// oneDNN reads OpenMP's thread count of the calling thread, when a primitive is made and when it
// runs.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

const dnnl::engine& GemmEngine();

// Makes the primitives of weights [n, k] that lie in memory as `weights` says; a layout of
// format_tag::any is chosen here. Tiles that oneDNN has are usable so far.
std::shared_ptr<Plan> DescribePlan(int64_t n, int64_t k, DType dtype,
                                   const dnnl::memory::desc& weights);

// Returns weights [n, k] fp32 in a plan's layout.
dnnl::memory PackWeights(OpContext& ctx, const float* weights, int64_t n, int64_t k,
                         const dnnl::memory::desc& packed);

// Returns whether weights [n, k] lie in the panels of gemm_amx.h.
bool LieInPanels(int64_t n, int64_t k, const dnnl::memory::desc& weights);

// Runs one tile; x and y have exactly its rows.
void RunTile(OpContext& ctx, const Tile& tile, const dnnl::memory& weights, const void* x,
             float* y);

// Returns the largest tile that so many rows fill to three quarters, since padding costs less than
// several smaller tiles; else the smallest that is usable. Index of kTileRows.
int SizeFor(const Plan& plan, int64_t rows);
// Returns how many rows such tiles have that so many rows are cut into.
int64_t PaddedRows(const Plan& plan, int64_t rows);

// Test rows, and weights in a plan's layout, with which the tiles of a shape are compared.
class TestProduct {
 public:
  TestProduct(int64_t n, int64_t k, DType dtype, const dnnl::memory::desc& layout);

  const dnnl::memory& weights() const { return weights_; }
  // Row `at` of 64, in the format of the weights.
  const void* row(int at) const { return rows_.data() + at * row_bytes_; }
  // Returns what 64 rows become by tiles of a size with these weights, [64, outputs].
  std::vector<float> Outputs(const Plan& plan, int size, const dnnl::memory& weights,
                             int64_t outputs);
  // Returns what each of them becomes at place 0 of the reference tile, [64, outputs].
  std::vector<float> OutputsAtPlace0(const Plan& plan, int64_t outputs);

 private:
  OpContext ctx_;
  int64_t row_bytes_;
  std::vector<char> rows_;
  dnnl::memory weights_;
};

// Returns the plan of weights [n, k], whose usable tiles give a row the same bits at every place.
// Plans are kept for the life of the process: a model has a handful of shapes.
std::shared_ptr<const Plan> PlanFor(int64_t n, int64_t k, DType dtype);

}  // namespace recollect::kernels
