// config.json of a model directory as a validated struct (docs/model-format.md). A family (design
// 2.6) is a choice of parts: parts(layer) says which parts a layer has, and all code that builds or
// runs a network asks it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/rope/rope.h"
#include "model/config/judge_config.h"
#include "model/config/pattern.h"
#include "model/config/reader_config.h"
#include "model/config/reranker_config.h"

namespace recollect::model {

enum class GcaResidual { kAdd, kBypass };
enum class GcaSoftmax { kOffByOne, kOrdinary };
// The place of a block's landmark, what the chunk encoder reads in its row, and whose hits the row
// reads: those that the landmark has just retrieved, or those of the landmark before it. DRT as
// published and the flagship differ in all three (docs/model-format.md).
enum class LandmarkAt { kStart, kEnd };
enum class LandmarkRow { kCls, kStream };
enum class LandmarkReads { kOwn, kPredecessor };
// The source of a mixer's positions; ALiBi is a bias on the scores of attention.
enum class Positions { kRope, kNone, kAlibi };
enum class FfnKind { kSwiGlu, kGelu, kGeGlu };

// The mixer of a layer, which mixes positions.
enum class MixerKind {
  kRatPlus,     // recurrence over the whole sequence, attention over a local pattern (design 2.2)
  kRat,         // recurrence inside chunks, attention over the ends of earlier ones
  kAttention,   // softmax attention over a window or everything before
  kRattention,  // kAttention over a window, and linear attention over everything before it
};

// Whether the mixer has the recurrence of keys and values, with an output gate.
constexpr bool IsGated(MixerKind kind) {
  return kind == MixerKind::kRatPlus || kind == MixerKind::kRat;
}

// An entry of "mixers". Fields that its kind does not have are not read.
struct MixerConfig {
  MixerKind kind = MixerKind::kRatPlus;
  Positions positions = Positions::kRope;  // kAlibi: attention of drt-paper alone
  // rat
  int64_t chunk = 0;     // L, positions of a chunk
  int shared_heads = 0;  // r; head h has shared q and k number h mod r
  // attention, rattention
  int64_t window = kUnboundedSpan;  // W earlier positions; unbounded: all; -1: not even its own
  bool qk_norm = false;             // per-head norm of placed q and k
  // rattention
  kernels::FeatureMap feature_map = kernels::FeatureMap::kSoftmax;
  int learned_tokens = 0;  // from which the linear branch starts
  bool qk_scale = false;   // learned scales of the linear branch's q and k
};

struct GroupConfig {
  int layers = 1;
  std::vector<int> gca_layers;  // counted within the group, ascending
};

// The lexical part of landmark keys and queries (model/lexicon.h).
struct LexiconConfig {
  int64_t d = 0;  // d_x, numbers of that part; 0: there is none
  int reach = 0;  // tokens before a landmark that its query reads
};

// The pointer head (model/pointer.h).
struct PointerConfig {
  int reach = 0;  // tokens before a place that it compares; 0: there is no pointer head
};

// The learned memory on a pretrained model, of which nothing else is changed (docs/llama.md,
// "Memory adapter"). Its tensors are in a file of their own (model/weights/adapter_weights.h).
struct AdapterConfig {
  // The number of a document's tokens that the lower layers read together, from position 0 on; 0:
  // there is no adapter. Blocks do not go beyond a segment's end.
  int64_t segment_tokens = 0;
  std::vector<int> gca_layers;  // among all layers, ascending
  int64_t encoder_ffn = 0;      // inner width of the encoder's FFN
  int64_t d_pointer = 0;        // d_p, numbers of a pointer key
  int32_t words = 0;            // of the vocabulary (model/text/words.h), each with two biases
  std::string base_sha256;      // hex, of the weights that it was trained on; empty: any
  // The shares of the dense and of the sparse part in a score, by which queries are multiplied
  // (docs/decisions/0071-words-weigh-more.md); training has 1 and 1.
  double dense_share = 1, sparse_share = 1;
  double spelling_share = 0;  // of the sparse part: what other spellings of words weigh
  JudgeConfig judge;          // of possible answers; needs the reader
  ReaderConfig reader;        // of blocks
  RerankerConfig reranker;    // of the sentences of passages
};

// The parts of one decoder layer.
struct LayerParts {
  MixerConfig mixer;
  bool gate_bias = true;  // added to the recurrence gate before its sigmoid
  FfnKind ffn = FfnKind::kSwiGlu;
  bool gca = false;
};

// A range of values that a request may ask for besides the default, both ends included.
struct AdaptedRange {
  int64_t low = 0, high = 0;
  friend bool operator==(const AdaptedRange&, const AdaptedRange&) = default;
};

// The top-k blocks that a request may ask for.
struct TopKConfig {
  int64_t block = 0;
  BlockScore score = BlockScore::kQuest;
  int64_t max = 0;  // the most a request may choose; 0: none
  BlockChoice With(int64_t count) const { return {count, block, score}; }
};

struct ModelConfig {
  static constexpr int32_t kNoLandmark = -1, kNoUnknown = -1;

