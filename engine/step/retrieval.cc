#include "engine/step/retrieval.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "engine/backend/sampler.h"
#include "engine/session/session.h"
#include "engine/step/successors.h"
#include "model/lexicon.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;

// Queries that ask at once, up to which what a search can do for the next groups pays: more of them
// share a pass in each group.
constexpr size_t kMaxAhead = 2;

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

// What the piece's first rows read and the session let go of when its last request ended; null when
// there is no such thing.
LandmarkMemory::Group* DroppedMemory(const Piece& piece, int group) {
  LandmarkMemory* const memory = piece.segments.front().memory.get();
  if (memory == nullptr) return nullptr;
  LandmarkMemory::Group& found = memory->groups[static_cast<size_t>(group)];
  return found.chunks.size() < found.refs.size() ? &found : nullptr;
}

// Forgets the selections for the group before; wants what the session has dropped.
void BeginSelection(Piece& piece, int group) {
  piece.selections.clear();
  piece.wanted.clear();
  const LandmarkMemory::Group* const dropped = DroppedMemory(piece, group);
  if (dropped == nullptr) return;
  for (const ChunkRef& ref : dropped->refs) {
    WantedChunk& wanted = piece.wanted.emplace_back();
    wanted.ref = ref;
    wanted.read_by_model = true;
  }
}

void AddChunk(const MemoryHandle& chunk, LandmarkMemory::Group& memory) {
  memory.retrieved.chunks.push_back(chunk->memory.view);
  memory.chunks.push_back(chunk);
}

Hit ReportedHit(const Piece& piece, const Selection::Chosen& chosen) {
  const WantedChunk& wanted = piece.wanted[chosen.wanted];
  Hit hit;
  if (chosen.mount >= 0) {
    hit.document = piece.session->mounts()[static_cast<size_t>(chosen.mount)]->info().id;
  }
  hit.owner = wanted.ref.owner;
  hit.chunk = wanted.ref.index;
  hit.score = chosen.score;
  hit.weight = chosen.weight;
  std::tie(hit.text_begin, hit.text_end) = wanted.text();
  hit.tier = wanted.tier;
  return hit;
}

