// The thread blocks of GCA on a device. A thread block has the rows of one group, one head, and one
// chunk or, by group, all chunks in order. Both give the same bits: a row has the same o in a
// chunk, and the o of its chunks are added to 0 in order.
//
// q fp32, row after row:
//   s_j in the order of cuda_math.h's dot products, times 1 / sqrt(head_dim)
//   m = max(0, s_j);  p_j = exp(s_j - m);  their sum: lane l of 32 adds p_l and p_(l+32), then the
//   lanes are added as in a dot product, from 16 lanes apart down to 1
//   o_d = Σ_j (p_j weight / (exp(-m) + sum)) V_jd, one Fma after the other from 0
// q Bf16, 16 rows a warp on tensor cores (attention_tile.h), c = log2(e) / sqrt(head_dim):
//   s_j = q·K_j;  m = c max(0, s_j);  p_j = 2^(c s_j - m) by Fma and Exp2;  their sum: each of four
//   threads adds those that it holds, in order; then sums 2 threads apart, then 1 apart, are added
//   o_d = (Σ_j p_j V_jd) (weight / (2^-m + sum)), p_j rounded to Bf16 in this product alone
// With an ordinary softmax m is the maximum without the 0, and the denominator is the sum alone.
#pragma once

#include "kernels/block/thread_block.h"
#include "kernels/gca/gca_plan.h"
#include "kernels/tile_attention/attention_tile.h"

