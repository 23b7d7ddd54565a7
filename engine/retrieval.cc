#include "engine/retrieval.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/sampler.h"
#include "engine/session.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;

// Candidates one thread scans at a time. At d_r = 256 that is 8 MB of keys, some hundreds of
// microseconds: enough to pay for handing it to another thread, little enough to share a scan of a
// million tokens (16 000 keys) between two.
constexpr int64_t kScanTile = 8192;

// The part [begin, end) of a list of segments.
std::vector<kernels::KeySegment> Cut(std::span<const kernels::KeySegment> segments, int64_t begin,
                                     int64_t end, int64_t d_r) {
  std::vector<kernels::KeySegment> cut;
  int64_t first = 0;
  for (const kernels::KeySegment& segment : segments) {
    const int64_t from = std::max(begin, first), to = std::min(end, first + segment.count);
    if (from < to) cut.push_back({segment.keys + (from - first) * d_r, to - from});
    first += segment.count;
  }
  return cut;
}

// Replaces the chosen candidates by others drawn without repetition; scores and weights stay. The
// draw depends on the position and the group only, so that it repeats.
void ReplaceByRandom(int64_t candidates, int64_t position, int group,
                     std::vector<ScoredCandidate>& best) {
  std::vector<int64_t> drawn;
  uint64_t index = 0;
  for (ScoredCandidate& chosen : best) {
    int64_t candidate;
    do {
      const double u = CounterUniform(
          static_cast<uint64_t>(position) * 64 + static_cast<uint64_t>(group), index++);
      candidate =
          std::min(static_cast<int64_t>(u * static_cast<double>(candidates)), candidates - 1);
    } while (std::find(drawn.begin(), drawn.end(), candidate) != drawn.end());
    drawn.push_back(candidate);
    chosen.candidate = candidate;
  }
}

}  // namespace

std::vector<float> SoftmaxWeights(std::span<const ScoredCandidate> best) {
  std::vector<float> weights(best.size());
  float sum = 0;
  for (size_t i = 0; i < best.size(); ++i) {
    weights[i] = std::exp(best[i].score - best[0].score);
    sum += weights[i];
  }
  for (float& weight : weights) weight /= sum;
  return weights;
}

void Retriever::Select(std::span<Piece* const> pieces, int group) {
  size_t count = 0;
  for (Piece* piece : pieces) {
    piece->selections.clear();
    piece->wanted.clear();
    for (size_t i = 0; i < piece->landmarks.size(); ++i) {
      if (count == queries_.size()) queries_.emplace_back();
      Query& query = queries_[count++];
      query.piece = piece;
      query.landmark = i;
      piece->session->Candidates(piece->landmarks[i].own_candidates, query.segments);
      query.candidates = 0;
      for (const kernels::KeySegment& keys : query.segments) query.candidates += keys.count;
      const bool last = i + 1 == piece->landmarks.size();
      query.count = static_cast<int>(std::min<int64_t>(
          std::max<int64_t>(model_.config().n_ret, last ? piece->hits_per_group : 0),
          query.candidates));
    }
  }
  const std::span<Query> queries(queries_.data(), count);
  Search(queries, group);
  for (Query& query : queries) Choose(query, group);
}

