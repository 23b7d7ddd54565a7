// A model (design section 2) as pure functions of (weights, state, input). No retrieval
// policy, no sessions, no threads: the engine decides which rows run together, where chunks come
// from, and what runs in parallel.
//
// A family without landmarks goes Embed → RunLayer over all layers → Logits. The flagship, position
// by position: Embed → RunLayer over the lower layers → [chunk closed:
// EncodeChunk] → for each group: Query at the landmark → (engine: top-n, fetch, ProjectMemory) →
// RunLayer over the group → Logits.
//
// Every function is const and runs serially on the calling thread; any number of threads may call
// them, each with its own OpContext. Each row's result has the same bits whatever other rows are in
// the call.
#ifndef RECOLLECT_MODEL_MODEL_H_
#define RECOLLECT_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bf16.h"
#include "base/types.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gca/gca.h"
#include "model/config/config.h"
#include "model/lexicon.h"
#include "model/pointer.h"
#include "model/state/local_state.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

struct LoadOptions {
  DType dtype = DType::kFloat32;  // number format of the products
  // Whether this CPU runs the layers. If not, their weights are not read and no function that
  // computes may be called; the model then describes what a device runs.
  bool computes = true;
};

// What GCA reads for the rows that follow one landmark: the selected chunks, best first, and their
// weights. Borrowed.
struct Retrieved {
  std::vector<kernels::MemoryView> chunks;
  std::vector<float> weights;  // softmax over the selected scores
};

// Consecutive rows of one sequence inside a batch. In a layer with GCA, all rows of a segment read
// the same memory. Adjacent segments may share a state, which they advance in order.
struct Segment {
  LayerState* state = nullptr;           // of this layer; read and advanced by `rows`
  int64_t rows = 0;                      // <= LayerState::kMaxAppend
  const Retrieved* retrieved = nullptr;  // null or empty: no memory (GCA is zero)

  bool reads_memory() const { return retrieved != nullptr && !retrieved->chunks.empty(); }
};

// Memory K and V of one chunk, each [rows, memory_kv_heads, head_dim].
struct Memory {
  std::vector<Bf16> keys, values;
  int rows = 0;
  kernels::MemoryView view() const { return {keys.data(), values.data(), rows}; }
  int64_t bytes() const {
    return static_cast<int64_t>((keys.size() + values.size()) * sizeof(Bf16));
  }
};

// A chunk in its stored form.
struct EncodedChunk {
  std::vector<Bf16> landmark_key;  // κ [d_r]; with its lexical part [d_k] (AddTokens)
  std::vector<Bf16> states;        // E [rows, d]
  std::vector<int32_t> tokens;     // for the pointer: PointerChunk::tokens (AddTokens)
  int rows = 0;
};

// INVALID_ARGUMENT, naming tokenizer.model, unless it has as many pieces as the config says and
// control symbols at its ids. REQUIRES: `config` is ParseConfig's.
absl::Status CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& config);

// Immutable after Load; thread-safe.
class Model {
 public:
  // Reads config.json, model.safetensors and, where present, tokenizer.model. All problems of the
  // files are reported in one INVALID_ARGUMENT: each missing, unexpected or misshapen tensor with
  // both shapes. FAILED_PRECONDITION: kBf16 on a CPU without it, where the CPU runs it.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& directory,
                                                     const LoadOptions& options);
  ~Model();

  const ModelConfig& config() const;
  const Tokenizer* tokenizer() const;  // null where the directory has none
  DType dtype() const;
  bool computes() const;
  int64_t parameters() const;  // the tied embedding counted once
  // Bytes of packed weights in RAM; if the CPU does not run the layers, those of the lexicon and
  // the pointer alone.
  int64_t weight_bytes() const;

  // Hex SHA-256 over weights, config, tokenizer, ingest pattern, record layout version and number
  // format: stored with every document; memory written under another one is refused.
  const std::string& fingerprint() const;

  // Optional parts of retrieval and of the head, also for a model that a device runs; null or empty
  // if the model has none.
  const Lexicon* lexicon() const;
  const Pointer* pointer() const;
  std::span<const float> successor_biases() const;  // by group

  // h[rows, d] = embedding of ids. REQUIRES: 0 <= id < vocab_size.
  void Embed(std::span<const int32_t> ids, float* h) const;

  // Runs decoder layer `layer` in place on h[rows, d], rows = sum over segments, in their order;
  // appends to the states.
  void RunLayer(kernels::OpContext& ctx, int layer, std::span<const Segment> segments,
                float* h) const;

  // The next three: REQUIRES config().landmarks().

  // Chunk encoder (design 2.3) on the residuals h[1 + rows, d] after the last lower layer of one
  // block in the sequence's order: the landmark first, or last where config().landmark_at says so;
  // 1 <= rows <= config().chunk_tokens tokens.
  EncodedChunk EncodeChunk(kernels::OpContext& ctx, const float* h, int rows) const;

  // Retrieval query u[d_r] of group `group` for one landmark row h[d].
  void Query(kernels::OpContext& ctx, int group, const float* h, float* u) const;

  // Adds to a chunk what depends on its token ids, in a model that uses them: the lexical part of
  // its landmark key, and its tokens. `tokens` ends with the chunk's own tokens; before them are
  // those that precede it in its document or session, as many as the pointer reaches or as there
  // are.
  void AddTokens(std::span<const int32_t> tokens, EncodedChunk& chunk) const;

  // Memory K, V from stored chunk states E[rows, d]; one fixed shape, so that the bits are the same
  // from any tier.
  Memory ProjectMemory(kernels::OpContext& ctx, std::span<const Bf16> states, int rows) const;

  // logits[rows, vocab_size] of h[rows, d] after the last layer; in a model with a pointer,
  // kernels::MixPointed follows.
  void Logits(kernels::OpContext& ctx, const float* h, int64_t rows, float* logits) const;

 private:
  Model();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_MODEL_H_
