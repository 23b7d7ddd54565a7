#include "kernels/tile_attention/attention_tile.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/device/host_block.h"

namespace recollect::kernels {
namespace {

constexpr int kWarps = 2;
constexpr int kRows = kWarps * cuda::kTileRows;
constexpr int kKeys = cuda::kTileKeys;

// Small whole numbers, whose products and sums Bf16 and fp32 have exactly.
uint16_t Number(int64_t i) {
  return cuda::ToBf16(static_cast<float>(i * 2654435761 % 8191 % 7 - 3));
}

float ValueOf(uint16_t bits) { return cuda::FromBf16(bits); }

// q[rows, dim] against keys and values [rows_of_memory, dim], of which [begin, end) count: the
// scores and scores · values, one after the other.
template <int kDimSteps>
std::vector<float> RunTile(HostOrder order, const std::vector<uint16_t>& q, int rows,
                           const std::vector<uint16_t>& keys, const std::vector<uint16_t>& values,
                           int begin, int end, int dim) {
  std::vector<float> out(kRows * (kKeys + dim), -1.0f);
  const int threads = kWarps * HostBlock::kWarp;
  using Tile = cuda::AttentionTile<kDimSteps>;
  RunBlocks<Tile>(order, 1, threads, [&](HostBlock& block, Tile& tile, int64_t) {
    cuda::TileQueries<HostBlock, kDimSteps> queries(block);
    cuda::TileSums<HostBlock> scores(block);
    HostBlock::PerThread<cuda::Words<cuda::kTileScores / 2>> packed(block);
    cuda::TileOutputs<HostBlock, kDimSteps> outputs(block);
    for (const auto& [from, to] : {std::pair(&keys, tile.keys), std::pair(&values, tile.values)}) {
      const bool aligned = dim % cuda::kDotPiece == 0 && cuda::IsAligned(from->data());
      cuda::BeginTile<kDimSteps>(block, threads, from->data(), dim, begin, end, dim, aligned, to);
    }
    block.AwaitCopies();
    block.Barrier();
    block.Run([&](int t) {
      const auto row_of = [&](int row) { return row < rows ? q.data() + row * dim : nullptr; };
      cuda::LoadTileQueries<kDimSteps>(t, dim, row_of, queries[t]);
      outputs[t] = {};
    });
    cuda::TileScores(block, queries, tile, scores);
    block.Run([&](int t) { packed[t] = cuda::PackTile(scores[t]); });
    cuda::TileValues(block, packed, tile, outputs);
    block.Run([&](int t) {
      for (int i = 0; i < cuda::kTileScores; ++i) {
        out[cuda::TileRow(t, i) * (kKeys + dim) + cuda::TileColumn(t, i)] = scores[t].v[i];
      }
      for (int i = 0; i < 8 * kDimSteps; ++i) {
        const int d = cuda::TileColumn(t, i);
        if (d < dim) out[cuda::TileRow(t, i) * (kKeys + dim) + kKeys + d] = outputs[t].v[i];
      }
    });
  });
  return out;
}

template <int kDimSteps>
void CheckTile(int dim, int rows, int begin, int end) {
  SCOPED_TRACE(testing::Message() << "head_dim " << dim << ", " << rows << " rows, keys " << begin
                                  << " to " << end);
  std::vector<uint16_t> q(rows * dim), keys(kKeys * dim), values(kKeys * dim);
  for (size_t i = 0; i < q.size(); ++i) q[i] = Number(static_cast<int64_t>(i) + 11);
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = Number(static_cast<int64_t>(i) + 100003);
    values[i] = Number(static_cast<int64_t>(i) + 200003);
  }
  for (const HostOrder order : kHostOrders) {
    const std::vector<float> out =
        RunTile<kDimSteps>(order, q, rows, keys, values, begin, end, dim);
    for (int row = 0; row < kRows; ++row) {
      std::vector<float> rounded(kKeys);
      for (int key = 0; key < kKeys; ++key) {
        float score = 0;
        for (int d = 0; d < dim && row < rows && key >= begin && key < end; ++d) {
          score += ValueOf(q[row * dim + d]) * ValueOf(keys[key * dim + d]);
        }
        ASSERT_EQ(out[row * (kKeys + dim) + key], score) << "row " << row << ", key " << key;
        rounded[key] = ValueOf(cuda::ToBf16(score));
      }
      for (int d = 0; d < dim; ++d) {
        float sum = 0;
        for (int key = begin; key < end; ++key)
          sum += rounded[key] * ValueOf(values[key * dim + d]);
        ASSERT_EQ(out[row * (kKeys + dim) + kKeys + d], sum) << "row " << row << ", number " << d;
      }
    }
  }
}

TEST(AttentionTileBlockTest, ProductsAreThoseOfTheMatrices) {
  CheckTile<4>(64, kRows, 0, kKeys);
  CheckTile<8>(128, kRows, 0, kKeys);
}

TEST(AttentionTileBlockTest, RowsKeysAndNumbersThatAreNotThereAreZeros) {
  CheckTile<4>(64, 17, 5, 63);
  CheckTile<4>(16, 1, 0, 1);
  CheckTile<4>(37, 30, 1, 40);
  CheckTile<8>(80, 9, 63, 64);
}

}  // namespace
}  // namespace recollect::kernels