  std::string architecture;  // "drt", "ratplus", "rat", "rat-swa", "rattention", "drt-paper",
                             // "llama"
  int64_t vocab_size = 0;
  bool tied_head = true;  // the head is the embedding's tensor
  // lmk_id is kNoLandmark in a family without landmarks, unk_id is kNoUnknown in one without that
  // token. Neither token is ever sampled or accepted.
  int32_t unk_id = 0, lmk_id = 1, eos_id = 2;
  std::vector<int32_t> more_eos_ids;  // at which generation ends as well: ends of a turn
  int64_t d = 0;
  int heads = 0;
  int head_dim = 0;
  int kv_heads = 0;  // of attention without recurrence; divides heads
  int64_t ffn = 0;
  FfnKind ffn_kind = FfnKind::kSwiGlu;
  bool gate_bias = true;
  std::vector<MixerConfig> mixers = {MixerConfig()};  // layer i has mixers[i mod size]
  int n_low = 0;                                      // all layers in a family without groups
  std::vector<GroupConfig> groups;                    // none without landmarks: nothing retrieves
  // Blocks of sessions and documents; not used where documents are prefixes.
  int chunk_tokens = kChunkTokens;  // S, tokens of a full block; at most kMaxChunkTokens
  // The fewest tokens of a document's block that ends with a sentence or a line; 0: all blocks of a
  // document but the last are full.
  int min_chunk_tokens = 0;
  bool text_documents = false;  // documents are kept as text; only without landmarks
  // Chunk encoder and memory; not used without landmarks.
  LandmarkAt landmark_at = LandmarkAt::kStart;
  LandmarkRow landmark_row = LandmarkRow::kCls;
  LandmarkReads landmark_reads = LandmarkReads::kOwn;
  int encoder_layers = 1;
  float encoder_norm_eps = 0;  // of the encoder's norms but the first; 0: norm_eps
  bool encoder_carry = false;  // the CLS row also takes the block's landmark row
  int n_ret = 8;
  int64_t d_r = 0;
  LexiconConfig lexicon;          // the lexical part of keys and queries
  PointerConfig pointer;          // copies tokens of retrieved chunks
  AdapterConfig adapter;          // a memory for a family without landmarks
  bool successors = false;        // a retrieved chunk gives some of its relevance to its successor
  bool score_projections = true;  // W_h and W_l; without them d_r = d
  int memory_kv_heads = 0;
  bool memory_key_recurrence = true;
  GcaResidual gca_residual = GcaResidual::kAdd;
  GcaSoftmax gca_softmax = GcaSoftmax::kOffByOne;
  bool recurrence = true;
  double rope_base = 10000.0;
  kernels::RopePairs rope_pairs = kernels::RopePairs::kHalves;
  std::vector<double> rope_divisors;  // [head_dim / 2], of the pairs' angles; empty: none
  float norm_eps = 1e-6f;
  float head_norm_eps = 0;  // of the norms by head; 0: there are none
  int64_t context = 0;      // positions of a training sequence; 0: unknown
  int64_t max_context = 0;  // up to which a request may stretch it; 0: no stretching
  LocalPatterns local;
  // Values that a request may ask for besides `local`, in every layer and head.
  std::vector<int64_t> adapted_dilations;
  std::optional<AdaptedRange> adapted_windows, adapted_initials;
  bool any_patterns = false;  // any window, initial positions and dilation: nothing was adapted
  TopKConfig top_k;

