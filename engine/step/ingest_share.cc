#include "engine/step/ingest_share.h"

#include <algorithm>

namespace recollect::engine {
namespace {

// Steps over which an ordinary one is averaged.
constexpr double kSteps = 16;
// Ordinary steps that the ingest can be owed: as much as a step with a landmark may take.
constexpr double kMaxOwed = 8;
// Ordinary steps that a turn of the ingest may take: more than one, or debts would never be paid.
constexpr double kTurn = 1.25;

}  // namespace

void IngestShare::AddStep(double took, double beside) {
  ordinary_ = ordinary_ == 0 ? took : ordinary_ + (took - ordinary_) / kSteps;
  // With half of all threads' time during the step it had its share. What idle threads gave it
  // beyond that costs nobody anything.
  owed_ = std::min(owed_ + std::max(took - 2 * beside, 0.0), kMaxOwed * ordinary_);
  left_ = std::min(kTurn * ordinary_, longest_turn_);
}

void IngestShare::AddIngest(double took) {
  owed_ -= took;
  left_ -= took;
}

void IngestShare::AddWhole(double took) { owed_ = -took; }

}  // namespace recollect::engine
