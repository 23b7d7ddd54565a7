// The local state that a sequence carries from position to position in every layer: the recurrence
// vectors and the cached keys and values that the local patterns can still reach (design 2.2). With
// a finite span its size does not depend on the sequence's length; with an unbounded span it grows
// by one entry every D positions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "model/config/config.h"
#include "model/state/block_cache.h"
#include "model/state/local_cache.h"
#include "model/state/residual_cache.h"

namespace recollect::model {

// The state of one layer: the recurrence, which does not depend on the pattern, and a cache for
// each run of neighbouring key-value heads that share a pattern, or one cache of all positions if
// queries choose blocks; or RAttention's cache alone. Not thread-safe.
class LayerState {
 public:
  struct Options {
    double rope_base = 10000;  // of the angles by which keys are rotated
    BlockChoice choice = {};
    bool recurrence = true;        // whether the layer's mixer has one
    DType kept = DType::kFloat32;  // of the caches; kBf16: what is appended is rounded to bf16
  };
  // `patterns`: one for all heads, or one for each.
  LayerState(const HeadPatterns& patterns, int heads, int head_dim)
      : LayerState(patterns, heads, head_dim, Options()) {}
  LayerState(const HeadPatterns& patterns, int heads, int head_dim, const Options& options);
  LayerState(ResidualCache residual, int head_dim, double rope_base);

  // Appends `rows` positions following those already there. keys, values: [rows, heads, head_dim],
  // rows `stride` floats apart, dense when 0. Invalidates the caches' parts.
  void Append(const float* keys, const float* values, int64_t rows, int64_t stride = 0);

  // Whether the layer can forget the positions from `length` on: true if everything that a position
  // there reads is still kept unchanged. Always false with a recurrence, a sum over everything, or
  // chosen blocks.
  bool CanRewind(int64_t length) const;
  // REQUIRES: CanRewind(length). Invalidates the caches' parts.
  void Rewind(int64_t length);

  static constexpr int64_t kMaxAppend = 64;  // the most rows of one segment
  // The caches in the order of their heads, which together are all heads. Empty with a block cache.
  std::span<const LocalCache> caches() const { return caches_; }

  // Null unless queries choose blocks.
  const BlockCache* block_cache() const { return block_cache_ ? &*block_cache_ : nullptr; }

  // Null except in layers of RAttention, whose mixer appends to this cache and not to the state.
  ResidualCache* residual_cache() { return residual_cache_ ? &*residual_cache_ : nullptr; }
  const ResidualCache* residual_cache() const {
    return residual_cache_ ? &*residual_cache_ : nullptr;
  }

  double rope_base() const { return rope_base_; }
  int64_t length() const {  // positions appended so far
    return residual_cache_ ? residual_cache_->length() : length_;
  }
  // The recurrence vectors, [heads, head_dim] each; empty if the mixer has no recurrence.
  float* key_recurrence() { return key_recurrence_.data(); }
  float* value_recurrence() { return value_recurrence_.data(); }
  int64_t bytes() const;

  // Serialize appends the state to `out`; Deserialize reads it back from the front of `in`, and the
  // sequence continues with the same bits. DATA_LOSS when malformed.
  void Serialize(std::string& out) const;
  absl::Status Deserialize(std::string_view& in);

 private:
  int head_dim_ = 0;
  double rope_base_ = 0;
  int64_t width_ = 0;  // heads * head_dim
  int64_t length_ = 0;
  std::vector<LocalCache> caches_;
  std::optional<BlockCache> block_cache_;
  std::optional<ResidualCache> residual_cache_;
  std::vector<float> key_recurrence_, value_recurrence_;
};

// All layers that run for a sequence: every layer for a session, the lower layers for memory
// ingest.
struct LocalState {
  LocalPatterns pattern;
  std::vector<LayerState> layers;

  // `kept`: number format of the caches, kBf16 only where mixers round what they append
  // (Model::cache_dtype). It changes no number, and none of the bytes below.
  static LocalState Create(const ModelConfig& config, const LocalPatterns& pattern, int layers,
                           DType kept = DType::kFloat32);
  int64_t length() const { return layers.empty() ? 0 : layers.front().length(); }
  int64_t bytes() const;
  // Forgets the positions from `length` on in every layer; returns false and changes nothing if a
  // layer cannot (LayerState::CanRewind).
  bool Rewind(int64_t length);
  std::string Serialize() const;
  // FAILED_PRECONDITION, naming both patterns, when the bytes were written under another pattern;
  // DATA_LOSS when malformed.
  static absl::StatusOr<LocalState> Deserialize(const ModelConfig& config,
                                                const LocalPatterns& pattern, int layers,
                                                std::string_view bytes);

  // These serialize in sections, for states that should not be in memory twice: the head, which is
  // everything but the layers, then LayerState::Serialize of each layer. DeserializeHead makes a
  // state whose layers the caller deserializes in order; CheckLengths then returns DATA_LOSS unless
  // all have the same length.
  static std::string SerializeHead(const LocalPatterns& pattern, int layers);
  static absl::StatusOr<LocalState> DeserializeHead(const ModelConfig& config,
                                                    const LocalPatterns& pattern, int layers,
                                                    std::string_view& bytes,
                                                    DType kept = DType::kFloat32);
  absl::Status CheckLengths() const;
};

}  // namespace recollect::model
