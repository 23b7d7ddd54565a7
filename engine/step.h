// One step: runs the pieces of many sessions through the model together, as far as each gets. A
// piece whose chunks are not resident is cut out at that group and goes on in a later step, once
// they have been read; the others do not wait for it.
#ifndef RECOLLECT_ENGINE_STEP_H_
#define RECOLLECT_ENGINE_STEP_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/piece.h"
#include "engine/retrieval.h"
#include "engine/tiers.h"
#include "kernels/op_context.h"
#include "model/model.h"

namespace recollect::engine {

// Used on the scheduler's thread; computes on the pool.
class StepRunner {
 public:
  // `fetched` is called on a fetch thread whenever a cut piece can go on.
  StepRunner(const model::Model& model, ThreadPool& pool, std::vector<kernels::OpContext>& contexts,
             ChunkTiers& tiers, LandmarkDevice& landmarks, std::function<void()> fetched);

  // Afterwards each piece has failed (status), is through (stage == last_stage()), or is cut
  // (waiting).
  void Run(std::span<Piece* const> pieces);

  int last_stage() const { return groups_ + 2; }

 private:
  // Rows that run together: short pieces of several sessions, or one segment of a long piece.
  struct Lane {
    struct Member {
      Piece* piece;
      const PieceSegment* segment;
      int64_t first_row;  // in the lane
    };
    std::vector<Member> members;
    int64_t rows = 0;
    bool in_place = false;
    float* h = nullptr;  // [rows, d]: the piece's own rows, or gathered
    std::vector<float> gathered;
    std::vector<model::Segment> segments;
  };

  void RunLower();
  void RunGroup(int group);
  void RunHead();
  void RunLayers(int first_layer, int count, int group);
  void BuildLanes();
  Lane& NewLane();
  void GatherRows(Lane& lane);
  void ScatterRows(const Lane& lane);
  void AddToLane(Lane& lane, Piece& piece, const PieceSegment& segment);
  void RunLaneLayer(Lane& lane, int layer, int group, int worker);
  void EncodeClosed();
  void KeepOpenResiduals(Piece& piece);
  void Retrieve(int group);
  void ProjectWanted();

  const model::Model& model_;
  const int groups_;
  ThreadPool& pool_;
  std::vector<kernels::OpContext>& contexts_;
  ChunkTiers& tiers_;
  Retriever retriever_;
  const std::function<void()> fetched_;

  std::vector<Piece*> batch_;  // those of the stage that runs
  std::vector<Lane> lanes_;    // the first lane_count_ are in use
  size_t lane_count_ = 0;
  std::vector<std::vector<float>> worker_rows_, worker_logits_;  // of the head, by worker
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STEP_H_
