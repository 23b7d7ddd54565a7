// What one token reads of its sequence's local state: counted from the state, and by the formula.
#ifndef RECOLLECT_BENCH_MODEL_TOUCHED_H_
#define RECOLLECT_BENCH_MODEL_TOUCHED_H_

#include <cstdint>

#include "model/local_state.h"

namespace recollect::bench {

// Entries, each a key and a value of one head, over all layers and heads, of the position appended
// last: from the ranges that attention is given.
int64_t CountEntries(const model::LocalState& state);

// The same for any position by the closed form (model::AttendedCount; RAttention's window is a
// pattern of nothing else).
int64_t EntriesByFormula(const model::LocalState& state, int64_t position);

// Heads that have entries of their own, over all layers.
int64_t CountHeads(const model::LocalState& state);

// Bytes of the sums S that RAttention's layers read and write at every position, whatever the
// length.
int64_t SumBytes(const model::LocalState& state);

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_MODEL_TOUCHED_H_
