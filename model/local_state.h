// What a sequence carries from position to position in every layer: the recurrence vectors and the
// cached keys and values that the local pattern can still reach (design 2.2). Bounded: its size
// does not depend on the sequence's length.
#ifndef RECOLLECT_MODEL_LOCAL_STATE_H_
#define RECOLLECT_MODEL_LOCAL_STATE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/range_attention.h"
#include "model/config.h"

namespace recollect::model {

// One layer. Positions are appended in order; the three parts each keep their entries in position
// order, fp32 [entries, heads, head_dim]; keys after recurrence and RoPE (rounded to bf16 in the
// bf16 format). No position counts twice: position t attends to initial = p < min(I, t + 1),
// dilated = p in [max(t - C, I), t - W) with (p + 1) mod D = 0, and window = p in [max(t - W, I),
// t]. What no later position can reach is dropped, some appends at a time. Not thread-safe.
class LayerState {
 public:
  LayerState(const LocalPattern& pattern, int heads, int head_dim);

  // Appends `rows` positions following those already there. keys, values: [rows, heads, head_dim],
  // rows `stride` floats apart, dense when 0. Invalidates parts().
  void Append(const float* keys, const float* values, int64_t rows, int64_t stride = 0);

  static constexpr int64_t kMaxAppend = 64;  // rows of one segment of the model
  // Entries that position `position` attends to, as ranges into parts(). REQUIRES: appended by the
  // latest Append; what only earlier positions can reach may be gone.
  kernels::RangeSet Ranges(int64_t position) const;
  std::array<kernels::KvSpan, kernels::kMaxRanges> parts() const;

  int64_t length() const { return length_; }  // positions appended so far
  float* key_recurrence() { return key_recurrence_.data(); }
  float* value_recurrence() { return value_recurrence_.data(); }
  int64_t bytes() const;

  // Appends the state to `out` / reads it back from the front of `in`; the same bits go on.
  // DATA_LOSS when malformed.
  void Serialize(std::string& out) const;
  absl::Status Deserialize(std::string_view& in);

 private:
  enum PartIndex { kInitial, kDilated, kWindow };
  struct Part {
    int64_t first = 0;  // index of the oldest entry kept
    std::vector<float> keys, values;
  };
  // Index of the first entry of a part that position `position` or a later one attends to.
  int64_t FirstReachable(PartIndex part, int64_t position) const;
  // Index after the last entry of a part once `length` positions were appended.
  int64_t EndIndex(PartIndex part, int64_t length) const;
  void Evict();

  LocalPattern pattern_;
  int64_t width_ = 0;  // heads * head_dim
  int64_t length_ = 0;
  std::array<Part, kernels::kMaxRanges> parts_;
  std::vector<float> key_recurrence_, value_recurrence_;
};

// All layers that run for a sequence: every layer for a session, the lower ones for memory ingest.
struct LocalState {
  LocalPattern pattern;
  std::vector<LayerState> layers;

  static LocalState Create(const ModelConfig& config, const LocalPattern& pattern, int layers);
  int64_t length() const { return layers.empty() ? 0 : layers.front().length(); }
  int64_t bytes() const;
  std::string Serialize() const;
  // FAILED_PRECONDITION naming both patterns when the bytes were made under another pattern;
  // DATA_LOSS when malformed.
  static absl::StatusOr<LocalState> Deserialize(const ModelConfig& config,
                                                const LocalPattern& pattern, int layers,
                                                std::string_view bytes);
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_LOCAL_STATE_H_
