// What one position reads of its sequence's local state and of what is mounted: counted from what
// attention is given, and by the formula.
#ifndef RECOLLECT_BENCH_MODEL_TOUCHED_H_
#define RECOLLECT_BENCH_MODEL_TOUCHED_H_

#include <cstdint>

#include "model/chunk.h"
#include "model/config/config.h"
#include "model/state/local_state.h"

namespace recollect::bench {

// Over all layers and heads.
struct Touched {
  double entries = 0;  // of the state, attended to: a key and a value of one head, fp32
  double bounds = 0;   // of blocks, scored: as many floats as an entry
  double memory = 0;   // of retrieved chunks: a key and a value of one memory head, bf16
  double keys = 0;     // landmark keys, scored: bf16

  void Add(const Touched& other);
  void Scale(double factor);
  double bytes(const model::ModelConfig& config) const;
  double key_bytes(const model::ModelConfig& config) const;
  // Of all products but those with landmark keys, which one query makes at a time.
  double flops(const model::ModelConfig& config) const;
  friend bool operator==(const Touched&, const Touched&) = default;
};

// By the position appended last. Where queries choose blocks, as if each chose those just before
// its own: without a window any others are as many positions, but for the initial ones in block 0.
Touched CountState(const model::ModelConfig& config, const model::LocalState& state);
// Entries of memory that a row reads of `retrieved` in one layer with GCA.
double CountMemory(const model::ModelConfig& config, const model::Retrieved& retrieved);

// The same for any position by the closed form (model::AttendedCount; RAttention's window is a
// pattern of nothing else, and blocks before the own are a wider window).
Touched StateByFormula(const model::ModelConfig& config, const model::LocalState& state,
                       int64_t position);
// In all layers, of `chunks` that are mounted, each of `chunk_rows` tokens.
double MemoryByFormula(const model::ModelConfig& config, int64_t chunks, int chunk_rows);

// Heads that have entries of their own, over all layers.
int64_t CountHeads(const model::ModelConfig& config, const model::LocalState& state);

// Bytes of the sums S that RAttention's layers read and write at every position, whatever the
// length.
int64_t SumBytes(const model::LocalState& state);

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_MODEL_TOUCHED_H_
