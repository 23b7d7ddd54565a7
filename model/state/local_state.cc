#include "model/state/local_state.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "model/state/state_bytes.h"

namespace recollect::model {
namespace {

// The number is the version of the layout. "RLS1": one pattern everywhere, which follows. "RLS2":
// the context it is stretched to and the blocks it chooses, then patterns by layer and head, each
// list with its length before it.
constexpr uint32_t kMagicUniform = 0x31534c52;
constexpr uint32_t kMagicLists = 0x32534c52;

void PutPattern(std::string& out, const LocalPattern& pattern) {
  Put(out, pattern.window);
  Put(out, pattern.dilation);
  Put(out, pattern.initial);
  Put(out, pattern.span);
}

bool GetPattern(std::string_view& in, LocalPattern& pattern) {
  return Get(in, pattern.window) && Get(in, pattern.dilation) && Get(in, pattern.initial) &&
         Get(in, pattern.span);
}

void PutPatterns(std::string& out, const LocalPatterns& patterns) {
  const LocalPattern* everywhere = patterns.everywhere();
  if (everywhere != nullptr && patterns.context() == 0 && patterns.blocks().count == 0) {
    Put(out, kMagicUniform);
    PutPattern(out, *everywhere);
    return;
  }
  Put(out, kMagicLists);
  Put(out, patterns.context());
  Put(out, patterns.blocks().count);
  Put(out, patterns.blocks().block);
  Put(out, static_cast<uint32_t>(patterns.blocks().score));
  Put(out, static_cast<uint32_t>(patterns.layers().size()));
  for (const HeadPatterns& heads : patterns.layers()) {
    Put(out, static_cast<uint32_t>(heads.size()));
    for (const LocalPattern& pattern : heads) PutPattern(out, pattern);
  }
}

absl::StatusOr<LocalPatterns> GetPatterns(std::string_view& in) {
  const absl::Status malformed = absl::DataLossError("stored local state is malformed");
  uint32_t magic = 0, layers = 0, heads = 0;
  if (!Get(in, magic) || (magic != kMagicUniform && magic != kMagicLists)) {
    return absl::DataLossError("stored local state has no header, or that of another version");
  }
  if (magic == kMagicUniform) {
    LocalPattern pattern;
    return GetPattern(in, pattern) ? absl::StatusOr<LocalPatterns>(pattern) : malformed;
  }
  int64_t context = 0;
  BlockChoice blocks;
  uint32_t score = 0;
  // Counts are compared with what is there, so that damage cannot ask for memory.
  const bool head = Get(in, context) && Get(in, blocks.count) && Get(in, blocks.block) &&
                    Get(in, score) && Get(in, layers);
  if (!head || layers == 0 || layers > in.size()) return malformed;
  std::vector<HeadPatterns> patterns(layers);
  for (HeadPatterns& layer : patterns) {
    if (!Get(in, heads) || heads == 0 || heads > in.size()) return malformed;
    layer.resize(heads);
    for (LocalPattern& pattern : layer) {
      if (!GetPattern(in, pattern)) return malformed;
    }
  }
  blocks.score = static_cast<BlockScore>(score);
  return LocalPatterns(std::move(patterns)).WithContext(context).WithBlocks(blocks);
}

}  // namespace

LayerState::LayerState(const HeadPatterns& patterns, int heads, int head_dim,
                       const Options& options)
    : head_dim_(head_dim),
      rope_base_(options.rope_base),
      width_(static_cast<int64_t>(heads) * head_dim),
      key_recurrence_(static_cast<size_t>(options.recurrence ? width_ : 0)),
      value_recurrence_(key_recurrence_.size()) {
  if (options.choice.count > 0) {
    block_cache_.emplace(patterns, heads, head_dim, options.choice);
    return;
  }
  for (const HeadRun& run : RunsOfHeads(patterns, heads)) {
    caches_.emplace_back(run.pattern, run.first, run.heads, head_dim, options.kept);
  }
}

LayerState::LayerState(ResidualCache residual, int head_dim, double rope_base)
    : head_dim_(head_dim),
      rope_base_(rope_base),
      width_(static_cast<int64_t>(residual.heads()) * head_dim),
      residual_cache_(std::move(residual)) {}

void LayerState::Append(const float* keys, const float* values, int64_t rows, int64_t stride) {
  if (stride == 0) stride = width_;
  length_ += rows;
  if (block_cache_) block_cache_->Append(keys, values, rows, stride);
  for (LocalCache& cache : caches_) {
    const int64_t at = static_cast<int64_t>(cache.first_head()) * head_dim_;
    cache.Append(keys + at, values + at, rows, stride);
  }
}

bool LayerState::CanRewind(int64_t length) const {
  if (block_cache_ || residual_cache_ || !key_recurrence_.empty()) return false;
  return length >= 0 && length <= length_ &&
         std::ranges::all_of(caches_, [&](const auto& cache) { return cache.CanRewind(length); });
}

void LayerState::Rewind(int64_t length) {
  length_ = length;
  for (LocalCache& cache : caches_) cache.Rewind(length);
}

int64_t LayerState::bytes() const {
  int64_t total = static_cast<int64_t>((key_recurrence_.capacity() + value_recurrence_.capacity()) *
                                       sizeof(float));
  for (const LocalCache& cache : caches_) total += cache.bytes();
  if (block_cache_) total += block_cache_->bytes();
  if (residual_cache_) total += residual_cache_->bytes();
  return total;
}

// length, the two recurrence vectors, then the entries of each cache; or the residual cache.
void LayerState::Serialize(std::string& out) const {
  if (residual_cache_) return residual_cache_->Serialize(out);
  Put(out, length());
  PutFloats(out, key_recurrence_.data(), key_recurrence_.size());
  PutFloats(out, value_recurrence_.data(), value_recurrence_.size());
  for (const LocalCache& cache : caches_) cache.Serialize(out);
  if (block_cache_) block_cache_->Serialize(out);
}

absl::Status LayerState::Deserialize(std::string_view& in) {
  const absl::Status malformed = absl::DataLossError("stored local state is malformed");
  if (residual_cache_) return residual_cache_->Deserialize(in) ? absl::OkStatus() : malformed;
  const size_t width = key_recurrence_.size();
  int64_t length = 0;
  bool good = Get(in, length) && length >= 0 && GetFloats(in, key_recurrence_, width) &&
              GetFloats(in, value_recurrence_, width);
  for (LocalCache& cache : caches_) good = good && cache.Deserialize(length, in);
  if (block_cache_) good = good && block_cache_->Deserialize(length, in);
  length_ = length;
  return good ? absl::OkStatus() : malformed;
}

LocalState LocalState::Create(const ModelConfig& config, const LocalPatterns& pattern, int layers,
                              DType kept) {
  LocalState state;
  state.pattern = pattern;
  state.layers.reserve(static_cast<size_t>(layers));
  for (int i = 0; i < layers; ++i) {
    const MixerConfig& mixer = config.mixer(i);
    const double rope_base = config.RopeBase(pattern.context());
    if (mixer.kind == MixerKind::kRattention) {
      state.layers.emplace_back(ResidualCache(mixer.window, config.kv_heads, config.head_dim),
                                config.head_dim, rope_base);
      continue;
    }
    const bool gated = IsGated(mixer.kind);
    state.layers.emplace_back(
        pattern.layer(i), gated ? config.heads : config.kv_heads, config.head_dim,
        LayerState::Options{
            .rope_base = rope_base, .choice = pattern.blocks(), .recurrence = gated, .kept = kept});
  }
  return state;
}

int64_t LocalState::bytes() const {
  int64_t total = 0;
  for (const LayerState& layer : layers) total += layer.bytes();
  return total;
}

bool LocalState::Rewind(int64_t length) {
  if (!std::ranges::all_of(layers, [&](const auto& layer) { return layer.CanRewind(length); })) {
    return false;
  }
  for (LayerState& layer : layers) layer.Rewind(length);
  return true;
}

std::string LocalState::SerializeHead(const LocalPatterns& pattern, int layers) {
  std::string out;
  PutPatterns(out, pattern);
  Put(out, static_cast<uint32_t>(layers));
  return out;
}

std::string LocalState::Serialize() const {
  std::string out = SerializeHead(pattern, static_cast<int>(layers.size()));
  for (const LayerState& layer : layers) layer.Serialize(out);
  return out;
}

absl::StatusOr<LocalState> LocalState::DeserializeHead(const ModelConfig& config,
                                                       const LocalPatterns& pattern, int layers,
                                                       std::string_view& bytes, DType kept) {
  ASSIGN_OR_RETURN(const LocalPatterns stored, GetPatterns(bytes));
  uint32_t count = 0;
  if (!Get(bytes, count)) return absl::DataLossError("stored local state is malformed");
  if (!(stored == pattern)) {
    return absl::FailedPreconditionError(absl::StrCat("local state was made under the pattern ",
                                                      stored.Text(), ", asked to continue under ",
                                                      pattern.Text()));
  }
  if (count != static_cast<uint32_t>(layers)) {
    return absl::DataLossError(
        absl::StrCat("stored local state has ", count, " layers, expected ", layers));
  }
  return Create(config, pattern, layers, kept);
}

absl::Status LocalState::CheckLengths() const {
  for (const LayerState& layer : layers) {
    if (layer.length() == length()) continue;
    return absl::DataLossError(absl::StrCat("stored local state has layers of ", length(), " and ",
                                            layer.length(), " positions"));
  }
  return absl::OkStatus();
}

absl::StatusOr<LocalState> LocalState::Deserialize(const ModelConfig& config,
                                                   const LocalPatterns& pattern, int layers,
                                                   std::string_view bytes) {
  ASSIGN_OR_RETURN(LocalState state, DeserializeHead(config, pattern, layers, bytes));
  for (LayerState& layer : state.layers) RETURN_IF_ERROR(layer.Deserialize(bytes));
  RETURN_IF_ERROR(state.CheckLengths());
  if (!bytes.empty()) {
    return absl::DataLossError(
        absl::StrCat("stored local state has ", bytes.size(), " bytes too many"));
  }
  return state;
}

}  // namespace recollect::model