namespace recollect::kernels::cuda {

constexpr int kGcaThreads = 128;
constexpr int kGcaWarp = 32;
constexpr int kGcaMemoryRows = kTileKeys;  // room for the rows of a chunk

static_assert(kGcaThreads >= kMaxGcaHeadDim);
static_assert(kGcaThreads / kGcaWarp * kTileRows >= kMaxGcaGroupRows);

// A thread block's share: rows of one head, chunks [begin, end) of the call (possibly none), and
// where the sums over these chunks go.
struct GcaShare {
  int rows;
  int kv_head;
  int64_t width;  // of q
  int64_t first;  // in q, the head in the first row
  int64_t begin, end;
  int64_t stride;
  float* out;
};

// Returns the share of a thread block. `chunk`: number within the group, used if the plan goes by
// chunk.
RECOLLECT_HD GcaShare ShareOf(const GcaOp& op, int64_t g, int head, int chunk) {
  const GcaShape& shape = op.plan.shape;
  const GcaGroup group = op.groups[g];
  GcaShare share;
  share.rows = group.rows;
  share.kv_head = head * shape.kv_heads / shape.heads;
  share.width = static_cast<int64_t>(shape.heads) * shape.head_dim;
  share.first = group.first_row * share.width + static_cast<int64_t>(head) * shape.head_dim;
  share.begin = group.first_chunk;
  share.end = share.begin + group.chunks;
  share.stride = share.width;
  share.out = op.out + share.first;
  if (op.plan.strategy == GcaPlan::Strategy::kByChunk) {
    const int64_t chunks = op.plan.sizes.max_group_chunks;
    share.begin += chunk;
    share.end = share.begin + (chunk < group.chunks ? 1 : 0);
    share.stride *= chunks;
    share.out = static_cast<float*>(op.workspace) + group.first_row * share.stride +
                chunk * share.width + static_cast<int64_t>(head) * shape.head_dim;
  }
  return share;
}

// Returns one head of one row of memory.
RECOLLECT_HD const uint16_t* MemoryRow(const Bf16* memory, const GcaShape& shape, int kv_head,
                                       int row) {
  return reinterpret_cast<const uint16_t*>(memory) +
         (static_cast<int64_t>(row) * shape.kv_heads + kv_head) * shape.head_dim;
}

// Returns whether every row of one head starts at a multiple of 16 bytes.
RECOLLECT_HD bool RowsAligned(const Bf16* memory, const GcaShape& shape) {
  return shape.head_dim % kDotPiece == 0 && IsAligned(memory);
}

// The initial value of the maximum of a chunk's scores: the score of the row of zeros, or
// -infinity.
RECOLLECT_HD float LeastMax(const GcaShape& shape) { return shape.off_by_one ? 0.0f : -Infinity(); }

// The factor of a chunk's probabilities, from their sum and that of the row of zeros.
RECOLLECT_HD float GcaFactor(const GcaShape& shape, float weight, float zeros, float sum) {
  return Div(weight, shape.off_by_one ? Add(zeros, sum) : sum);
}

// ---- q fp32 ------------------------------------------------------------------------------------

struct GcaRowsShared {
  float query[kMaxGcaHeadDim];
  float scores[kGcaMemoryRows];
  float probabilities[kGcaMemoryRows];
};

template <typename Block>
RECOLLECT_HD void GcaRows(Block& block, GcaRowsShared& shared, const GcaOp& op, int64_t g, int head,
                          int chunk) {
  constexpr int kGroups = kGcaThreads / kDotLanes;
  constexpr int kPerLane = kGcaMemoryRows / kGroups;
  const GcaShape& shape = op.plan.shape;
  const GcaShare share = ShareOf(op, g, head, chunk);
  const float* const q = static_cast<const float*>(op.q) + share.first;
  const int dim = shape.head_dim, kv_head = share.kv_head;
  typename Block::template PerThread<Floats<kPerLane>> dots(block);
  typename Block::template PerThread<Floats<1>> maxima(block), sums(block);
  block.Run([&](int t) {
    for (int row = 0; row < share.rows && t < dim; ++row) share.out[row * share.stride + t] = 0;
  });
  for (int64_t e = share.begin; e < share.end; ++e) {
    const MemoryView memory = op.chunks[e];
    const float weight = op.weights[e];
    const bool aligned = RowsAligned(memory.keys, shape);
    for (int row = 0; row < share.rows; ++row) {
      block.Phase([&](int t) {
        if (t < RoundUpToPiece(dim)) shared.query[t] = t < dim ? q[row * share.width + t] : 0.0f;
      });
      block.Run([&](int t) {
        const int lane = t % kDotLanes;
        RECOLLECT_UNROLL
        for (int u = 0; u < kPerLane; ++u) {
          const int j = u * kGroups + t / kDotLanes;
          dots[t].v[u] = j < memory.rows
                             ? DotLane(shared.query, MemoryRow(memory.keys, shape, kv_head, j), dim,
                                       lane, aligned, 0.0f)
                             : 0.0f;
        }
      });
      block.XorSum(dots, kDotLanes);
      block.Phase([&](int t) {
        RECOLLECT_UNROLL
        for (int u = 0; u < kPerLane; ++u) {
          if (t % kDotLanes == u) {
            shared.scores[u * kGroups + t / kDotLanes] = Mul(dots[t].v[u], op.plan.scale);
          }
        }
      });
      // All warps compute the same; the first one writes.
      block.Run([&](int t) {
        float max = LeastMax(shape);
        for (int j = t % kGcaWarp; j < memory.rows; j += kGcaWarp) max = Max(max, shared.scores[j]);
        maxima[t].v[0] = max;
      });
      block.XorMax(maxima, kGcaWarp);
      block.Run([&](int t) {
        float sum = 0;
        for (int j = t % kGcaWarp; j < memory.rows; j += kGcaWarp) {
          sum = Add(sum, Exp(Add(shared.scores[j], -maxima[t].v[0])));
        }
        sums[t].v[0] = sum;
      });
      block.XorSum(sums, kGcaWarp);
      block.Phase([&](int t) {
        const float max = maxima[t].v[0];
        const float factor = GcaFactor(shape, weight, Exp(-max), sums[t].v[0]);
        if (t >= kGcaWarp) return;
        for (int j = t; j < memory.rows; j += kGcaWarp) {
          shared.probabilities[j] = Mul(Exp(Add(shared.scores[j], -max)), factor);
        }
      });
      block.Phase([&](int t) {
        if (t >= dim) return;
        float sum = 0;
        RECOLLECT_UNROLL
        for (int j = 0; j < kGcaMemoryRows; ++j) {
          if (j >= memory.rows) break;
          const uint16_t value = MemoryRow(memory.values, shape, kv_head, j)[t];
          sum = Fma(shared.probabilities[j], FromBf16(value), sum);
        }
        float& total = share.out[row * share.stride + t];
        total = Add(total, sum);
      });
    }
  }
}

// ---- q Bf16 ------------------------------------------------------------------------------------

// Turns the scores of `keys` keys into p_j, the others into 0. factors: the factors of Σ p_j V_j
// for the two rows of which a thread holds numbers.
template <typename Block>
RECOLLECT_HD void GcaSoftmax(Block& block, const GcaPlan& plan, int keys, float weight,
                             TileSums<Block>& scores,
                             typename Block::template PerThread<Floats<2>>& factors) {
  constexpr int kLanes = 4;  // that hold one row's numbers
  typename Block::template PerThread<Floats<2>> maxima(block), sums(block);
  block.Run([&](int t) {
    maxima[t] = {{LeastMax(plan.shape), LeastMax(plan.shape)}};
    RECOLLECT_UNROLL
    for (int i = 0; i < kTileScores; ++i) {
      float& score = scores[t].v[i];
      float& max = maxima[t].v[i / 2 % 2];
      if (TileColumn(t, i) >= keys) score = -Infinity();
      max = Max(max, score);
    }
  });
  block.XorMax(maxima, kLanes);
  block.Run([&](int t) {
    sums[t] = {};
    RECOLLECT_UNROLL
    for (int half = 0; half < 2; ++half) maxima[t].v[half] = Mul(maxima[t].v[half], plan.scale);
    RECOLLECT_UNROLL
    for (int i = 0; i < kTileScores; ++i) {
      float& score = scores[t].v[i];
      float& sum = sums[t].v[i / 2 % 2];
      score = Exp2(Fma(score, plan.scale, -maxima[t].v[i / 2 % 2]));
      sum = Add(sum, score);
    }
  });
  block.XorSum(sums, kLanes);
  block.Run([&](int t) {
    RECOLLECT_UNROLL
    for (int half = 0; half < 2; ++half) {
      factors[t].v[half] = GcaFactor(plan.shape, weight, Exp2(-maxima[t].v[half]), sums[t].v[half]);
    }
  });
}

// Turns the scores of a chunk's keys into p_j, rounded to Bf16, and the factors of Σ p_j V_j.
template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaProbabilities(
    Block& block, const GcaPlan& plan, const AttentionTile<kDimSteps>& tile, int keys, float weight,
    TileQueries<Block, kDimSteps>& queries,
    typename Block::template PerThread<Words<kTileScores / 2>>& probabilities,
    typename Block::template PerThread<Floats<2>>& factors) {
  TileSums<Block> scores(block);
  TileScores(block, queries, tile, scores);
  GcaSoftmax(block, plan, keys, weight, scores, factors);
  block.Run([&](int t) { probabilities[t] = PackTile(scores[t]); });
}

// Adds a chunk's o to each thread's totals.
template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaAddValues(
    Block& block, const AttentionTile<kDimSteps>& tile,
    typename Block::template PerThread<Words<kTileScores / 2>>& probabilities,
    typename Block::template PerThread<Floats<2>>& factors, TileOutputs<Block, kDimSteps>& totals) {
  typename Block::template PerThread<Floats<8>> outputs(block);
  RECOLLECT_UNROLL
  for (int pair = 0; pair < kDimSteps; ++pair) {
    block.Run([&](int t) { outputs[t] = {}; });
    TileValuesOf(block, probabilities, tile, pair, outputs, 0);
    block.Run([&](int t) {
      RECOLLECT_UNROLL
      for (int i = 0; i < 8; ++i) {
        float& total = totals[t].v[8 * pair + i];
        total = Add(total, Mul(outputs[t].v[i], factors[t].v[i / 2 % 2]));
      }
    });
  }
}

// Loads the rows of a share, and sets the totals to 0.
template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaBegin(Block& block, const GcaOp& op, const GcaShare& share,
                           TileQueries<Block, kDimSteps>& queries,
                           TileOutputs<Block, kDimSteps>& totals) {
  const uint16_t* const q = static_cast<const uint16_t*>(op.q) + share.first;
  block.Run([&](int t) {
    const auto row_of = [&](int row) { return row < share.rows ? q + row * share.width : nullptr; };
    LoadTileQueries<kDimSteps>(t, op.plan.shape.head_dim, row_of, queries[t]);
    totals[t] = {};
  });
}

template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaEnd(Block& block, int dim, const GcaShare& share,
                         TileOutputs<Block, kDimSteps>& totals) {
  block.Run([&](int t) {
    RECOLLECT_UNROLL
    for (int i = 0; i < 8 * kDimSteps; ++i) {
      const int row = TileRow(t, i), d = TileColumn(t, i);
      if (row < share.rows && d < dim) share.out[row * share.stride + d] = totals[t].v[i];
    }
  });
}

// Begins to copy one head of a chunk's keys or values to shared memory.
template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaStage(Block& block, const GcaShape& shape, int kv_head, const Bf16* memory,
                           int rows, uint16_t* to) {
  BeginTile<kDimSteps>(block, kGcaThreads, MemoryRow(memory, shape, kv_head, 0),
                       static_cast<int64_t>(shape.kv_heads) * shape.head_dim, 0, rows,
                       shape.head_dim, RowsAligned(memory, shape), to);
}

// kDimSteps * 16 >= head_dim. A chunk's values are loaded while its scores are computed, and the
// next chunk's keys while its values are added.
template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaTiles(Block& block, AttentionTile<kDimSteps>& tile, const GcaOp& op, int64_t g,
                           int head, int chunk) {
  const GcaShape& shape = op.plan.shape;
  const GcaShare share = ShareOf(op, g, head, chunk);
  const int warps = (share.rows + kTileRows - 1) / kTileRows;
  const auto stage_keys = [&](int64_t e) {
    if (e >= share.end) return;
    GcaStage<kDimSteps>(block, shape, share.kv_head, op.chunks[e].keys, op.chunks[e].rows,
                        tile.keys);
  };
  TileQueries<Block, kDimSteps> queries(block);
  typename Block::template PerThread<Words<kTileScores / 2>> probabilities(block);
  typename Block::template PerThread<Floats<2>> factors(block);
  TileOutputs<Block, kDimSteps> totals(block);
  stage_keys(share.begin);
  GcaBegin<kDimSteps>(block, op, share, queries, totals);
  for (int64_t e = share.begin; e < share.end; ++e) {
    const MemoryView memory = op.chunks[e];
    const float weight = op.weights[e];
    block.AwaitCopies();
    block.Barrier();
    GcaStage<kDimSteps>(block, shape, share.kv_head, memory.values, memory.rows, tile.values);
    block.FirstWarps(warps, [&](Block& some) {
      GcaProbabilities(some, op.plan, tile, memory.rows, weight, queries, probabilities, factors);
    });
    block.AwaitCopies();
    block.Barrier();
    stage_keys(e + 1);
    block.FirstWarps(warps, [&](Block& some) {
      GcaAddValues<kDimSteps>(some, tile, probabilities, factors, totals);
    });
  }
  GcaEnd<kDimSteps>(block, shape.head_dim, share, totals);
}

// ---- By chunk ----------------------------------------------------------------------------------

constexpr int kGcaAddThreads = 256;

// Adds up the outputs of a group's chunks.
template <typename Block>
RECOLLECT_HD void GcaAddChunks(Block& block, const GcaOp& op, int64_t g) {
  const GcaShape& shape = op.plan.shape;
  const GcaGroup group = op.groups[g];
  const int64_t width = static_cast<int64_t>(shape.heads) * shape.head_dim;
  block.Run([&](int t) {
    for (int64_t row = group.first_row; row < group.first_row + group.rows; ++row) {
      const float* chunks =
          static_cast<const float*>(op.workspace) + row * op.plan.sizes.max_group_chunks * width;
      for (int64_t i = t; i < width; i += kGcaAddThreads) {
        float total = 0;
        for (int e = 0; e < group.chunks; ++e) total = Add(total, chunks[e * width + i]);
        op.out[row * width + i] = total;
      }
    }
  });
}

}  // namespace recollect::kernels::cuda