  // Whether sequences can forget their last positions and continue as if they had not run them:
  // true if the layers keep nothing but keys and values by position.
  bool rewinds() const;
  // Whether generation ends with this token.
  bool Ends(int32_t id) const;
  // Whether landmarks divide sequences into blocks. Only then are there chunk states, and layers
  // that retrieve them.
  bool landmarks() const { return lmk_id != kNoLandmark; }
  // Whether an adapter gives the model a memory. A sequence then has no blocks: it retrieves once,
  // at the end of a prompt, by the prompt's last tokens.
  bool has_adapter() const { return adapter.segment_tokens > 0; }
  // The form in which this model keeps documents.
  DocumentKind documents() const {
    if (landmarks() || has_adapter()) return DocumentKind::kChunks;
    return text_documents ? DocumentKind::kText : DocumentKind::kPrefix;
  }
  // Makes the model keep documents as text, in blocks of 32 to 63 tokens. REQUIRES: no landmarks.
  void KeepText();
  // The RoPE base of sequences of up to `stretched` positions (0: as trained) by the rule NTK: base
  // * s^(dh / (dh - 2)) with s = stretched / trained context, so that the slowest angle covers the
  // range it covered in training and the fastest is unchanged.
  double RopeBase(int64_t stretched) const;
  // The most positions of a sequence under `patterns`; 0: any number. A model that was not adapted
  // to patterns (any_patterns) is limited to the context of `patterns`, if it has one, or else to
  // the trained context where some head attends to everything; patterns that leave positions out
  // have no limit.
  int64_t PositionLimit(const LocalPatterns& patterns) const;
  LayerParts parts(int layer) const;
  const MixerConfig& mixer(int layer) const {
    return mixers[static_cast<size_t>(layer) % mixers.size()];
  }
  int layers() const;  // n_low + all group layers
  int64_t inner() const { return static_cast<int64_t>(heads) * head_dim; }
  int64_t kv_width() const { return static_cast<int64_t>(kv_heads) * head_dim; }
  // The most floats that one more position adds to the local state of all layers, under any
  // pattern.
  int64_t position_floats() const;
  // d_k, numbers of a landmark key. With an adapter: d_r, then the weight of the word in each row.
  int64_t key_width() const { return d_r + (has_adapter() ? chunk_tokens : lexicon.d); }
  // Numbers of a query: as many, and with an adapter one more, the score of retrieving nothing.
  int64_t query_width() const { return key_width() + (has_adapter() ? 1 : 0); }
  // Numbers of a row of chunk states: d, and with an adapter those of the row's pointer key after
  // them.
  int64_t state_width() const { return d + adapter.d_pointer; }
  int64_t memory_width() const { return static_cast<int64_t>(memory_kv_heads) * head_dim; }
  int first_layer_of_group(int group) const;  // index among all layers
  bool layer_has_gca(int layer) const;
};

// Parses and validates; INVALID_ARGUMENT lists every problem of the text at once, each with the key
// and both values. An unknown key is a problem, too.
absl::StatusOr<ModelConfig> ParseConfig(const std::string& json);

// INVALID_ARGUMENT naming the field when one of `patterns` is impossible (negative, span < window,
// a dilation that does not divide 64 where blocks matter …) or, for a request, not among what the
// checkpoint was adapted to.
absl::Status ValidatePatterns(const ModelConfig& config, const LocalPatterns& patterns);

}  // namespace recollect::model
