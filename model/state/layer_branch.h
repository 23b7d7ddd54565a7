// Branches are several continuations of a layer's state. They take turns in it, so that what they
// have in common is kept once, in one piece, and attention gives the bits that it would give to one
// of them alone.
#pragma once

#include <cstdint>
#include <vector>

#include "model/state/local_state.h"

namespace recollect::model {

// Keeps the positions after the branch's beginning, which should be few. Not thread-safe.
class LayerBranch {
 public:
  // Begins after the state's last position. REQUIRES: LocalState::Branches.
  explicit LayerBranch(const LayerState& state) : begin_(state.length()), width_(state.width()) {}

  // Puts the branch's positions at the end of the state, in place of another branch's.
  void Enter(LayerState& state) const {
    state.Rewind(begin_);
    if (!keys_.empty()) {
      state.Append(keys_.data(), values_.data(), static_cast<int64_t>(keys_.size()) / width_);
    }
  }
  // As LayerState::Append, to the state that it has entered.
  void Append(LayerState& state, const float* keys, const float* values, int64_t rows,
              int64_t stride) {
    state.Append(keys, values, rows, stride);
    for (int64_t row = 0; row < rows; ++row) {
      keys_.insert(keys_.end(), keys + row * stride, keys + row * stride + width_);
      values_.insert(values_.end(), values + row * stride, values + row * stride + width_);
    }
  }

  int64_t bytes() const {
    return static_cast<int64_t>((keys_.capacity() + values_.capacity()) * sizeof(float));
  }

 private:
  int64_t begin_;
  int64_t width_;                     // heads * head_dim of a key
  std::vector<float> keys_, values_;  // [positions, width]
};

}  // namespace recollect::model
