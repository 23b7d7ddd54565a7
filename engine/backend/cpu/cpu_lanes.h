// Divides the rows of many pieces into lanes and runs layers over them, as a wavefront over (lane,
// layer) on the compute threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend/cpu/compute_threads.h"
#include "engine/backend/rows.h"
#include "model/cpu/cpu_model.h"

namespace recollect::engine {

// Used by one thread at a time; computes on the threads.
class CpuLanes {
 public:
  // Borrows both.
  CpuLanes(const model::CpuModel& model, ComputeThreads& threads)
      : model_(model), threads_(threads) {}

  // Runs `count` layers from `first_layer` on over the pieces' rows, in place. `group`: the group
  // whose memory the segments read; -1 for lower layers, which read none. `before`, if given, runs
  // first, on one thread, which leads a team if one lane is all there is and teams share products.
  void Run(std::span<PieceRows* const> pieces, int first_layer, int count, int group,
           const std::function<void(int worker)>& before = nullptr);

 private:
  // Rows that run together: short pieces of several sessions, or one segment of a long piece.
  struct Lane {
    struct Member {
      PieceRows* piece;
      const Segment* segment;
      int64_t first_row;  // in the lane
    };
    std::vector<Member> members;
    int64_t rows = 0;
    bool in_place = false;
    float* h = nullptr;  // [rows, d]: the piece's own rows, or gathered
    std::vector<float> gathered;
    std::vector<model::Segment> segments;
  };

  void Build(std::span<PieceRows* const> pieces);
  Lane& NewLane();
  void Add(Lane& lane, PieceRows& piece, const Segment& segment);
  void GatherRows(Lane& lane);
  void ScatterRows(const Lane& lane);
  void RunLayer(Lane& lane, int layer, int group, int worker);

  const model::CpuModel& model_;
  ComputeThreads& threads_;
  std::vector<Lane> lanes_;  // the first lane_count_ are in use; the others keep their memory
  size_t lane_count_ = 0;
  size_t short_lanes_ = 0;  // the first lanes, of short pieces
};

}  // namespace recollect::engine
