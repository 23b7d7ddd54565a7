#include "engine/backend/cpu/cpu_lanes.h"

#include <algorithm>

#include "base/numeric/round_up.h"
#include "engine/backend/cpu/cpu_rows.h"

namespace recollect::engine {
namespace {

// Pieces of at most this many rows share lanes with others (decode, mostly).
constexpr int64_t kShortPiece = 16;
// Each lane reads all weights, more bytes than a core's cache has, so lanes take the rows of many
// sessions; more rows than these would gain little.
constexpr int64_t kLaneRows = 64;
// Fewer rows than this in a lane cost nearly the same as this many: not worth another lane.
constexpr int64_t kSmallestLane = 4;
// A team shares each product of a lane of at most so many rows, and the weights come from memory
// once.
constexpr int64_t kTeamRows = 16;

}  // namespace

void CpuLanes::Run(std::span<PieceRows* const> pieces, int first_layer, int count, int group,
                   const std::function<void(int worker)>& before) {
  Build(pieces);
  if (lane_count_ > 1 && before) threads_.RunAlone(before);
  const auto run_alone = [&](int worker) {
    if (before) before(worker);
    for (int i = 0; i < count; ++i) RunLayer(lanes_[0], first_layer + i, group, worker);
  };
  if (lane_count_ == 1 && model_.shares_products()) {
    threads_.LeadTeam(run_alone);
  } else if (lane_count_ == 1) {
    threads_.RunAlone(run_alone);
  } else {
    threads_.pool.Wavefront(
        static_cast<int64_t>(lane_count_), count,
        [&](int64_t lane, int64_t column, int worker) {
          RunLayer(lanes_[static_cast<size_t>(lane)], first_layer + static_cast<int>(column), group,
                   worker);
        },
        /*then=*/nullptr, static_cast<int64_t>(short_lanes_));
  }
  for (size_t i = 0; i < lane_count_; ++i) ScatterRows(lanes_[i]);
}

// Segments of one piece stand in their order, in one lane or in one lane each, and the wavefront
// runs a layer of a lane after the same layer of the lanes before it: each layer's state advances
// in order. Lanes of short pieces share no state, so they wait for none.
void CpuLanes::Build(std::span<PieceRows* const> pieces) {
  lane_count_ = 0;
  const auto is_short = [](const PieceRows* piece) { return piece->rows() <= kShortPiece; };
  int64_t short_rows = 0;
  for (const PieceRows* piece : pieces) short_rows += is_short(piece) ? piece->rows() : 0;
  const int64_t share = (short_rows + threads_.pool.threads() - 1) / threads_.pool.threads();
  const int64_t capacity =
      std::clamp(RoundUp(share, kSmallestLane),
                 model_.shares_products() ? kTeamRows : kSmallestLane, kLaneRows);
  Lane* lane = nullptr;
  for (PieceRows* piece : pieces) {
    if (!is_short(piece)) continue;
    if (lane == nullptr || lane->rows + piece->rows() > capacity) lane = &NewLane();
    for (const Segment& segment : piece->segments) Add(*lane, *piece, segment);
  }
  short_lanes_ = lane_count_;
  for (PieceRows* piece : pieces) {
    if (is_short(piece)) continue;
    for (const Segment& segment : piece->segments) Add(NewLane(), *piece, segment);
  }
  for (size_t i = 0; i < lane_count_; ++i) GatherRows(lanes_[i]);
}

CpuLanes::Lane& CpuLanes::NewLane() {
  if (lane_count_ == lanes_.size()) lanes_.emplace_back();
  Lane& lane = lanes_[lane_count_++];
  lane.members.clear();
  lane.rows = 0;
  return lane;
}

void CpuLanes::Add(Lane& lane, PieceRows& piece, const Segment& segment) {
  lane.members.push_back({&piece, &segment, lane.rows});
  lane.rows += segment.rows;
}

// A lane of one piece runs on the piece's own rows; others on a copy, side by side.
void CpuLanes::GatherRows(Lane& lane) {
  const int64_t d = model_.config().d;
  const Lane::Member& first = lane.members.front();
  lane.in_place = lane.members.back().piece == first.piece;
  if (lane.in_place) {
    lane.h = RowsOf(*first.piece).data() + first.segment->first_row * d;
    return;
  }
  lane.gathered.resize(static_cast<size_t>(lane.rows * d));
  lane.h = lane.gathered.data();
  for (const Lane::Member& member : lane.members) {
    std::copy_n(RowsOf(*member.piece).data() + member.segment->first_row * d,
                member.segment->rows * d, lane.h + member.first_row * d);
  }
}

void CpuLanes::ScatterRows(const Lane& lane) {
  if (lane.in_place) return;
  const int64_t d = model_.config().d;
  for (const Lane::Member& member : lane.members) {
    std::copy_n(lane.h + member.first_row * d, member.segment->rows * d,
                RowsOf(*member.piece).data() + member.segment->first_row * d);
  }
}

void CpuLanes::RunLayer(Lane& lane, int layer, int group, int worker) {
  lane.segments.clear();
  for (const Lane::Member& member : lane.members) {
    model::Segment segment;
    segment.state = &SequenceOf(*member.piece).local.layers[static_cast<size_t>(layer)];
    segment.rows = member.segment->rows;
    if (group >= 0 && member.segment->memory != nullptr) {
      segment.retrieved = &member.segment->memory->groups[static_cast<size_t>(group)].retrieved;
    }
    lane.segments.push_back(segment);
  }
  model_.RunLayer(threads_.context(worker), layer, lane.segments, lane.h);
}

}  // namespace recollect::engine
