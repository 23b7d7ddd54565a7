// The thread blocks of the sparse search on a device. Two launches. In the first, a thread block
// takes one slice of the blocks and one query: it finds the lists of kTermTile words at a time and
// what of each lies in the slice, adds them to sums in shared memory, makes scores of these, and
// writes the n best. In the second, one thread block for each query merges the slices' lists.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/landmark_topk/landmark_topk_kernel.h"
#include "kernels/sparse_topk/sparse_topk_plan.h"

namespace recollect::kernels::cuda {

constexpr int kSparseThreads = kTopKThreads;
constexpr int kSparseWarps = kSparseThreads / kMatrixWarp;
constexpr int kTermTile = kSparseThreads / 2;  // a word has two threads that look for it
constexpr int kOwnBlocks = kSliceBlocks / kSparseThreads;  // of a thread

struct SparseShared {
  uint32_t sums[kSliceBlocks];  // then the bits of the scores
  // They say of each word of a tile its place among the words with weights of all blocks, its place
  // among those with lists (-1: none), the entries of its list in the slice, and its weight.
  int32_t everywhere[kTermTile], lists[kTermTile];
  uint32_t begins[kTermTile], ends[kTermTile];
  uint32_t weights[kTermTile];
  alignas(16) float dense[kMaxDeviceKeyWidth];
  TopKList best;
};

// The work of one thread block: blocks [begin, begin + count) of the range.
struct SliceWork {
  DeviceSparseRange range;
  DeviceSparseQuery query;
  int begin, count;
};

RECOLLECT_HD SliceWork WorkOf(const SparseTopKOp& op, int64_t slice, int64_t query) {
  const SparseSlice& at = op.slices[slice];
  SliceWork work = {op.ranges[at.range], op.queries[query], at.begin, 0};
  const int left = work.range.lists.blocks - work.begin;
  work.count = left < kSliceBlocks ? left : kSliceBlocks;
  return work;
}

// Returns how many of `numbers`, which are in order, are below `number`.
template <typename T>
RECOLLECT_HD uint32_t CountBelow(const T* numbers, uint32_t count, int32_t number) {
  uint32_t below = 0;
  while (count > 0) {
    const uint32_t half = count / 2;
    const bool more = static_cast<int32_t>(numbers[below + half]) < number;
    below += more ? half + 1 : 0;
    count = more ? count - half - 1 : half;
  }
  return below;
}

// Returns where `word` is among `words`, which are in order; -1: nowhere.
RECOLLECT_HD int32_t FindWord(const int32_t* words, int32_t count, int32_t word) {
  const uint32_t at = CountBelow(words, static_cast<uint32_t>(count), word);
  return at < static_cast<uint32_t>(count) && words[at] == word ? static_cast<int32_t>(at) : -1;
}

// Finds the lists of `terms`[count]: for each, one thread looks among the words with weights of all
// blocks and for the first entry, the other among the words with lists and for the last entry.
template <typename Block>
RECOLLECT_HD void FindLists(Block& block, SparseShared& shared, const SliceWork& work,
                            const WholeTerm* terms, int count) {
  const SparseLists& lists = work.range.lists;
  block.Phase([&](int t) {
    const int i = t % kTermTile;
    if (i >= count) return;
    const WholeTerm term = terms[i];
    if (t < kTermTile) {
      shared.everywhere[i] = FindWord(lists.everywhere, lists.everywhere_count, term.word);
      shared.weights[i] = term.weight;
    } else {
      shared.lists[i] = FindWord(lists.words, lists.word_count, term.word);
    }
  });
  block.Phase([&](int t) {
    const int i = t % kTermTile;
    if (i >= count || shared.lists[i] < 0) return;
    const uint32_t begin = lists.begins[shared.lists[i]], end = lists.begins[shared.lists[i] + 1];
    const int32_t block_number = t < kTermTile ? work.begin : work.begin + work.count;
    const uint32_t found = begin + CountBelow(lists.entries + begin, end - begin, block_number);
    (t < kTermTile ? shared.begins : shared.ends)[i] = found;
  });
}

// Adds the weights of all blocks, each thread those of its own blocks.
template <typename Block>
RECOLLECT_HD void AddEverywhere(Block& block, SparseShared& shared, const SliceWork& work,
                                int count) {
  const SparseLists& lists = work.range.lists;
  block.Phase([&](int t) {
    uint32_t sums[kOwnBlocks] = {};
    for (int i = 0; i < count; ++i) {
      if (shared.everywhere[i] < 0) continue;
      const uint8_t* const weights =
          lists.all_weights + int64_t{shared.everywhere[i]} * lists.blocks + work.begin;
      RECOLLECT_UNROLL
      for (int own = 0; own < kOwnBlocks; ++own) {
        const int at = own * kSparseThreads + t;
        if (at < work.count) sums[own] += shared.weights[i] * weights[at];
      }
    }
    RECOLLECT_UNROLL
    for (int own = 0; own < kOwnBlocks; ++own) shared.sums[own * kSparseThreads + t] += sums[own];
  });
}

// Adds the lists, a warp one list at a time.
template <typename Block>
RECOLLECT_HD void AddLists(Block& block, SparseShared& shared, const SliceWork& work, int count) {
  const SparseLists& lists = work.range.lists;
  block.Phase([&](int t) {
    for (int i = t / kMatrixWarp; i < count; i += kSparseWarps) {
      if (shared.lists[i] < 0) continue;
      for (uint32_t at = shared.begins[i] + t % kMatrixWarp; at < shared.ends[i];
           at += kMatrixWarp) {
        block.AddTo(&shared.sums[lists.entries[at] - work.begin],
                    shared.weights[i] * lists.weights[at]);
      }
    }
  });
}

// Makes scores of the sums, in their place: the products of sparse_topk.h, in its order.
template <typename Block>
RECOLLECT_HD void MakeScores(Block& block, SparseShared& shared, const SliceWork& work) {
  const float* const scales = work.range.lists.scales;
  block.Phase([&](int t) {
    for (int at = t; at < work.count; at += kSparseThreads) {
      const auto sum = static_cast<float>(shared.sums[at]);
      const float scaled = scales == nullptr ? sum : Mul(sum, scales[work.begin + at]);
      shared.sums[at] = BitsOf(Mul(scaled, work.query.scale));
    }
  });
}

// Adds the dense part to the scores: kDotLanes threads a key, kKeysPerLane keys of each at a time.
template <typename Block>
RECOLLECT_HD void AddDense(Block& block, SparseShared& shared, const SparseTopKOp& op,
                           const SliceWork& work, int64_t query) {
  const int width = op.plan.sizes.width;
  const auto* const keys =
      reinterpret_cast<const uint16_t*>(work.range.dense) + int64_t{work.begin} * width;
  block.Phase([&](int t) {
    for (int d = t; d < RoundUpToPiece(width); d += kSparseThreads) {
      shared.dense[d] = d < width ? op.dense[query * width + d] : 0.0f;
    }
  });
  typename Block::template PerThread<Floats<kKeysPerLane>> dots(block);
  for (int step = 0; step < work.count; step += kTopKStep) {
    block.Run([&](int t) {
      const int group = t / kDotLanes, lane = t % kDotLanes;
      RECOLLECT_UNROLL
      for (int u = 0; u < kKeysPerLane; ++u) {
        const int at = step + u * kKeyGroups + group;
        // Past the end, the last key is read again and its product not used.
        const uint16_t* const key = keys + int64_t{at < work.count ? at : work.count - 1} * width;
        dots[t].v[u] = DotLane(shared.dense, key, width, lane, IsAligned(key), 0.0f);
      }
    });
    block.XorSum(dots, kDotLanes);
    block.Phase([&](int t) {
      const int group = t / kDotLanes, lane = t % kDotLanes;
      RECOLLECT_UNROLL
      for (int u = 0; u < kKeysPerLane; ++u) {
        const int at = step + u * kKeyGroups + group;
        if (u != lane || at >= work.count) continue;
        const float dense = Mul(dots[t].v[u], op.plan.dense_scale);
        shared.sums[at] = BitsOf(Add(dense, FromBits(shared.sums[at])));
      }
    });
  }
}

// Keeps the n best scores. Without a dense part, a block with a score of zero is no hit.
template <typename Block>
RECOLLECT_HD void KeepBest(Block& block, SparseShared& shared, const SparseTopKOp& op,
                           const SliceWork& work) {
  const bool all = op.plan.sizes.width > 0;
  for (int step = 0; step < work.count; step += kTopKStep) {
    block.Phase([&](int t) {
      const int at = step + t;
      if (t >= kTopKStep || at >= work.count) return;
      const float score = FromBits(shared.sums[at]);
      if (!all && !(score > 0)) return;
      const uint64_t packed = PackCandidate(score, work.range.first + work.begin + at);
      if (packed < work.query.below && IsBetterThanLast(shared.best, op.plan.sizes.n, packed)) {
        Offer(block, shared.best, packed);
      }
    });
    SortIfFull(block, shared.best, kTopKStep);
  }
  SortList(block, shared.best);
}

// Returns the place in the workspace for the n best of a slice.
RECOLLECT_HD uint64_t* BestOf(const SparseTopKOp& op, int64_t query, int64_t slice) {
  const SparseTopKSizes& sizes = op.plan.sizes;
  return static_cast<uint64_t*>(op.workspace) + (query * sizes.slices + slice) * sizes.n;
}

// Searches slice i / queries for query i % queries.
struct SliceBlocks : Blocks<kSparseThreads, SparseShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const SparseTopKOp& op,
                               BlockIndex at) {
    const int64_t i = at.x;
    const SparseTopKSizes& sizes = op.plan.sizes;
    const int64_t slice = i / sizes.queries, query = i % sizes.queries;
    const SliceWork work = WorkOf(op, slice, query);
    ClearList(block, shared.best);
    block.Phase([&](int t) {
      for (int own = 0; own < kOwnBlocks; ++own) shared.sums[own * kSparseThreads + t] = 0;
    });
    const WholeTerm* const terms = op.terms + work.query.first_term;
    for (int first = 0; first < work.query.terms; first += kTermTile) {
      const int left = work.query.terms - first;
      const int count = left < kTermTile ? left : kTermTile;
      FindLists(block, shared, work, terms + first, count);
      AddEverywhere(block, shared, work, count);
      AddLists(block, shared, work, count);
    }
    MakeScores(block, shared, work);
    if (sizes.width > 0) AddDense(block, shared, op, work, query);
    KeepBest(block, shared, op, work);
    block.Run([&](int t) {
      if (t < sizes.n) BestOf(op, query, slice)[t] = shared.best.slots[t];
    });
  }
};

// Merges the slices' lists of one query.
struct SparseMergeBlocks : Blocks<kSparseThreads, TopKList> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& list, const SparseTopKOp& op, BlockIndex at) {
    const int64_t query = at.x;
    const SparseTopKSizes& sizes = op.plan.sizes;
    MergeBest(block, list, BestOf(op, query, 0), sizes.slices * sizes.n, sizes.n,
              op.candidates + query * sizes.n, op.scores + query * sizes.n);
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const SparseTopKOp& op) {
  const SparseTopKSizes& sizes = op.plan.sizes;
  if (sizes.n == 0) return absl::OkStatus();
  RETURN_IF_ERROR(
      launch(SliceBlocks{}, "sparse top-k, slices", {.x = sizes.queries * sizes.slices}, op));
  return launch(SparseMergeBlocks{}, "sparse top-k, merge", {.x = sizes.queries}, op);
}

}  // namespace recollect::kernels::cuda
