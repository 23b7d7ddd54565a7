// The thread blocks of GCA on a device (kernels/gca_cuda.h), run by the kernels and, step by step,
// by host tests (kernels/thread_block.h).
// Both ways compute, for each (row, head) and chunk in order,
//   s_j in the order of cuda_math.h's dot products, times 1 / sqrt(head_dim)
//   m = max(0, s_j);  p_j = exp(s_j - m);  their sum: lane l of 32 adds p_l and p_(l+32), then the
//   lanes are added as in a dot product, from 16 lanes apart down to 1
//   o_d = Σ_j (p_j weight / (exp(-m) + sum)) V_jd, one Fma after the other from 0
// with an ordinary softmax m = max s_j and no exp(-m),
// and add the chunks' o to 0 in order: the same bits.
#ifndef RECOLLECT_KERNELS_GCA_BLOCK_H_
#define RECOLLECT_KERNELS_GCA_BLOCK_H_

#include "kernels/gca_plan.h"
#include "kernels/thread_block.h"

namespace recollect::kernels::cuda {

constexpr int kGcaMemoryRows = 64;  // room for the rows of a chunk
constexpr int kGcaWarp = 32;

struct GcaArgs {
  GcaPlan plan;
  const float* q = nullptr;
  const GcaGroup* groups = nullptr;
  const MemoryView* chunks = nullptr;
  const float* weights = nullptr;
  float* out = nullptr;
  float* workspace = nullptr;  // [rows, max_group_chunks, heads, head_dim]
};

// One head of one row of memory.
RECOLLECT_HD const uint16_t* MemoryRow(const Bf16* memory, const GcaShape& shape, int kv_head,
                                       int row) {
  return reinterpret_cast<const uint16_t*>(memory) +
         (static_cast<int64_t>(row) * shape.kv_heads + kv_head) * shape.head_dim;
}

// Every row of one head starts at a multiple of 16 bytes.
RECOLLECT_HD bool RowsAligned(const Bf16* memory, const GcaShape& shape) {
  return shape.head_dim % kDotPiece == 0 && IsAligned(memory);
}

// What the maximum of a chunk's scores begins with: the score of the row of zeros, or none.
RECOLLECT_HD float LeastMax(const GcaShape& shape) { return shape.off_by_one ? 0.0f : -Infinity(); }

// What the probabilities of a chunk are multiplied by, from the sum of exp(s_j - max).
RECOLLECT_HD float GcaFactor(const GcaShape& shape, float weight, float max, float sum) {
  return Div(weight, shape.off_by_one ? Add(Exp(-max), sum) : sum);
}

// ---- By chunk: one (group, head, chunk). -------------------------------------------------------

constexpr int kGcaChunkThreads = 128;

struct GcaChunkShared {
  float query[kMaxGcaHeadDim];
  float scores[kGcaMemoryRows];
  float probabilities[kGcaMemoryRows];
};

template <typename Block>
RECOLLECT_HD void GcaChunk(Block& block, GcaChunkShared& shared, const GcaArgs& args, int64_t g,
                           int head, int chunk) {
  constexpr int kGroups = kGcaChunkThreads / kDotLanes;
  constexpr int kPerLane = kGcaMemoryRows / kGroups;
  const GcaShape& shape = args.plan.shape;
  const GcaGroup group = args.groups[g];
  if (chunk >= group.chunks) return;
  const int dim = shape.head_dim, kv_head = head * shape.kv_heads / shape.heads;
  const int64_t width = static_cast<int64_t>(shape.heads) * dim;
  const MemoryView memory = args.chunks[group.first_chunk + chunk];
  const float weight = args.weights[group.first_chunk + chunk];
  const bool aligned = RowsAligned(memory.keys, shape);
  typename Block::template PerThread<Floats<kPerLane>> dots(block);
  typename Block::template PerThread<Floats<1>> maxima(block), sums(block);
  for (int64_t row = group.first_row; row < group.first_row + group.rows; ++row) {
    block.Phase([&](int t) {
      if (t < RoundUpToPiece(dim)) {
        shared.query[t] = t < dim ? args.q[row * width + head * dim + t] : 0.0f;
      }
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
          shared.scores[u * kGroups + t / kDotLanes] = Mul(dots[t].v[u], args.plan.scale);
        }
      }
    });
    // Every warp alike; the first one writes.
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
      const float max = maxima[t].v[0], factor = GcaFactor(shape, weight, max, sums[t].v[0]);
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
      args.workspace[(row * args.plan.sizes.max_group_chunks + chunk) * width + head * dim + t] =
          sum;
    });
  }
}

constexpr int kGcaAddThreads = 256;