void Retriever::Search(std::span<Query> queries, int group) {
  const int64_t d = model_.config().d, d_r = model_.config().d_r;
  scans_.clear();
  for (Query& query : queries) {
    query.u.resize(static_cast<size_t>(d_r));
    const int64_t parts = (query.candidates + kScanTile - 1) / kScanTile;
    query.parts.assign(static_cast<size_t>(parts), {});
    for (int64_t part = 0; part < parts; ++part) {
      scans_.push_back({&query, static_cast<size_t>(part), part * kScanTile,
                        std::min((part + 1) * kScanTile, query.candidates)});
    }
  }
  const auto ask = [&](int64_t i, int worker) {
    Query& query = queries[static_cast<size_t>(i)];
    if (query.candidates == 0) return;
    const int64_t row = query.piece->landmarks[query.landmark].row;
    model_.Query(contexts_[static_cast<size_t>(worker)], group, query.piece->h.data() + row * d,
                 query.u.data());
  };
  const auto scan = [&](int64_t i, int worker) {
    const Scan& s = scans_[static_cast<size_t>(i)];
    const auto segments = Cut(s.query->segments, s.begin, s.end, d_r);
    auto& best = s.query->parts[s.part];
    best = kernels::LandmarkTopK(contexts_[static_cast<size_t>(worker)], s.query->u, segments,
                                 s.query->count);
    for (ScoredCandidate& candidate : best) candidate.candidate += s.begin;
  };
  pool_.ParallelFor(static_cast<int64_t>(queries.size()), ask);
  pool_.ParallelFor(static_cast<int64_t>(scans_.size()), scan);
}

void Retriever::Choose(Query& query, int group) const {
  Piece& piece = *query.piece;
  std::vector<ScoredCandidate> best = query.parts.size() == 1
                                          ? std::move(query.parts[0])
                                          : kernels::MergeTopK(query.parts, query.count);
  const size_t used = std::min(best.size(), static_cast<size_t>(model_.config().n_ret));
  const std::vector<float> weights = SoftmaxWeights(std::span(best).first(used));
  if (piece.session->random_chunks()) {
    const int64_t row = piece.landmarks[query.landmark].row;
    ReplaceByRandom(query.candidates, piece.first_position + row, group, best);
  }
  Selection selection;
  selection.landmark = query.landmark;
  selection.candidates = query.candidates;
  selection.used = used;
  for (size_t i = 0; i < best.size(); ++i) {
    const Session::Candidate candidate = piece.session->Resolve(best[i].candidate);
    size_t wanted = 0;
    while (wanted < piece.wanted.size() && !(piece.wanted[wanted].ref == candidate.ref)) ++wanted;
    if (wanted == piece.wanted.size()) piece.wanted.emplace_back().ref = candidate.ref;
    if (i < used) piece.wanted[wanted].read_by_model = true;
    selection.chosen.push_back(
        {wanted, candidate.mount, best[i].score, i < used ? weights[i] : 0.0f});
  }
  piece.selections.push_back(std::move(selection));
}

void Retriever::Attach(Piece& piece, int group) const {
  for (const Selection& selection : piece.selections) {
    const PieceLandmark& landmark = piece.landmarks[selection.landmark];
    LandmarkMemory::Group& memory = landmark.memory->groups[static_cast<size_t>(group)];
    for (size_t i = 0; i < selection.used; ++i) {
      const MemoryHandle& chunk = piece.wanted[selection.chosen[i].wanted].memory;
      memory.retrieved.chunks.push_back(chunk->memory.view());
      memory.retrieved.weights.push_back(selection.chosen[i].weight);
      memory.chunks.push_back(chunk);
    }
    if (!piece.want_retrievals) continue;
    Retrieval retrieval;
    retrieval.position = piece.first_position + landmark.row;
    retrieval.group = group;
    retrieval.candidates = selection.candidates;
    for (const Selection::Chosen& chosen : selection.chosen) {
      const WantedChunk& wanted = piece.wanted[chosen.wanted];
      Hit hit;
      if (chosen.mount >= 0) {
        hit.document = piece.session->mounts()[static_cast<size_t>(chosen.mount)]->info().id;
      }
      hit.chunk = wanted.ref.index;
      hit.score = chosen.score;
      hit.weight = chosen.weight;
      std::tie(hit.text_begin, hit.text_end) = wanted.text();
      hit.tier = wanted.tier;
      retrieval.hits.push_back(std::move(hit));
    }
    piece.retrievals.push_back(std::move(retrieval));
  }
}

}  // namespace recollect::engine
