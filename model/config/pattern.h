// Local patterns: which earlier positions a token attends to, by layer and by head (design 2.2,
// hybrids of RAT+).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::model {

// The span of a pattern whose dilated positions are never dropped. It is a number, so that it
// compares and adds like others; positions stay far below it.
inline constexpr int64_t kUnboundedSpan = int64_t{1} << 40;
// A dilation that keeps no position beyond the window.
inline constexpr int64_t kNoDilation = -1;

// The positions that a token attends to in one head. A stored local state can be continued only
// under an equal pattern.
struct LocalPattern {
  int64_t window = 128;   // W: {t-W..t}
  int64_t dilation = 16;  // D: p with (p+1) mod D = 0 in [t-C, t-W); kNoDilation: none
  int64_t initial = 0;    // I: p < I
  int64_t span = 1024;    // C
  friend bool operator==(const LocalPattern&, const LocalPattern&) = default;
};

// How well a block of earlier keys suits a query q, channel by channel over the cached keys k.
enum class BlockScore {
  kQuest,  // Σ_i max(q_i min k_i, q_i max k_i): an upper bound for the block's keys
  kMoba,   // <q, mean k>
};
const char* BlockScoreName(BlockScore score);  // "quest", "moba"

// Top-k blocks: blocks that each query chooses for itself and whose positions it attends to besides
// its pattern's. They are its own block, which counts, and the earlier blocks with the best scores;
// of equal scores the lower index is preferred.
struct BlockChoice {
  int64_t count = 0;  // K; 0: none are chosen
  int64_t block = 0;  // positions of a block
  BlockScore score = BlockScore::kQuest;
  friend bool operator==(const BlockChoice&, const BlockChoice&) = default;
};

// The values of one number of a hybrid pattern: an entry for each layer, with one number for all
// heads or one for each head.
using LayerNumbers = std::vector<std::vector<int64_t>>;

// The patterns of one layer: one for all heads, or one for each head.
using HeadPatterns = std::vector<LocalPattern>;

// Neighbouring heads that share a pattern.
struct HeadRun {
  LocalPattern pattern;
  int first = 0, heads = 0;
};
// Divides all heads of a layer, in order, into as few runs as possible.
std::vector<HeadRun> RunsOfHeads(const HeadPatterns& patterns, int heads);

// The patterns of all layers, the context to which they are stretched, and the top-k blocks. The
// representation is the shortest possible: layers that are all alike, or heads of a layer that are,
// have a single entry, so that equal choices are equal values.
class LocalPatterns {
 public:
  LocalPatterns() : LocalPatterns(LocalPattern{}) {}
  // Uses one pattern everywhere. Implicit, since most models and requests have one.
  LocalPatterns(const LocalPattern& everywhere) : layers_{{everywhere}} {}  // NOLINT
  // Takes an entry for each layer. REQUIRES: neither `layers` nor any entry is empty.
  explicit LocalPatterns(std::vector<HeadPatterns> layers);

  const HeadPatterns& layer(int index) const {
    return layers_.size() == 1 ? layers_[0] : layers_[static_cast<size_t>(index)];
  }
  // The entries: a single one for all layers, or one for each.
  const std::vector<HeadPatterns>& layers() const { return layers_; }
  // Returns the pattern of every layer and head; null when they differ.
  const LocalPattern* everywhere() const {
    return layers_.size() == 1 && layers_[0].size() == 1 ? &layers_[0][0] : nullptr;
  }
  // The number of positions for which RoPE is stretched beyond the trained context (rule NTK,
  // ModelConfig::RopeBase); 0: as trained.
  int64_t context() const { return context_; }
  LocalPatterns WithContext(int64_t context) const;
  // The top-k blocks in every layer and head. A state with a choice keeps every position.
  const BlockChoice& blocks() const { return blocks_; }
  LocalPatterns WithBlocks(const BlockChoice& blocks) const;
  // Returns a copy with one number replaced in every layer and head.
  LocalPatterns With(int64_t LocalPattern::*field, int64_t value) const;
  // Returns a copy with one number replaced by layer and head. REQUIRES: an entry for each of the
  // model's layers, each of one number or as many as the model has heads.
  LocalPatterns With(int64_t LocalPattern::*field, const LayerNumbers& values) const;

  // Returns "(window 128, dilation 16, initial 0, span 1024)"; by layer and head if patterns
  // differ.
  std::string Text() const;

  friend bool operator==(const LocalPatterns&, const LocalPatterns&) = default;

 private:
  std::vector<HeadPatterns> layers_;
  int64_t context_ = 0;
  BlockChoice blocks_;
};

// The number of positions that `position` attends to under the pattern, in closed form: a token's
// cost in attention and in reads of its state.
int64_t AttendedCount(const LocalPattern& pattern, int64_t position);

// The problems that make a pattern impossible for any checkpoint, each starting with the name of
// the field; empty when the pattern is possible. With `blocks` the dilation must divide a block, so
// that the attended positions do not depend on the landmark's place in the block.
std::vector<std::string> PatternProblems(const LocalPattern& pattern, bool blocks);

}  // namespace recollect::model