// Adds a group's chunks.
template <typename Block>
RECOLLECT_HD void GcaAddChunks(Block& block, const GcaArgs& args, int64_t g) {
  const GcaShape& shape = args.plan.shape;
  const GcaGroup group = args.groups[g];
  const int64_t width = static_cast<int64_t>(shape.heads) * shape.head_dim;
  block.Run([&](int t) {
    for (int64_t row = group.first_row; row < group.first_row + group.rows; ++row) {
      const float* chunks = args.workspace + row * args.plan.sizes.max_group_chunks * width;
      for (int64_t i = t; i < width; i += kGcaAddThreads) {
        float total = 0;
        for (int e = 0; e < group.chunks; ++e) total = Add(total, chunks[e * width + i]);
        args.out[row * width + i] = total;
      }
    }
  });
}

// ---- By tile: one (group, head), through all chunks. -------------------------------------------

constexpr int kGcaTileThreads = 256;
constexpr int kGcaTileSide = 16;  // thread (y, x) has rows y + 16 a and keys, then values, x + 16 b
constexpr int kGcaTileSteps = kMaxGcaGroupRows / kGcaTileSide;
constexpr int kGcaScoreStride = kGcaMemoryRows + 1;

// Odd, so that threads that read one column of neighbouring rows use different banks.
RECOLLECT_HD int GcaTileStride(int head_dim) { return RoundUpToPiece(head_dim) + 1; }

// q [64][stride], keys [64][stride], values [64][stride], scores [64][65].
RECOLLECT_HD int64_t GcaTileSharedFloats(int head_dim) {
  return static_cast<int64_t>(kMaxGcaGroupRows + 2 * kGcaMemoryRows) * GcaTileStride(head_dim) +
         kMaxGcaGroupRows * kGcaScoreStride;
}

// Keys or values of one head as floats, zeros around them.
template <typename Block>
RECOLLECT_HD void StageMemory(Block& block, const Bf16* memory, int rows, const GcaShape& shape,
                              int kv_head, float* to) {
  const int dim = shape.head_dim, pieces = RoundUpToPiece(dim) / kDotPiece;
  const bool aligned = RowsAligned(memory, shape);
  block.Run([&](int t) {
    for (int i = t; i < kGcaMemoryRows * pieces; i += kGcaTileThreads) {
      const int row = i / pieces, piece = i % pieces;
      float numbers[kDotPiece] = {};
      if (row < rows) {
        LoadPiece(MemoryRow(memory, shape, kv_head, row), piece, dim, aligned, numbers);
      }
      RECOLLECT_UNROLL
      for (int u = 0; u < kDotPiece; ++u) {
        to[row * GcaTileStride(dim) + piece * kDotPiece + u] = numbers[u];
      }
    }
  });
}

using GcaTileSums = Floats<kGcaTileSteps * kGcaTileSteps>;

RECOLLECT_HD GcaTileSums AddTiles(const GcaTileSums& a, const GcaTileSums& b) {
  GcaTileSums sum;
  RECOLLECT_UNROLL
  for (int i = 0; i < kGcaTileSteps * kGcaTileSteps; ++i) sum.v[i] = Add(a.v[i], b.v[i]);
  return sum;
}

// Lane `lane`'s share of the dot products of a thread's rows and keys. q, keys: at the first of
// each.
RECOLLECT_HD GcaTileSums TileLane(const float* q, const float* keys, int stride, int dim,
                                  int lane) {
  GcaTileSums sums = {};
  for (int piece = lane; piece * kDotPiece < dim; piece += kDotLanes) {
    for (int d = piece * kDotPiece; d < (piece + 1) * kDotPiece; ++d) {
      float key[kGcaTileSteps];
      RECOLLECT_UNROLL
      for (int b = 0; b < kGcaTileSteps; ++b) key[b] = keys[b * kGcaTileSide * stride + d];
      RECOLLECT_UNROLL
      for (int a = 0; a < kGcaTileSteps; ++a) {
        const float number = q[a * kGcaTileSide * stride + d];
        RECOLLECT_UNROLL
        for (int b = 0; b < kGcaTileSteps; ++b) {
          float& sum = sums.v[a * kGcaTileSteps + b];
          sum = Fma(number, key[b], sum);
        }
      }
    }
  }
  return sums;
}

