// The CPU backend's states of sequences and pieces, in RAM.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/rows.h"
#include "model/state/local_state.h"

namespace recollect::engine {

struct CpuSequence final : SequenceState {
  explicit CpuSequence(model::LocalState state) : local(std::move(state)) {}
  int64_t bytes() const override { return local.bytes(); }
  absl::Status Begin(model::LocalState state) override {
    local = std::move(state);
    return absl::OkStatus();
  }
  bool Rewind(int64_t length) override { return local.Rewind(length); }

  model::LocalState local;
  // [rows of the open block that ran, d] after the last lower layer.
  std::vector<float> open_residuals;
};

struct CpuResiduals final : Residuals {
  std::vector<float> h;  // [rows, d]
  // With an adapter, from the upper layers on: [head rows, d_p], what each asks the pointer head.
  std::vector<float> pointer_queries;
};

// REQUIRES: the sequence was made by the CPU backend.
inline CpuSequence& SequenceOf(const PieceRows& piece) {
  return static_cast<CpuSequence&>(*piece.sequence);
}
inline std::vector<float>& RowsOf(const PieceRows& piece) {
  return static_cast<CpuResiduals&>(*piece.residuals).h;
}

}  // namespace recollect::engine
