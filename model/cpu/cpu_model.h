// A model (design section 2) whose layers run on the CPU, as pure functions of (weights, state,
// input). No retrieval policy, no sessions, no threads: the engine decides which rows run together,
// where chunks come from, and what runs in parallel.
//
// A family without landmarks goes Embed → RunLayer over all layers → Logits. The flagship, position
// by position: Embed → RunLayer over the lower layers → [chunk closed:
// EncodeChunk] → for each group: Query at the landmark → (engine: top-n, fetch, ProjectMemory) →
// RunLayer over the group → Logits.
//
// Every function is const and runs serially on the calling thread; any number of threads may call
// them, each with its own OpContext. Each row's result has the same bits whatever other rows are in
// the call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/bf16.h"
#include "kernels/cpu/op_context.h"
#include "kernels/gca/gca.h"
#include "model/chunk.h"
#include "model/model.h"
#include "model/reading.h"
#include "model/reranker.h"
#include "model/state/local_state.h"

namespace recollect::model {

class RerankerRun;
struct Weights;

// Consecutive rows of one sequence inside a batch. In a layer with GCA, all rows of a segment read
// the same memory. Adjacent segments may share a state, which they advance in order.
struct Segment {
  LayerState* state = nullptr;           // of this layer; read and advanced by `rows`
  int64_t rows = 0;                      // <= LayerState::kMaxAppend
  const Retrieved* retrieved = nullptr;  // null or empty: no memory (GCA is zero)

  bool reads_memory() const { return retrieved != nullptr && !retrieved->chunks.empty(); }
};

// Memory K and V of one chunk, each [rows, memory_kv_heads, head_dim]; with an adapter, one pair
// for each of its layers, [gca_layers, rows, memory_kv_heads, head_dim].
struct Memory {
  std::vector<Bf16> keys, values;
  std::vector<Bf16> pointer_keys = {};  // with an adapter: CopiedChunk::keys
  std::vector<Bf16> reader_rows = {};   // with a reader: ReaderBlock::rows
  int rows = 0;
  kernels::MemoryView view() const { return {keys.data(), values.data(), rows}; }
  int64_t bytes() const {
    return static_cast<int64_t>(
        (keys.size() + values.size() + pointer_keys.size() + reader_rows.size()) * sizeof(Bf16));
  }
};

// Immutable after Load; thread-safe.
class CpuModel final : public Model {
 public:
  // Does what Model::Load does, and packs the weights of the layers. FAILED_PRECONDITION: kBf16 on
  // a CPU without it. INVALID_ARGUMENT: kQuantized where no tensor of the files is in blocks.
  static absl::StatusOr<std::unique_ptr<CpuModel>> Load(const std::string& path,
                                                        DType dtype = DType::kFloat32);
  // The same without the base's weights: only ProjectMemory and the functions of an adapter may be
  // called. For a backend that runs the layers elsewhere. REQUIRES: the model has an adapter; bf16
  // or fp32.
  static absl::StatusOr<std::unique_ptr<CpuModel>> LoadAdapter(const std::string& path,
                                                               DType dtype);
  // The fastest number format for the model at `path` on this CPU: kQuantized where its tensors are
  // in blocks, else kBf16, or kFloat32 where the CPU has no bf16. Returns the errors of files that
  // Load returns.
  static absl::StatusOr<DType> FastestDType(const std::string& path);
  ~CpuModel() override;

  int64_t weight_bytes() const override;  // with the packed weights

  // Whether the threads of a team divide a product (kernels/cpu/op_team.h): quantised ones alone.
  bool shares_products() const { return dtype() == DType::kQuantized; }

  // Writes h[rows, d] = embedding of ids. REQUIRES: 0 <= id < vocab_size.
  void Embed(std::span<const int32_t> ids, float* h) const;