// What was chosen; where hits are asked for by number, an adapter's list is a ranking by score, and
// has none that only follows another.
std::vector<Hit> ReportedHits(const Piece& piece, const Selection& selection) {
  std::vector<Hit> hits;
  if (piece.hits_per_group > 0 && !selection.found.empty()) {
    for (const size_t at : selection.found) {
      hits.push_back(ReportedHit(piece, selection.chosen[at]));
    }
  } else {
    for (const Selection::Chosen& chosen : selection.chosen) {
      hits.push_back(ReportedHit(piece, chosen));
    }
  }
  return hits;
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

bool Retriever::Reports(const Asker& asker) {
  return asker.piece->with_queries && asker.landmark + 1 == asker.piece->landmarks.size();
}

absl::Status Retriever::Select(std::span<Piece* const> pieces, int group) {
  if (config_.has_adapter()) return SelectRecalled(pieces);
  askers_.clear();
  rows_.clear();
  for (Piece* piece : pieces) {
    BeginSelection(*piece, group);
    for (size_t i = 0; i < piece->landmarks.size(); ++i) {
      askers_.push_back({piece, i});
      if (queries_.size() < askers_.size()) queries_.emplace_back();
      LandmarkQuery& query = queries_[askers_.size() - 1];
      piece->session->Candidates(piece->landmarks[i].own_candidates, query.runs);
      const bool last = i + 1 == piece->landmarks.size();
      query.later.clear();
      query.ahead.clear();
      query.known = nullptr;
      std::vector<std::shared_ptr<const SearchAhead>>& ahead = piece->landmarks[i].ahead;
      if (group > 0 && static_cast<size_t>(group) <= ahead.size()) {
        query.known = std::move(ahead[static_cast<size_t>(group) - 1]);
      }
      query.n = static_cast<int>(std::min<int64_t>(
          std::max<int64_t>(config_.n_ret, last ? piece->hits_per_group : 0), query.candidates()));
    }
  }
  for (size_t i = 0; i < askers_.size(); ++i) {
    LandmarkQuery& query = queries_[i];
    query.u.resize(static_cast<size_t>(config_.key_width()));
    if (query.n == 0 && !Reports(askers_[i])) continue;
    const Piece& piece = *askers_[i].piece;
    const PieceLandmark& landmark = piece.landmarks[askers_[i].landmark];
    const auto d_r = static_cast<size_t>(config_.d_r);
    rows_.push_back({&piece, landmark.row, std::span(query.u).first(d_r)});
    if (model_.lexicon() != nullptr) {
      model_.lexicon()->Query(group, landmark.recent, std::span(query.u).subspan(d_r));
    }
  }
  if (!rows_.empty()) RETURN_IF_ERROR(backend_.Queries(group, rows_));
  for (size_t i = 0; i < askers_.size(); ++i) {
    if (Reports(askers_[i])) askers_[i].piece->queries.push_back(queries_[i].u);
  }
  if (group == 0 && askers_.size() <= kMaxAhead) AddLater();
  landmarks_.Search(std::span(queries_).first(askers_.size()));
  for (size_t i = 0; i < askers_.size(); ++i) {
    Piece& piece = *askers_[i].piece;
    queries_[i].known = nullptr;
    if (group == 0) piece.landmarks[askers_[i].landmark].ahead = std::move(queries_[i].ahead);
    if (piece.status.ok()) piece.status = queries_[i].status;
    if (piece.status.ok()) ChooseBest(askers_[i], queries_[i], group);
  }
  return absl::OkStatus();
}

// The lexical parts of all groups' queries depend on tokens alone.
void Retriever::AddLater() {
  if (model_.lexicon() == nullptr) return;
  for (size_t i = 0; i < askers_.size(); ++i) {
    const PieceLandmark& landmark = askers_[i].piece->landmarks[askers_[i].landmark];
    if (queries_[i].n == 0) continue;
    for (int group = 1; group < static_cast<int>(config_.groups.size()); ++group) {
      std::vector<float>& end =
          queries_[i].later.emplace_back(static_cast<size_t>(config_.key_width() - config_.d_r));
      model_.lexicon()->Query(group, landmark.recent, end);
    }
  }
}

void Retriever::ChooseBest(const Asker& asker, LandmarkQuery& query, int group) const {
  Piece& piece = *asker.piece;
  std::vector<ScoredCandidate>& best = query.best;
  if (config_.successors) {
    const float bias = model_.successor_biases()[static_cast<size_t>(group)];
    AddSuccessors(query.runs, config_.n_ret, bias, best);
  }
  const size_t used = std::min(best.size(), static_cast<size_t>(config_.n_ret));
  const std::vector<float> weights = SoftmaxWeights(std::span(best).first(used));
  if (piece.session->random_chunks()) {
    const int64_t row = piece.landmarks[asker.landmark].row;
    ReplaceByRandom(query.candidates(), piece.first_position + row, group, best);
  }
  Selection selection;
  selection.candidates = query.candidates();
  AddSelection(asker, best, weights, std::move(selection));
}

size_t Retriever::Want(Piece& piece, const ChunkRef& ref) {
  const auto same = std::ranges::find(piece.wanted, ref, &WantedChunk::ref);
  const auto at = static_cast<size_t>(same - piece.wanted.begin());
  if (same == piece.wanted.end()) piece.wanted.emplace_back().ref = ref;
  return at;
}

Selection::Chosen Retriever::Choose(Piece& piece, const ScoredCandidate& one, float weight) {
  const Session::Candidate candidate = piece.session->Resolve(one.candidate);
  return {Want(piece, candidate.ref), candidate.mount, one.score, weight};
}

void Retriever::WantNeighbors(Piece& piece) {
  for (size_t i = 0, count = piece.wanted.size(); i < count; ++i) {
    const ChunkRef ref = piece.wanted[i].ref;
    const auto pin = std::ranges::find_if(piece.session->mounts(), [&](const Pin& mounted) {
      return mounted->info().owner == ref.owner;
    });
    if (pin == piece.session->mounts().end()) continue;
    if (ref.index > 0) Want(piece, {ref.owner, ref.index - 1});
    if (ref.index + 1 < (*pin)->info().chunks) Want(piece, {ref.owner, ref.index + 1});
  }
}

void Retriever::AddSelection(const Asker& asker, std::span<const ScoredCandidate> best,
                             std::span<const float> weights, Selection selection) {
  Piece& piece = *asker.piece;
  selection.landmark = asker.landmark;
  selection.used = weights.size();
  for (size_t i = 0; i < best.size(); ++i) {
    const bool read = i < weights.size();
    selection.chosen.push_back(Choose(piece, best[i], read ? weights[i] : 0.0f));
    if (read) piece.wanted[selection.chosen.back().wanted].read_by_model = true;
  }
  piece.selections.push_back(std::move(selection));
}

absl::StatusOr<Recalled> Retriever::RecallFor(const Piece& piece, const Asked& asked) const {
  const std::span<const Pin> mounts = piece.session->mounts();
  const std::span<const int32_t> asking = piece.landmarks.front().recent;
  const int64_t more = piece.questions.empty() ? 0 : config_.adapter.reader.more_blocks;
  ASSIGN_OR_RETURN(Recalled recalled,
                   Recall(model_, threads_, mounts, asking, asked.u, piece.hits_per_group, more));
  if (asked.alone.empty() || !recalled.layers_read()) return recalled;
  ASSIGN_OR_RETURN(
      const Recalled alone,
      Recall(model_, threads_, mounts, asking.last(static_cast<size_t>(piece.question_rows)),
             asked.alone, 0, 0));
  if (!alone.layers_read()) recalled.nothing = alone.nothing;
  return recalled;
}

void Retriever::AddForReader(Piece& piece, const Recalled& recalled, Selection& selection) {
  const auto add = [&](const ScoredCandidate& block, float weight) {
    selection.more.push_back(Choose(piece, block, weight));
    piece.wanted[selection.more.back().wanted].read_by_reader = true;
  };
  for (size_t k = 0; k < recalled.weights.size() && !recalled.layers_read(); ++k)
    add(recalled.blocks[k], recalled.weights[k]);
  for (size_t k = 0; k < recalled.more.size(); ++k) add(recalled.more[k], recalled.more_weights[k]);
  if (recalled.blocks.empty()) return;
  const int64_t best = recalled.blocks.front().candidate;
  const int64_t opening = best - piece.session->Resolve(best).ref.index;
  const auto is_opening = [&](const ScoredCandidate& one) { return one.candidate == opening; };
  const auto weighed = std::span(recalled.blocks).first(recalled.weights.size());
  if (std::ranges::none_of(weighed, is_opening) && std::ranges::none_of(recalled.more, is_opening))
    add({.candidate = opening}, 0);
}

// A piece has one landmark at most, the last row of those that ask.
absl::Status Retriever::SelectRecalled(std::span<Piece* const> pieces) {
  rows_.clear();
  askers_.clear();
  std::vector<Asked> asked;
  asked.reserve(pieces.size());  // rows_ borrow from it
  const auto width = static_cast<size_t>(config_.query_width());
  for (Piece* const piece : pieces) {
    BeginSelection(*piece, 0);
    if (piece->landmarks.empty()) continue;
    askers_.push_back({piece, 0});
    const PieceLandmark& landmark = piece->landmarks.front();
    const int64_t asking = landmark.row + 1;
    Asked& of_piece = asked.emplace_back();
    of_piece.u.resize(width);
    rows_.push_back({.piece = piece,
                     .row = landmark.row,
                     .u = of_piece.u,
                     .question = piece->questions.empty() ? nullptr : &landmark.memory->question,
                     .question_rows = std::min(piece->question_rows, asking)});
    if (piece->question_rows == 0 || piece->question_rows >= asking) continue;
    of_piece.alone.resize(width);
    rows_.push_back({.piece = piece,
                     .row = landmark.row,
                     .u = of_piece.alone,
                     .asking_rows = piece->question_rows});
  }
  if (rows_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(backend_.Queries(0, rows_));
  for (size_t i = 0; i < askers_.size(); ++i) {
    Piece& piece = *askers_[i].piece;
    absl::StatusOr<Recalled> recalled = RecallFor(piece, asked[i]);
    if (piece.status.ok()) piece.status = recalled.status();
    if (!piece.status.ok()) continue;
    Selection selection;
    for (const Pin& pin : piece.session->mounts()) selection.candidates += pin->info().chunks;
    selection.nothing = recalled->nothing;
    selection.found = std::move(recalled->found);
    if (piece.session->random_chunks()) {
      ReplaceByRandom(selection.candidates, piece.first_position + piece.landmarks.front().row, 0,
                      recalled->blocks);
    }
    if (!piece.questions.empty()) AddForReader(piece, *recalled, selection);
    const std::span<const float> read = recalled->weights;
    AddSelection(askers_[i], recalled->blocks, recalled->layers_read() ? read : read.first(0),
                 std::move(selection));
    if (!piece.questions.empty()) WantNeighbors(piece);
  }
  return absl::OkStatus();
}

void Retriever::Attach(Piece& piece, int group) const {
  if (LandmarkMemory::Group* dropped = DroppedMemory(piece, group)) {
    // They are the first of the wanted ones (Select).
    for (size_t i = 0; i < dropped->refs.size(); ++i) AddChunk(piece.wanted[i].memory, *dropped);
  }
  for (const Selection& selection : piece.selections) {
    const PieceLandmark& landmark = piece.landmarks[selection.landmark];
    LandmarkMemory::Group& memory = landmark.memory->groups[static_cast<size_t>(group)];
    for (size_t i = 0; i < selection.used; ++i) {
      const WantedChunk& wanted = piece.wanted[selection.chosen[i].wanted];
      memory.refs.push_back(wanted.ref);
      memory.retrieved.weights.push_back(selection.chosen[i].weight);
      AddChunk(wanted.memory, memory);
    }
    for (const Selection::Chosen& chosen : selection.more) {
      const WantedChunk& wanted = piece.wanted[chosen.wanted];
      landmark.memory->more.refs.push_back(wanted.ref);
      landmark.memory->more.retrieved.weights.push_back(chosen.weight);
      landmark.memory->more.chunks.push_back(wanted.memory);
    }
    if (!piece.with_retrievals) continue;
    Retrieval retrieval;
    retrieval.position = piece.first_position + landmark.row;
    retrieval.group = group;
    retrieval.candidates = selection.candidates;
    if (config_.has_adapter()) retrieval.nothing = selection.nothing;
    retrieval.hits = ReportedHits(piece, selection);
    piece.retrievals.push_back(std::move(retrieval));
  }
}

}  // namespace recollect::engine
