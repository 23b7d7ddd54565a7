// A tile of attention on tensor cores: 16 rows of queries a warp against up to 64 keys and values
// of one head in shared memory, Bf16 with fp32 sums (kernels/block/thread_block.h). Between the
// two products a kernel scales and masks the scores that its threads hold and takes their softmax:
//   s = TileScores: rows of q · keys;  PackTile: their probabilities, rounded to Bf16;
//   TileValues: o += probabilities · values
// A row's numbers depend on that row and the tile alone.
#pragma once

#include <cstdint>

#include "kernels/block/thread_block.h"

namespace recollect::kernels::cuda {

constexpr int kTileKeys = 64;
constexpr int kTileRows = 16;  // per warp
constexpr int kTileScores = kTileRows * kTileKeys / kMatrixWarp;

// kDimSteps * 16 >= head_dim; channels beyond head_dim are zero. Rows are padded by 16 bytes, so
// that eight of them begin in different banks.
template <int kDimSteps>
struct AttentionTile {
  static constexpr int kStride = 16 * kDimSteps + 8;
  alignas(16) uint16_t keys[kTileKeys * kStride];
  alignas(16) uint16_t values[kTileKeys * kStride];
};

template <typename Block>
using TileSums = typename Block::template PerThread<Floats<kTileScores>>;
// A thread's part of the queries, and of the outputs.
template <typename Block, int kDimSteps>
using TileQueries = typename Block::template PerThread<Words<4 * kDimSteps>>;
template <typename Block, int kDimSteps>
using TileOutputs = typename Block::template PerThread<Floats<8 * kDimSteps>>;

// The place of thread t's number i: its row of the thread block, and its column, which is a key for
// scores and a channel of the head for outputs.
RECOLLECT_HD int TileRow(int t, int i) {
  return t / kMatrixWarp * kTileRows + t % kMatrixWarp / 4 + 8 * (i / 2 % 2);
}
RECOLLECT_HD int TileColumn(int t, int i) { return i / 4 * 8 + 2 * (t % 4) + i % 2; }

// Loads thread t's part of its warp's queries. row_of(row of the thread block) returns a row of
// head_dim numbers, or null for zeros.
template <int kDimSteps, typename RowOf>
RECOLLECT_HD void LoadTileQueries(int t, int dim, RowOf row_of, Words<4 * kDimSteps>& words) {
  RECOLLECT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const uint16_t* const row = row_of(TileRow(t, 2 * half));
    RECOLLECT_UNROLL
    for (int i = 0; i < 2 * kDimSteps; ++i) {
      const int d = 8 * i + 2 * (t % 4);
      words.v[i / 2 * 4 + i % 2 * 2 + half] = PackPair(
          row != nullptr && d < dim ? row[d] : 0, row != nullptr && d + 1 < dim ? row[d + 1] : 0);
    }
  }
}

// Begins to copy 64 rows, `stride` numbers apart, to shared memory; rows [begin, end) are read, the
// others become zeros. The copies are complete after block.AwaitCopies() and a barrier. `aligned`:
// every row starts at a multiple of 16 bytes.
template <int kDimSteps, typename Block>
RECOLLECT_HD void BeginTile(Block& block, int threads, const uint16_t* rows, int64_t stride,
                            int begin, int end, int dim, bool aligned, uint16_t* to) {
  constexpr int kPieces = 2 * kDimSteps;
  block.Run([&](int t) {
    RECOLLECT_UNROLL_BY_4
    for (int i = t; i < kTileKeys * kPieces; i += threads) {
      const int row = i / kPieces, d = i % kPieces * kDotPiece;
      const int count = row >= begin && row < end ? dim - d : 0;
      uint16_t* const place = to + row * AttentionTile<kDimSteps>::kStride + d;
      if (aligned && count >= kDotPiece) {
        block.CopyBeside(rows + row * stride + d, place);
        continue;
      }
      Words<4> four = {};
      if (count > 0) four = LoadWords(rows + row * stride + d, count);
      *reinterpret_cast<Four<uint32_t>*>(place) = {{four.v[0], four.v[1], four.v[2], four.v[3]}};
    }
  });
}

// Computes scores = q · keys.
template <int kDimSteps, typename Block>
RECOLLECT_HD void TileScores(Block& block, TileQueries<Block, kDimSteps>& q,
                             const AttentionTile<kDimSteps>& tile, TileSums<Block>& scores) {
  typename Block::template PerThread<const uint16_t*> rows(block);
  typename Block::template PerThread<Words<4>> keys(block);
  block.Run([&](int t) { scores[t] = {}; });
  RECOLLECT_UNROLL
  for (int pair = 0; pair < kTileKeys / 16; ++pair) {
    RECOLLECT_UNROLL
    for (int step = 0; step < kDimSteps; ++step) {
      block.Run([&](int t) {
        const int lane = t % kMatrixWarp;
        rows[t] = tile.keys + (16 * pair + lane / 16 * 8 + lane % 8) * tile.kStride + 16 * step +
                  lane / 8 % 2 * 8;
      });
      block.template LoadMatrices<false>(rows, keys, 0);
      block.MultiplyAdd(q, 4 * step, keys, 0, scores, 8 * pair);
      block.MultiplyAdd(q, 4 * step, keys, 2, scores, 8 * pair + 4);
    }
  }
}

// Rounds a thread's scores or probabilities to Bf16, as the first factor of a product.
RECOLLECT_HD Words<kTileScores / 2> PackTile(const Floats<kTileScores>& numbers) {
  Words<kTileScores / 2> words;
  RECOLLECT_UNROLL
  for (int i = 0; i < kTileScores / 2; ++i) {
    words.v[i] = PackRounded(numbers.v[2 * i], numbers.v[2 * i + 1]);
  }
  return words;
}

// Adds columns 16 * pair to 16 * pair + 15 of probabilities · values to each thread's outputs:
// eight floats from `at` on.
template <int kDimSteps, typename Block, typename Outputs>
RECOLLECT_HD void TileValuesOf(
    Block& block, typename Block::template PerThread<Words<kTileScores / 2>>& probabilities,
    const AttentionTile<kDimSteps>& tile, int pair, Outputs& outputs, int at) {
  typename Block::template PerThread<const uint16_t*> rows(block);
  typename Block::template PerThread<Words<4>> values(block);
  RECOLLECT_UNROLL
  for (int step = 0; step < kTileKeys / 16; ++step) {
    block.Run([&](int t) {
      const int lane = t % kMatrixWarp;
      rows[t] = tile.values + (16 * step + lane % 16) * tile.kStride + 16 * pair + lane / 16 * 8;
    });
    block.template LoadMatrices<true>(rows, values, 0);
    block.MultiplyAdd(probabilities, 4 * step, values, 0, outputs, at);
    block.MultiplyAdd(probabilities, 4 * step, values, 2, outputs, at + 4);
  }
}

// Computes outputs += probabilities · values.
template <int kDimSteps, typename Block>
RECOLLECT_HD void TileValues(
    Block& block, typename Block::template PerThread<Words<kTileScores / 2>>& probabilities,
    const AttentionTile<kDimSteps>& tile, TileOutputs<Block, kDimSteps>& outputs) {
  RECOLLECT_UNROLL
  for (int pair = 0; pair < kDimSteps; ++pair) {
    TileValuesOf(block, probabilities, tile, pair, outputs, 8 * pair);
  }
}

}  // namespace recollect::kernels::cuda
