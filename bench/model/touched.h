// Counts what one position reads of its sequence's local state and of what is mounted: from what
// attention is given, and by the formula.
#pragma once

#include <cstdint>

#include "model/chunk.h"
#include "model/config/config.h"
#include "model/state/local_state.h"

namespace recollect::bench {

// The numbers that a position reads, over all layers and heads.
struct Touched {
  double entries = 0;  // of the state, attended to: a key and a value of one head, fp32
  double bounds = 0;   // of blocks, scored: as many floats as an entry
  double memory = 0;   // of retrieved chunks: a key and a value of one memory head, bf16
  double keys = 0;     // landmark keys, scored: bf16

  void Add(const Touched& other);
  void Scale(double factor);
  double bytes(const model::ModelConfig& config) const;
  double key_bytes(const model::ModelConfig& config) const;
  // Returns the flops of all products except those with landmark keys, which only one query makes
  // at a time.
  double flops(const model::ModelConfig& config) const;
  friend bool operator==(const Touched&, const Touched&) = default;
};

// Counts for the position appended last. Where queries choose blocks, assumes that each chose those
// just before its own: without a window any others have as many positions, except for the initial
// ones in block 0.
Touched CountState(const model::ModelConfig& config, const model::LocalState& state);
// Counts the entries of memory that a row reads of `retrieved` in one layer with GCA.
double CountMemory(const model::ModelConfig& config, const model::Retrieved& retrieved);

// Returns the same for any position by the closed form (model::AttendedCount; RAttention's window
// counts as a pattern of a window alone, and chosen blocks as a wider window).
Touched StateByFormula(const model::ModelConfig& config, const model::LocalState& state,
                       int64_t position);
// Returns the entries of memory read in all layers, of `chunks` mounted chunks of `chunk_rows`
// tokens.
double MemoryByFormula(const model::ModelConfig& config, int64_t chunks, int chunk_rows);

// Counts the heads that have entries of their own, over all layers.
int64_t CountHeads(const model::ModelConfig& config, const model::LocalState& state);

// Returns the bytes of the sums S that RAttention's layers read and write at every position,
// whatever the length.
int64_t SumBytes(const model::LocalState& state);

}  // namespace recollect::bench
