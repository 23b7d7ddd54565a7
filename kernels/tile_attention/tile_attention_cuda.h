// Attention over ranges of caches in Bf16 on tensor cores of a CUDA device: the bounded dilated
// attention of RAT+ (range_attention.h; its initial, dilated and local parts are the ranges), in a
// prefill as in a decode step.
//   p = softmax over all entries of all ranges of q·k / sqrt(head_dim);  out = Σ p v
// Products of Bf16 with fp32 sums, the softmax in fp32; exp(s_j) is rounded to Bf16 in the product
// with v, not in the denominator. Query head h reads key-value head floor(h kv_heads / heads). No
// entries: out = 0.
//
// A row's bits do not depend on the other rows, on its tile, or on the plan's way: a prefill and a
// decode step compute the same. Its bits depend on its entries, their parts, and their indices
// modulo kSplitTileEntries (256) in these: a cache may drop entries at its beginning by multiples
// of that. The bits are those of one kind of device. No atomics. Keys and values within a tile's
// reach are to be finite; nothing beyond it is read.
//   tiles = RowTilesOf(runs, sets, MostTileRows(heads, kv_heads));  // tile_attention_plan.h
//   plan = PlanTileAttention(SizesOf({.rows = …}, tiles), multiprocessors);
//   CheckTileAttention(plan, tiles, sets);                // host copies, before the upload
//   Launch(stream, TileAttentionOp{plan, q, q_stride, kv_stride, tiles, sets, …});
// For lists of entries, ALiBi and caches in fp32 use range_attention_cuda.h.
#ifndef RECOLLECT_KERNELS_TILE_ATTENTION_TILE_ATTENTION_CUDA_H_
#define RECOLLECT_KERNELS_TILE_ATTENTION_TILE_ATTENTION_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/tile_attention/tile_attention_plan.h"

namespace recollect::kernels {

// Returns before the work is done. One launch by tile, two by split, none without tiles. Launch
// sizes depend on the plan alone, so a captured graph can be replayed with other tiles and ranges.
// Statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const TileAttentionOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_TILE_ATTENTION_TILE_ATTENTION_CUDA_H_
