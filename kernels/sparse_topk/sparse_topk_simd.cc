#include "kernels/cpu/simd.h"
#include "kernels/sparse_topk/sparse_topk.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr ScratchName kSums;

// Each entry to a place of its own: a gather and a scatter of lanes would take as long.
void AddSome(const SparseList& list, uint32_t weight, uint32_t* sums) {
  for (int64_t i = 0; i < list.count; ++i) sums[list.blocks[i]] += weight * list.weights[i];
}

// Weights of all blocks that are added together: sums are read and written once for so many.
constexpr int kTogether = 4;

// The compiler makes lanes of this.
void AddAll(const SparsePart* parts, int64_t blocks, uint32_t* sums) {
  const uint32_t w0 = parts[0].weight, w1 = parts[1].weight, w2 = parts[2].weight,
                 w3 = parts[3].weight;
  const uint8_t *a0 = parts[0].list.weights, *a1 = parts[1].list.weights,
                *a2 = parts[2].list.weights, *a3 = parts[3].list.weights;
  for (int64_t i = 0; i < blocks; ++i) {
    sums[i] += w0 * a0[i] + w1 * a1[i] + w2 * a2[i] + w3 * a3[i];
  }
}

}  // namespace

void SparseScores(OpContext& ctx, const SparsePart* parts, int64_t count, const float* scales,
                  float query_scale, int64_t blocks, float* scores) {
  auto* const sums = reinterpret_cast<uint32_t*>(ctx.Floats(kSums, blocks));
  for (int64_t block = 0; block < blocks; ++block) sums[block] = 0;
  SparsePart waiting[kTogether];
  int many = 0;
  for (int64_t p = 0; p < count; ++p) {
    if (parts[p].list.blocks != nullptr) {
      AddSome(parts[p].list, parts[p].weight, sums);
      continue;
    }
    waiting[many++] = parts[p];
    if (many < kTogether) continue;
    AddAll(waiting, blocks, sums);
    many = 0;
  }
  if (many > 0) {
    for (; many < kTogether; ++many) waiting[many] = {waiting[0].list, 0};
    AddAll(waiting, blocks, sums);
  }
  if (scales == nullptr) {
    for (int64_t i = 0; i < blocks; ++i) scores[i] = static_cast<float>(sums[i]) * query_scale;
  } else {
    for (int64_t i = 0; i < blocks; ++i) {
      scores[i] = static_cast<float>(sums[i]) * scales[i] * query_scale;
    }
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