// kDimSteps * 16 >= head_dim.
template <int kDimSteps, typename Block>
RECOLLECT_HD void GcaTile(Block& block, float* shared, const GcaArgs& args, int64_t g, int head) {
  constexpr int kRowsPerWarp = kMaxGcaGroupRows / (kGcaTileThreads / kGcaWarp);
  const GcaShape& shape = args.plan.shape;
  const GcaGroup group = args.groups[g];
  const int dim = shape.head_dim, kv_head = head * shape.kv_heads / shape.heads;
  const int stride = GcaTileStride(dim);
  const int64_t width = static_cast<int64_t>(shape.heads) * dim;
  float* const q = shared;
  float* const keys = q + kMaxGcaGroupRows * stride;
  float* const values = keys + kGcaMemoryRows * stride;
  float* const scores = values + kGcaMemoryRows * stride;
  typename Block::template PerThread<Floats<kGcaTileSteps * kDimSteps>> totals(block);
  typename Block::template PerThread<Floats<kRowsPerWarp>> maxima(block), sums(block);
  block.Run([&](int t) {
    for (int i = t; i < kMaxGcaGroupRows * stride; i += kGcaTileThreads) {
      const int row = i / stride, d = i % stride;
      q[i] = row < group.rows && d < dim ? args.q[(group.first_row + row) * width + head * dim + d]
                                         : 0.0f;
    }
    RECOLLECT_UNROLL
    for (int i = 0; i < kGcaTileSteps * kDimSteps; ++i) totals[t].v[i] = 0;
  });
  for (int chunk = 0; chunk < group.chunks; ++chunk) {
    const MemoryView memory = args.chunks[group.first_chunk + chunk];
    const float weight = args.weights[group.first_chunk + chunk];
    StageMemory(block, memory.keys, memory.rows, shape, kv_head, keys);
    StageMemory(block, memory.values, memory.rows, shape, kv_head, values);
    block.Barrier();
    block.Phase([&](int t) {
      const int y = t / kGcaTileSide, x = t % kGcaTileSide;
      const auto lane = [&](int l) {
        return TileLane(q + y * stride, keys + x * stride, stride, dim, l);
      };
      const GcaTileSums even = AddTiles(AddTiles(lane(0), lane(4)), AddTiles(lane(2), lane(6)));
      const GcaTileSums odd = AddTiles(AddTiles(lane(1), lane(5)), AddTiles(lane(3), lane(7)));
      const GcaTileSums dots = AddTiles(even, odd);
      RECOLLECT_UNROLL
      for (int i = 0; i < kGcaTileSteps * kGcaTileSteps; ++i) {
        const int row = y + i / kGcaTileSteps * kGcaTileSide;
        const int key = x + i % kGcaTileSteps * kGcaTileSide;
        scores[row * kGcaScoreStride + key] = Mul(dots.v[i], args.plan.scale);
      }
    });
    // Warp w has the rows 8 w to 8 w + 7.
    block.Run([&](int t) {
      RECOLLECT_UNROLL
      for (int i = 0; i < kRowsPerWarp; ++i) {
        const float* row = scores + (t / kGcaWarp * kRowsPerWarp + i) * kGcaScoreStride;
        float max = LeastMax(shape);
        for (int j = t % kGcaWarp; j < memory.rows; j += kGcaWarp) max = Max(max, row[j]);
        maxima[t].v[i] = max;
      }
    });
    block.XorMax(maxima, kGcaWarp);
    block.Run([&](int t) {
      RECOLLECT_UNROLL
      for (int i = 0; i < kRowsPerWarp; ++i) {
        float* row = scores + (t / kGcaWarp * kRowsPerWarp + i) * kGcaScoreStride;
        float sum = 0;
        for (int j = t % kGcaWarp; j < memory.rows; j += kGcaWarp) {
          row[j] = Exp(Add(row[j], -maxima[t].v[i]));
          sum = Add(sum, row[j]);
        }
        sums[t].v[i] = sum;
      }
    });
    block.XorSum(sums, kGcaWarp);
    block.Phase([&](int t) {
      RECOLLECT_UNROLL
      for (int i = 0; i < kRowsPerWarp; ++i) {
        float* row = scores + (t / kGcaWarp * kRowsPerWarp + i) * kGcaScoreStride;
        const float factor = GcaFactor(shape, weight, maxima[t].v[i], sums[t].v[i]);
        for (int j = t % kGcaWarp; j < memory.rows; j += kGcaWarp) row[j] = Mul(row[j], factor);
      }
    });
    block.Phase([&](int t) {
      const int y = t / kGcaTileSide, x = t % kGcaTileSide;
      Floats<kGcaTileSteps* kDimSteps> chunk_sums = {};
      for (int j = 0; j < memory.rows; ++j) {
        RECOLLECT_UNROLL
        for (int b = 0; b < kDimSteps; ++b) {
          const int d = x + b * kGcaTileSide;
          const float value = d < dim ? values[j * stride + d] : 0.0f;
          RECOLLECT_UNROLL
          for (int a = 0; a < kGcaTileSteps; ++a) {
            float& sum = chunk_sums.v[a * kDimSteps + b];
            sum = Fma(scores[(y + a * kGcaTileSide) * kGcaScoreStride + j], value, sum);
          }
        }
      }
      RECOLLECT_UNROLL
      for (int i = 0; i < kGcaTileSteps * kDimSteps; ++i) {
        totals[t].v[i] = Add(totals[t].v[i], chunk_sums.v[i]);
      }
    });
  }
  block.Run([&](int t) {
    const int y = t / kGcaTileSide, x = t % kGcaTileSide;
    RECOLLECT_UNROLL
    for (int i = 0; i < kGcaTileSteps * kDimSteps; ++i) {
      const int row = y + i / kDimSteps * kGcaTileSide, d = x + i % kDimSteps * kGcaTileSide;
      if (row >= group.rows || d >= dim) continue;
      args.out[(group.first_row + row) * width + head * dim + d] = totals[t].v[i];
    }
  });
}

}  // namespace recollect::kernels::cuda

#endif  // RECOLLECT_KERNELS_GCA_BLOCK_H_
