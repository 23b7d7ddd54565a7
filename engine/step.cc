#include "engine/step.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/session.h"

namespace recollect::engine {
namespace {

// Pieces of at most this many rows share lanes with others (decode, mostly); 16 rows run at 98 % of
// the GEMM's ceiling, so longer lanes would gain nothing and leave other threads idle.
constexpr int64_t kLaneRows = 16;
// Fewer rows than this in a lane cost nearly the same as this many: not worth another lane.
constexpr int64_t kSmallestLane = 4;
// Rows of logits a thread makes at a time.
constexpr int64_t kHeadRows = 16;

}  // namespace

StepRunner::StepRunner(const model::Model& model, ThreadPool& pool,
                       std::vector<kernels::OpContext>& contexts, ChunkTiers& tiers,
                       LandmarkDevice& landmarks, std::function<void()> fetched)
    : model_(model),
      groups_(static_cast<int>(model.config().groups.size())),
      pool_(pool),
      contexts_(contexts),
      tiers_(tiers),
      retriever_(model, pool, contexts, landmarks),
      fetched_(std::move(fetched)),
      worker_rows_(contexts.size()),
      worker_logits_(contexts.size()) {}

void StepRunner::Run(std::span<Piece* const> pieces) {
  for (int stage = 0; stage < last_stage(); ++stage) {
    batch_.clear();
    for (Piece* piece : pieces) {
      if (piece->stage == stage && !piece->waiting && piece->status.ok()) batch_.push_back(piece);
    }
    if (batch_.empty()) continue;
    if (stage == 0) {
      RunLower();
    } else if (stage <= groups_) {
      RunGroup(stage - 1);
    } else {
      RunHead();
    }
    for (Piece* piece : batch_) ++piece->stage;
    if (stage < groups_) Retrieve(stage);
  }
}

void StepRunner::RunLower() {
  const int64_t d = model_.config().d;
  for (Piece* piece : batch_) {
    piece->h.resize(static_cast<size_t>(piece->rows() * d));
    model_.Embed(piece->ids, piece->h.data());
  }
  RunLayers(0, model_.config().n_low, -1);
  EncodeClosed();
  if (!model_.config().landmarks()) return;  // no block waits for its end
  for (Piece* piece : batch_) KeepOpenResiduals(*piece);
}

void StepRunner::RunGroup(int group) {
  ProjectWanted();
  for (Piece* piece : batch_) retriever_.Attach(*piece, group);
  RunLayers(model_.config().first_layer_of_group(group),
            model_.config().groups[static_cast<size_t>(group)].layers, group);
}

void StepRunner::RunLayers(int first_layer, int count, int group) {
  BuildLanes();
  if (lane_count_ == 1) {
    for (int i = 0; i < count; ++i) RunLaneLayer(lanes_[0], first_layer + i, group, 0);
  } else {
    pool_.Wavefront(static_cast<int64_t>(lane_count_), count,
                    [&](int64_t lane, int64_t column, int worker) {
                      RunLaneLayer(lanes_[static_cast<size_t>(lane)],
                                   first_layer + static_cast<int>(column), group, worker);
                    });
  }
  for (size_t i = 0; i < lane_count_; ++i) ScatterRows(lanes_[i]);
}

// Segments of one piece stand in their order, in one lane or in one lane each, and the wavefront
// runs a layer of a lane after the same layer of the lanes before it: each layer's state advances
// in order.
void StepRunner::BuildLanes() {
  lane_count_ = 0;
  const auto is_short = [](const Piece* piece) { return piece->rows() <= kLaneRows; };
  int64_t short_rows = 0;
  for (const Piece* piece : batch_) short_rows += is_short(piece) ? piece->rows() : 0;
  const int64_t share = (short_rows + pool_.threads() - 1) / pool_.threads();
  const int64_t capacity = std::clamp((share + kSmallestLane - 1) / kSmallestLane * kSmallestLane,
                                      kSmallestLane, kLaneRows);
  Lane* lane = nullptr;
  for (Piece* piece : batch_) {
    if (!is_short(piece)) continue;
    if (lane == nullptr || lane->rows + piece->rows() > capacity) lane = &NewLane();
    for (const PieceSegment& segment : piece->segments) AddToLane(*lane, *piece, segment);
  }
  for (Piece* piece : batch_) {
    if (is_short(piece)) continue;
    for (const PieceSegment& segment : piece->segments) AddToLane(NewLane(), *piece, segment);
  }
  for (size_t i = 0; i < lane_count_; ++i) GatherRows(lanes_[i]);
}

StepRunner::Lane& StepRunner::NewLane() {
  if (lane_count_ == lanes_.size()) lanes_.emplace_back();
  Lane& lane = lanes_[lane_count_++];
  lane.members.clear();
  lane.rows = 0;
  return lane;
}

// A lane of one piece runs on the piece's own rows; others on a copy, side by side.
void StepRunner::GatherRows(Lane& lane) {
  const int64_t d = model_.config().d;
  const Lane::Member& first = lane.members.front();
  lane.in_place = lane.members.back().piece == first.piece;
  if (lane.in_place) {
    lane.h = first.piece->h.data() + first.segment->first_row * d;
    return;
  }
  lane.gathered.resize(static_cast<size_t>(lane.rows * d));
  lane.h = lane.gathered.data();
  for (const Lane::Member& member : lane.members) {
    std::copy_n(member.piece->h.data() + member.segment->first_row * d, member.segment->rows * d,
                lane.h + member.first_row * d);
  }
}

void StepRunner::ScatterRows(const Lane& lane) {
  if (lane.in_place) return;
  const int64_t d = model_.config().d;
  for (const Lane::Member& member : lane.members) {
    std::copy_n(lane.h + member.first_row * d, member.segment->rows * d,
                member.piece->h.data() + member.segment->first_row * d);
  }
}

void StepRunner::AddToLane(Lane& lane, Piece& piece, const PieceSegment& segment) {
  lane.members.push_back({&piece, &segment, lane.rows});
  lane.rows += segment.rows;
}

void StepRunner::RunLaneLayer(Lane& lane, int layer, int group, int worker) {
  lane.segments.clear();
  for (const Lane::Member& member : lane.members) {
    model::Segment segment;
    segment.state = &member.piece->session->layer(layer);
    segment.rows = member.segment->rows;
    if (group >= 0 && member.segment->memory != nullptr) {
      segment.retrieved = &member.segment->memory->groups[static_cast<size_t>(group)].retrieved;
    }
    lane.segments.push_back(segment);
  }
  model_.RunLayer(contexts_[static_cast<size_t>(worker)], layer, lane.segments, lane.h);
}

void StepRunner::EncodeClosed() {
  struct Job {
    Piece* piece;
    const ClosedBlock* closed;
    model::EncodedChunk chunk;
  };
  std::vector<Job> jobs;
  for (Piece* piece : batch_) {
    for (const ClosedBlock& closed : piece->closed) jobs.push_back({piece, &closed, {}});
  }
  if (jobs.empty()) return;
  const int64_t d = model_.config().d;
  pool_.ParallelFor(static_cast<int64_t>(jobs.size()), [&](int64_t i, int worker) {
    Job& job = jobs[static_cast<size_t>(i)];
    const ClosedBlock& closed = *job.closed;
    kernels::OpContext& ctx = contexts_[static_cast<size_t>(worker)];
    const float* rows = job.piece->h.data() + closed.first_row * d;
    std::vector<float> joined;
    if (closed.rows_before > 0) {
      const std::vector<float>& before = job.piece->session->open_residuals();
      joined.assign(before.begin(), before.begin() + closed.rows_before * d);
      joined.insert(joined.end(), rows, rows + (closed.rows - closed.rows_before) * d);
      rows = joined.data();
    }
    job.chunk = model_.EncodeChunk(ctx, rows, static_cast<int>(closed.rows - 1));
  });
  for (Job& job : jobs) {
    if (!job.piece->status.ok()) continue;
    job.piece->status = job.piece->session->AddChunk(std::move(job.chunk), job.closed->text_begin,
                                                     job.closed->text_end);
  }
  std::erase_if(batch_, [](const Piece* piece) { return !piece->status.ok(); });
}

void StepRunner::KeepOpenResiduals(Piece& piece) {
  const int64_t d = model_.config().d;
  std::vector<float>& residuals = piece.session->open_residuals();
  if (!piece.closed.empty()) residuals.clear();
  residuals.insert(residuals.end(), piece.h.begin() + piece.open_row * d, piece.h.end());
}

void StepRunner::Retrieve(int group) {
  retriever_.Select(batch_, group);
  for (Piece* piece : batch_) {
    if (!piece->status.ok() || tiers_.LookUp(piece->wanted) == 0) continue;
    piece->waiting = true;
    piece->fetch_done = false;
    std::shared_ptr<void> owner = piece->owner.lock();
    tiers_.Fetch(piece->wanted, [piece, owner, fetched = fetched_](absl::Status status) {
      piece->fetch_status = std::move(status);
      piece->fetch_done = true;
      fetched();
    });
  }
}

void StepRunner::ProjectWanted() {
  std::vector<WantedChunk*> todo;
  for (Piece* piece : batch_) {
    for (WantedChunk& wanted : piece->wanted) {
      if (wanted.memory == nullptr && wanted.read_by_model) todo.push_back(&wanted);
    }
  }
  if (todo.empty()) return;
  pool_.ParallelFor(static_cast<int64_t>(todo.size()), [&](int64_t i, int worker) {
    tiers_.Project(contexts_[static_cast<size_t>(worker)], *todo[static_cast<size_t>(i)]);
  });
}

void StepRunner::RunHead() {
  struct Item {
    Piece* piece;
    const HeadRow* head;
  };
  std::vector<Item> items;
  for (Piece* piece : batch_) {
    for (const HeadRow& head : piece->head) items.push_back({piece, &head});
  }
  const int64_t d = model_.config().d, vocab = model_.config().vocab_size;
  const int64_t count = static_cast<int64_t>(items.size());
  const int64_t share = (count + pool_.threads() - 1) / pool_.threads();
  const int64_t tile = std::clamp<int64_t>(share, 1, kHeadRows);
  pool_.ParallelFor((count + tile - 1) / tile, [&](int64_t t, int worker) {
    const int64_t begin = t * tile, rows = std::min(tile, count - begin);
    std::vector<float>& in = worker_rows_[static_cast<size_t>(worker)];
    std::vector<float>& logits = worker_logits_[static_cast<size_t>(worker)];
    in.resize(static_cast<size_t>(kHeadRows * d));
    logits.resize(static_cast<size_t>(kHeadRows * vocab));
    for (int64_t r = 0; r < rows; ++r) {
      const Item& item = items[static_cast<size_t>(begin + r)];
      std::copy_n(item.piece->h.data() + item.head->row * d, d, in.data() + r * d);
    }
    model_.Logits(contexts_[static_cast<size_t>(worker)], in.data(), rows, logits.data());
    for (int64_t r = 0; r < rows; ++r) {
      const Item& item = items[static_cast<size_t>(begin + r)];
      item.piece->consume(*item.head,
                          std::span<const float>(logits).subspan(static_cast<size_t>(r * vocab),
                                                                 static_cast<size_t>(vocab)));
    }
  });
}

}  // namespace recollect::engine
