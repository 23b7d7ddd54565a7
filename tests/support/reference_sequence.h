// Runs a whole sequence through the model in one go, landmark after landmark on one thread: any
// cleverer schedule must give the same result.
//
//   ReferenceInput input{.pattern = model.config().local, .blocks = {{5, 6, 7}, {8}}};
//   ReferenceResult result = RunReference(model, input);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/pointer_mix/pointer_mix.h"
#include "model/cpu/cpu_model.h"

namespace recollect {

// The layout of one sequence by its config's rule: tokens and flushes in, blocks and positions out.
// A landmark at the end follows the token that fills its block; one at the start waits for the next
// token or a flush. A flush of an empty block does nothing. REQUIRES: landmarks.
class SequenceLayout {
 public:
  explicit SequenceLayout(const model::ModelConfig& config);
  void Add(const std::vector<int32_t>& tokens);
  void Flush();

  const std::vector<int32_t>& ids() const { return ids_; }  // landmarks included
  const std::vector<int32_t>& landmarks() const { return landmarks_; }
  const std::vector<std::vector<int32_t>>& blocks() const { return blocks_; }
  // For each token the position that predicts it; -1: the sequence begins with it.
  const std::vector<int64_t>& predictors() const { return predictors_; }

 private:
  bool BlockIsFull() const;
  void PlaceLandmark();
  void CloseBlock();

  const model::ModelConfig& config_;
  const bool at_start_;
  std::vector<int32_t> ids_, landmarks_;
  std::vector<std::vector<int32_t>> blocks_ = {{}};
  std::vector<int64_t> predictors_;
  int64_t predictor_ = -1;
};

// The functions of the model, with rows in RAM; those of the CPU unless said otherwise.
class ReferenceFunctions {
 public:
  // Memory of a chunk, and the owner of what it borrows.
  struct ChunkMemory {
    kernels::MemoryView view;
    std::shared_ptr<const void> owner;
  };
  virtual ~ReferenceFunctions() = default;
  // Runs decoder layers first .. first + count - 1 on the next rows of the one sequence, in place;
  // `rows_per_call` of them at a time.
  virtual void RunLayers(int first, int count, int64_t rows, int64_t rows_per_call,
                         const model::Retrieved* retrieved, float* h) = 0;
  virtual model::EncodedChunk EncodeChunk(const float* h, int rows) = 0;
  virtual void Query(int group, const float* h, float* u) = 0;
  virtual ChunkMemory ProjectMemory(const model::EncodedChunk& chunk) = 0;
  // Returns memory computed elsewhere, in RAM, in a form that RunLayers can read.
  virtual ChunkMemory TakeMemory(model::Memory memory);
  // The tokens that a row's pointer points to, for a model with a pointer. Logits takes as many
  // rows h[rows, d] as `pointed` has.
  using Pointed = std::vector<kernels::PointedToken>;
  virtual void Logits(const float* h, std::span<const Pointed> pointed, float* logits) = 0;
};

struct ReferenceInput {
  model::LocalPatterns pattern;
  // Tokens without the landmark, 1 to chunk_tokens each; the last block may have none. Where the
  // landmark stands at the end, the last block is open: it has no landmark yet.
  std::vector<std::vector<int32_t>> blocks;
  // Chunks of the mounted documents, in request order.
  std::vector<std::vector<model::EncodedChunk>> mounted = {};
  // Chunks that landmarks find in place of the sequence's own, which are encoded all the same.
  // Empty: the sequence's own.
  std::vector<model::EncodedChunk> own = {};
  // Computes the memory of a chunk. Null: as the model does.
  std::function<model::Memory(const model::EncodedChunk&)> project = nullptr;
  // Null: the CPU's.
  ReferenceFunctions* functions = nullptr;
  // The number of rows that RunLayer gets at a time, of those that read the same memory; results
  // must not depend on it.
  int64_t rows_per_call = kBlockRows;
};

struct ReferenceResult {
  std::vector<float> logits;  // [positions, vocab_size], landmark positions too
  // The chunks of all blocks with tokens and a landmark, the last one included.
  std::vector<model::EncodedChunk> chunks;
  // [group][landmark]: the candidates it selected, numbered as in docs/model-format.md.
  std::vector<std::vector<std::vector<kernels::ScoredCandidate>>> hits;
  model::LocalState state;  // of all layers; with functions of one's own, empty
};

ReferenceResult RunReference(const model::CpuModel& model, const ReferenceInput& input);

// Returns logits [ids, vocab_size] of a plain token sequence through all layers of a model without
// landmarks, `rows_per_call` rows at a time; results must not depend on it. The sequence continues
// from `state`, when given, and leaves its end there.
std::vector<float> RunTokens(const model::CpuModel& model, const model::LocalPatterns& pattern,
                             const std::vector<int32_t>& ids, int64_t rows_per_call = kBlockRows,
                             model::LocalState* state = nullptr);

// Ingests a document as memory: lower layers and encoder only, a chunk for each of its blocks.
std::vector<model::EncodedChunk> IngestReference(const model::CpuModel& model,
                                                 const std::vector<int32_t>& tokens);

// Returns a document's tokens cut by model::NextBlock.
std::vector<std::vector<int32_t>> DocumentBlocks(const model::Model& model,
                                                 std::span<const int32_t> tokens);

// Returns tokens cut into full blocks and a last shorter one.
std::vector<std::vector<int32_t>> FullBlocks(const std::vector<int32_t>& tokens,
                                             int block_tokens = kChunkTokens);

}  // namespace recollect
