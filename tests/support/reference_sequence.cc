#include "tests/support/reference_sequence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/op_context.h"

namespace recollect {
namespace {

using kernels::ScoredCandidate;
using model::EncodedChunk;
using model::ModelConfig;

class Runner {
 public:
  Runner(const model::Model& model, const ReferenceInput& input)
      : model_(model), config_(model.config()), input_(input) {
    for (const auto& document : input.mounted) {
      for (const EncodedChunk& chunk : document) candidates_.push_back(&chunk);
    }
    mounted_ = candidates_.size();
    result_.state = model::LocalState::Create(config_, input.pattern, config_.layers());
    result_.hits.resize(config_.groups.size());
    // Candidates point into it.
    result_.chunks.reserve(input.blocks.size());
  }

  ReferenceResult Run() {
    for (size_t block = 0; block < input_.blocks.size(); ++block) RunBlock(block);
    return std::move(result_);
  }

 private:
  void RunBlock(size_t block) {
    std::vector<int32_t> ids = {config_.lmk_id};
    ids.insert(ids.end(), input_.blocks[block].begin(), input_.blocks[block].end());
    RECOLLECT_CHECK(static_cast<int>(ids.size()) <= kBlockRows);
    std::vector<float> h(ids.size() * config_.d);
    model_.Embed(ids, h.data());
    for (int layer = 0; layer < config_.n_low; ++layer) RunLayer(layer, nullptr, h);
    const std::vector<float> lower = h;
    for (int group = 0; group < static_cast<int>(config_.groups.size()); ++group) {
      Retrieve(group, block, h.data());
      const int first = config_.first_layer_of_group(group);
      for (int i = 0; i < config_.groups[group].layers; ++i) RunLayer(first + i, &retrieved_, h);
    }
    const size_t before = result_.logits.size();
    result_.logits.resize(before + ids.size() * config_.vocab_size);
    model_.Logits(ctx_, h.data(), static_cast<int64_t>(ids.size()), result_.logits.data() + before);
    if (ids.size() > 1) {
      result_.chunks.push_back(
          model_.EncodeChunk(ctx_, lower.data(), static_cast<int>(ids.size()) - 1));
    }
  }

  void RunLayer(int layer, const model::Retrieved* retrieved, std::vector<float>& h) {
    const int64_t rows = static_cast<int64_t>(h.size()) / config_.d;
    for (int64_t row = 0; row < rows; row += input_.rows_per_call) {
      const model::Segment segment{.state = &result_.state.layers[layer],
                                   .rows = std::min(input_.rows_per_call, rows - row),
                                   .retrieved = retrieved};
      model_.RunLayer(ctx_, layer, std::span(&segment, 1), h.data() + row * config_.d);
    }
  }

  // Fills retrieved_ for the block; `h` is the residual at its landmark.
  void Retrieve(int group, size_t block, const float* h) {
    retrieved_ = {};
    memories_.clear();
    std::vector<ScoredCandidate> best;
    if (block >= 1) {
      candidates_.resize(mounted_);
      for (size_t own = 0; own + 1 < block; ++own) candidates_.push_back(&result_.chunks[own]);
      std::vector<kernels::KeySegment> keys;
      for (const EncodedChunk* chunk : candidates_) keys.push_back({chunk->landmark_key.data(), 1});
      std::vector<float> query(static_cast<size_t>(config_.d_r));
      model_.Query(ctx_, group, h, query.data());
      best = kernels::LandmarkTopK(ctx_, query, keys, config_.n_ret);
    }
    float sum = 0;
    for (const ScoredCandidate& hit : best) {
      const EncodedChunk& chunk = *candidates_[hit.candidate];
      memories_.push_back(model_.ProjectMemory(ctx_, chunk.states, chunk.rows));
      retrieved_.weights.push_back(std::exp(hit.score - best[0].score));
      sum += retrieved_.weights.back();
    }
    for (float& weight : retrieved_.weights) weight /= sum;
    for (const model::Memory& memory : memories_) retrieved_.chunks.push_back(memory.view());
    result_.hits[group].push_back(std::move(best));
  }

  const model::Model& model_;
  const ModelConfig& config_;
  const ReferenceInput& input_;
  kernels::OpContext ctx_;
  size_t mounted_ = 0;
  std::vector<const EncodedChunk*> candidates_;
  std::vector<model::Memory> memories_;
  model::Retrieved retrieved_;
  ReferenceResult result_;
};

}  // namespace

ReferenceResult RunReference(const model::Model& model, const ReferenceInput& input) {
  return Runner(model, input).Run();
}

std::vector<float> RunTokens(const model::Model& model, const model::LocalPatterns& pattern,
                             const std::vector<int32_t>& ids, int64_t rows_per_call,
                             model::LocalState* state) {
  const ModelConfig& config = model.config();
  kernels::OpContext ctx;
  model::LocalState own;
  if (state == nullptr) {
    own = model::LocalState::Create(config, pattern, config.layers());
    state = &own;
  }
  std::vector<float> logits(ids.size() * config.vocab_size);
  std::vector<float> h(static_cast<size_t>(rows_per_call * config.d));
  for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(rows_per_call)) {
    const int64_t rows = std::min<int64_t>(rows_per_call, static_cast<int64_t>(ids.size() - at));
    model.Embed(std::span(ids).subspan(at, static_cast<size_t>(rows)), h.data());
    for (int layer = 0; layer < config.layers(); ++layer) {
      const model::Segment segment{.state = &state->layers[layer], .rows = rows};
      model.RunLayer(ctx, layer, std::span(&segment, 1), h.data());
    }
    model.Logits(ctx, h.data(), rows, logits.data() + at * config.vocab_size);
  }
  return logits;
}

std::vector<EncodedChunk> IngestReference(const model::Model& model,
                                          const std::vector<int32_t>& tokens) {
  const ModelConfig& config = model.config();
  kernels::OpContext ctx;
  model::LocalState state = model::LocalState::Create(config, config.local, config.n_low);
  std::vector<EncodedChunk> chunks;
  for (const std::vector<int32_t>& block : FullBlocks(tokens)) {
    std::vector<int32_t> ids = {config.lmk_id};
    ids.insert(ids.end(), block.begin(), block.end());
    std::vector<float> h(ids.size() * config.d);
    model.Embed(ids, h.data());
    for (int layer = 0; layer < config.n_low; ++layer) {
      const model::Segment segment{.state = &state.layers[layer],
                                   .rows = static_cast<int64_t>(ids.size())};
      model.RunLayer(ctx, layer, std::span(&segment, 1), h.data());
    }
    chunks.push_back(model.EncodeChunk(ctx, h.data(), static_cast<int>(block.size())));
  }
  return chunks;
}

std::vector<std::vector<int32_t>> FullBlocks(const std::vector<int32_t>& tokens) {
  std::vector<std::vector<int32_t>> blocks;
  for (size_t i = 0; i < tokens.size(); i += kChunkTokens) {
    const size_t end = std::min(tokens.size(), i + kChunkTokens);
    blocks.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return blocks;
}

}  // namespace recollect