  // Runs decoder layer `layer` in place on h[rows, d], rows = sum over segments, in their order;
  // appends to the states.
  void RunLayer(kernels::OpContext& ctx, int layer, std::span<const Segment> segments,
                float* h) const;

  // The next three: REQUIRES config().landmarks().

  // Runs the chunk encoder (design 2.3) on the residuals h[1 + rows, d] after the last lower layer
  // of one block in the sequence's order: the landmark first, or last where config().landmark_at
  // says so; 1 <= rows <= config().chunk_tokens tokens. AddTokens follows.
  EncodedChunk EncodeChunk(kernels::OpContext& ctx, const float* h, int rows) const;

  // Writes the retrieval query u[d_r] of group `group` for one landmark row h[d].
  void Query(kernels::OpContext& ctx, int group, const float* h, float* u) const;

  // Projects memory K, V from stored chunk states [rows, state_width]; one fixed shape, so that the
  // bits are the same from any tier. Also with an adapter.
  Memory ProjectMemory(kernels::OpContext& ctx, std::span<const Bf16> states, int rows) const;

  // The next four: REQUIRES config().has_adapter(). `h` are residuals after the last lower layer.

  // Encodes one block of a document, of which h[rows, d] are the rows of its `tokens`, 1 to
  // chunk_tokens. `before`: the row before them; null: they begin a segment.
  EncodedChunk EncodeBlock(kernels::OpContext& ctx, const float* h, const float* before,
                           std::span<const int32_t> tokens) const;

  // Writes the query of the end of a prompt, u[query_width]: the dense query, scaled so that
  // kernels::LandmarkScores gives its part of the score; the weight of the word in each of the last
  // chunk_tokens rows, 0 for those that do not exist, scaled likewise; and the score of retrieving
  // nothing. h[rows, d] and `tokens` are the last 1 to chunk_tokens of the prompt.
  void RecallQuery(kernels::OpContext& ctx, const float* h, std::span<const int32_t> tokens,
                   float* u) const;

  // Writes q[d_p], the pointer query by which the row h[d] looks for a token to copy.
  void PointerQuery(kernels::OpContext& ctx, const float* h, float* q) const;

  // Mixes the tokens that the pointer head copies into a row of logits; h[d] is the row after the
  // last layer.
  void MixCopied(kernels::OpContext& ctx, const float* h, const float* q,
                 std::span<const CopiedChunk> chunks, float* logits) const;

  // The next three: REQUIRES a reader.

  // ProjectMemory for a chunk that only the reader reads: no keys and values, no pointer keys.
  Memory ProjectForReader(kernels::OpContext& ctx, std::span<const Bf16> states, int rows) const;

  // Returns ReaderQuestion::rows, of the last rows h[rows, d] of a prompt; `rows` >= 1.
  std::vector<Bf16> AskReader(kernels::OpContext& ctx, const float* h, int64_t rows) const;

  // Returns what the reader says of the tokens of a block of the question. MakeReading follows.
  std::vector<TokenScores> ReadBlock(kernels::OpContext& ctx, const ReaderQuestion& question,
                                     const ReaderBlock& block) const;

  // Returns what scores the lines of these texts (adapter_reranker.h), and borrows this model.
  // REQUIRES: a reranker, and at least one text.
  RerankerRun Rerank(std::span<const RerankerText> texts) const;

  // Writes logits[rows, vocab_size] of h[rows, d] after the last layer; in a model with a pointer,
  // kernels::MixPointed follows.
  void Logits(kernels::OpContext& ctx, const float* h, int64_t rows, float* logits) const;

 private:
  CpuModel();
  // ProjectMemory without an adapter, one pair K, V for the whole model, and with one.
  Memory ProjectSharedMemory(kernels::OpContext& ctx, std::span<const Bf16> states, int rows) const;
  Memory ProjectAdapterMemory(kernels::OpContext& ctx, std::span<const Bf16> states,
                              int rows) const;

  std::unique_ptr<const Weights> weights_;
};

}  // namespace recollect::model
