#include "tests/support/reference_sequence.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "base/check.h"
#include "kernels/cpu/op_context.h"
#include "model/block_ends.h"
#include "model/lexicon.h"
#include "model/pointer.h"

namespace recollect {
namespace {

using kernels::ScoredCandidate;
using model::EncodedChunk;
using model::ModelConfig;

using ChunkMemory = ReferenceFunctions::ChunkMemory;

// What a landmark retrieved, for one group.
struct Hits {
  std::vector<ChunkMemory> memories;
  model::Retrieved retrieved;
  std::vector<model::PointerChunk> chunks;
};

class CpuFunctions final : public ReferenceFunctions {
 public:
  CpuFunctions(const model::CpuModel& model, model::LocalState& state)
      : model_(model), state_(state) {}
  void RunLayers(int first, int count, int64_t rows, int64_t rows_per_call,
                 const model::Retrieved* retrieved, float* h) override {
    for (int layer = first; layer < first + count; ++layer) {
      for (int64_t row = 0; row < rows; row += rows_per_call) {
        const model::Segment segment{.state = &state_.layers[layer],
                                     .rows = std::min(rows_per_call, rows - row),
                                     .retrieved = retrieved};
        model_.RunLayer(ctx_, layer, std::span(&segment, 1), h + row * model_.config().d);
      }
    }
  }
  EncodedChunk EncodeChunk(const float* h, int rows) override {
    return model_.EncodeChunk(ctx_, h, rows);
  }
  void Query(int group, const float* h, float* u) override { model_.Query(ctx_, group, h, u); }
  ChunkMemory ProjectMemory(const EncodedChunk& chunk) override {
    return TakeMemory(model_.ProjectMemory(ctx_, chunk.states, chunk.rows));
  }
  void Logits(const float* h, std::span<const Pointed> pointed, float* logits) override {
    const ModelConfig& config = model_.config();
    model_.Logits(ctx_, h, std::ssize(pointed), logits);
    if (model_.pointer() == nullptr) return;
    for (const Pointed& of_row : pointed) {
      kernels::MixPointed(ctx_, config.vocab_size, config.unk_id, of_row, logits);
      logits += config.vocab_size;
    }
  }

 private:
  const model::CpuModel& model_;
  model::LocalState& state_;
  kernels::OpContext ctx_;
};

class Runner {
 public:
  Runner(const model::CpuModel& model, const ReferenceInput& input)
      : model_(model),
        config_(model.config()),
        at_start_(config_.landmark_at == model::LandmarkAt::kStart),
        reads_own_(config_.landmark_reads == model::LandmarkReads::kOwn),
        rows_per_call_(input.rows_per_call),
        own_(input.own.empty() ? result_.chunks : input.own),
        project_(input.project),
        cpu_(model, result_.state),
        functions_(input.functions != nullptr ? *input.functions : cpu_) {
    for (const auto& document : input.mounted) {
      document_begins_.insert(candidates_.size());
      for (const EncodedChunk& chunk : document) candidates_.push_back(&chunk);
    }
    mounted_ = candidates_.size();
    result_.state = model::LocalState::Create(config_, input.pattern, config_.layers());
    result_.hits.resize(config_.groups.size());
    memory_.resize(config_.groups.size());
    // Candidates point into it.
    result_.chunks.reserve(input.blocks.size());
    LayOut(input.blocks);
  }

  // In runs of rows that read the same memory, of which at most one is a landmark.
  ReferenceResult Run() {
    size_t begin = 0;
    for (const size_t landmark : landmarks_) {
      const size_t end = reads_own_ ? landmark : landmark + 1;
      if (end > begin) RunRows(begin, end);
      begin = end;
    }
    if (ids_.size() > begin) RunRows(begin, ids_.size());
    return std::move(result_);
  }

 private:
  void LayOut(const std::vector<std::vector<int32_t>>& blocks) {
    const auto landmark = [&] {
      landmarks_.push_back(ids_.size());
      ids_.push_back(config_.lmk_id);
    };
    for (size_t block = 0; block < blocks.size(); ++block) {
      RECOLLECT_CHECK(static_cast<int>(blocks[block].size()) <= config_.chunk_tokens);
      if (at_start_) landmark();
      ids_.insert(ids_.end(), blocks[block].begin(), blocks[block].end());
      if (!at_start_ && block + 1 == blocks.size()) break;
      if (!at_start_) landmark();
      if (!blocks[block].empty()) block_ends_.push_back(ids_.size());
    }
  }

  void RunRows(size_t begin, size_t end) {
    const auto d = static_cast<size_t>(config_.d);
    std::vector<float> h((end - begin) * d);
    model_.Embed(std::span(ids_).subspan(begin, end - begin), h.data());
    RunLayers(0, config_.n_low, nullptr, h);
    lower_.insert(lower_.end(), h.begin(), h.end());
    EncodeBlocks(end);
    const bool landmark = ids_[reads_own_ ? begin : end - 1] == config_.lmk_id;
    for (size_t group = 0; group < memory_.size(); ++group) {
      std::shared_ptr<Hits> used = memory_[group];
      if (landmark) {
        memory_[group] = Retrieve(group, h.data() + (reads_own_ ? 0 : end - 1 - begin) * d);
        if (reads_own_) used = memory_[group];
      }
      RunLayers(config_.first_layer_of_group(static_cast<int>(group)), config_.groups[group].layers,
                used == nullptr ? nullptr : &used->retrieved, h);
    }
    std::vector<ReferenceFunctions::Pointed> pointed(end - begin);
    if (model_.pointer() != nullptr) {
      for (size_t row = begin; row < end; ++row) pointed[row - begin] = Point(row);
    }
    const size_t before = result_.logits.size();
    result_.logits.resize(before + (end - begin) * static_cast<size_t>(config_.vocab_size));
    functions_.Logits(h.data(), pointed, result_.logits.data() + before);
  }

  ReferenceFunctions::Pointed Point(size_t row) const {
    if (memory_.back() == nullptr) return {};
    return model_.pointer()->Point(TokensBetween(0, row + 1), memory_.back()->chunks);
  }

  // Those whose last row is before `rows`.
  void EncodeBlocks(size_t rows) {
    while (result_.chunks.size() < block_ends_.size() &&
           block_ends_[result_.chunks.size()] <= rows) {
      const size_t end = block_ends_[result_.chunks.size()];
      result_.chunks.push_back(
          functions_.EncodeChunk(lower_.data() + block_begin_ * static_cast<size_t>(config_.d),
                                 static_cast<int>(end - block_begin_) - 1));
      model_.AddTokens(TokensBetween(0, end), result_.chunks.back());
      block_begin_ = end;
    }
  }

  // Without landmarks.
  std::vector<int32_t> TokensBetween(size_t begin, size_t end) const {
    std::vector<int32_t> tokens;
    for (size_t i = begin; i < end; ++i) {
      if (ids_[i] != config_.lmk_id) tokens.push_back(ids_[i]);
    }
    return tokens;
  }

  // What docs/model-format.md says of all candidates: r'_e is the larger of r_e and r_{e-1} + b,
  // where e - 1 is of the same document or session.
  std::vector<ScoredCandidate> BestWithSuccessors(size_t group, std::span<const float> query,
                                                  std::span<const kernels::KeySegment> keys) {
    auto all = kernels::LandmarkTopK(ctx_, query, keys, static_cast<int>(keys.size()));
    std::vector<float> scores(all.size());
    for (const ScoredCandidate& scored : all) scores[scored.candidate] = scored.score;
    for (ScoredCandidate& scored : all) {
      const auto e = static_cast<size_t>(scored.candidate);
      const bool first = e == mounted_ || document_begins_.contains(e);
      if (first) continue;
      scored.score = std::max(scored.score, scores[e - 1] + model_.successor_biases()[group]);
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.score != b.score ? a.score > b.score : a.candidate < b.candidate;
    });
    all.resize(std::min(all.size(), static_cast<size_t>(config_.n_ret)));
    return all;
  }

  void RunLayers(int first, int count, const model::Retrieved* retrieved, std::vector<float>& h) {
    functions_.RunLayers(first, count, static_cast<int64_t>(h.size()) / config_.d, rows_per_call_,
                         retrieved, h.data());
  }

  // Of the group's next landmark, with residual `h`: over the mounted chunks and its own but for
  // the one it closes. The first landmark of a sequence that begins with it closes none and
  // retrieves nothing.
  std::shared_ptr<Hits> Retrieve(size_t group, const float* h) {
    auto hits = std::make_shared<Hits>();
    std::vector<ScoredCandidate> best;
    const size_t landmark = result_.hits[group].size();
    if (landmark > 0 || !at_start_) {
      candidates_.resize(mounted_);
      const size_t own = landmark - (at_start_ ? 1 : 0);
      for (size_t e = 0; e < own; ++e) candidates_.push_back(&own_[e]);
      std::vector<kernels::KeySegment> keys;
      for (const EncodedChunk* chunk : candidates_) keys.push_back({chunk->landmark_key.data(), 1});
      std::vector<float> query(static_cast<size_t>(config_.key_width()));
      functions_.Query(static_cast<int>(group), h, query.data());
      if (model_.lexicon() != nullptr) {
        model_.lexicon()->Query(static_cast<int>(group), TokensBetween(0, landmarks_[landmark]),
                                std::span(query).subspan(static_cast<size_t>(config_.d_r)));
      }
      best = config_.successors ? BestWithSuccessors(group, query, keys)
                                : kernels::LandmarkTopK(ctx_, query, keys, config_.n_ret);
    }
    float sum = 0;
    for (const ScoredCandidate& hit : best) {
      const EncodedChunk& chunk = *candidates_[hit.candidate];
      hits->memories.push_back(project_ ? functions_.TakeMemory(project_(chunk))
                                        : functions_.ProjectMemory(chunk));
      hits->retrieved.weights.push_back(std::exp(hit.score - best[0].score));
      sum += hits->retrieved.weights.back();
    }
    for (float& weight : hits->retrieved.weights) weight /= sum;
    for (size_t i = 0; i < best.size(); ++i) {
      const EncodedChunk& chunk = *candidates_[best[i].candidate];
      hits->chunks.push_back({chunk.tokens, chunk.rows, hits->retrieved.weights[i]});
    }
    for (const ChunkMemory& memory : hits->memories) {
      hits->retrieved.chunks.push_back(memory.view);
    }
    result_.hits[group].push_back(std::move(best));
    return hits;
  }

  const model::CpuModel& model_;
  const ModelConfig& config_;
  const bool at_start_, reads_own_;
  const int64_t rows_per_call_;
  kernels::OpContext ctx_;
  std::vector<int32_t> ids_;
  std::vector<size_t> landmarks_, block_ends_;  // rows; the latter one past, of blocks to encode
  size_t block_begin_ = 0;
  std::vector<float> lower_;  // [rows so far, d] after the last lower layer
  size_t mounted_ = 0;
  std::set<size_t> document_begins_;  // candidates that begin a mounted document
  std::vector<const EncodedChunk*> candidates_;
  std::vector<std::shared_ptr<Hits>> memory_;  // of the latest landmark, by group
  ReferenceResult result_;
  const std::vector<EncodedChunk>& own_;
  const std::function<model::Memory(const EncodedChunk&)>& project_;
  CpuFunctions cpu_;
  ReferenceFunctions& functions_;
};

}  // namespace

ChunkMemory ReferenceFunctions::TakeMemory(model::Memory memory) {
  auto owner = std::make_shared<const model::Memory>(std::move(memory));
  return {owner->view(), owner};
}

SequenceLayout::SequenceLayout(const ModelConfig& config)
    : config_(config), at_start_(config.landmark_at == model::LandmarkAt::kStart) {
  if (at_start_) PlaceLandmark();
}

void SequenceLayout::Add(const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens) {
    if (at_start_ && BlockIsFull()) CloseBlock();
    predictors_.push_back(predictor_);
    predictor_ = static_cast<int64_t>(ids_.size());
    ids_.push_back(token);
    blocks_.back().push_back(token);
    if (!at_start_ && BlockIsFull()) CloseBlock();
  }
}

void SequenceLayout::Flush() {
  if (!blocks_.back().empty()) CloseBlock();
}

bool SequenceLayout::BlockIsFull() const {
  return static_cast<int>(blocks_.back().size()) == config_.chunk_tokens;
}

void SequenceLayout::PlaceLandmark() {
  if (at_start_) predictor_ = static_cast<int64_t>(ids_.size());
  landmarks_.push_back(static_cast<int32_t>(ids_.size()));
  ids_.push_back(config_.lmk_id);
}

void SequenceLayout::CloseBlock() {
  PlaceLandmark();
  blocks_.emplace_back();
}

ReferenceResult RunReference(const model::CpuModel& model, const ReferenceInput& input) {
  return Runner(model, input).Run();
}

std::vector<float> RunTokens(const model::CpuModel& model, const model::LocalPatterns& pattern,
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

std::vector<EncodedChunk> IngestReference(const model::CpuModel& model,
                                          const std::vector<int32_t>& tokens) {
  const ModelConfig& config = model.config();
  kernels::OpContext ctx;
  model::LocalState state = model::LocalState::Create(config, config.local, config.n_low);
  std::vector<EncodedChunk> chunks;
  int64_t read = 0;
  for (std::vector<int32_t> ids : DocumentBlocks(model, tokens)) {
    const auto rows = static_cast<int>(ids.size());
    const bool at_start = config.landmark_at == model::LandmarkAt::kStart;
    ids.insert(at_start ? ids.begin() : ids.end(), config.lmk_id);
    std::vector<float> h(ids.size() * config.d);
    model.Embed(ids, h.data());
    for (int layer = 0; layer < config.n_low; ++layer) {
      // The block's last row on its own: a block of DRT as published has one more than a segment.
      const model::Segment segments[] = {{&state.layers[layer], rows, nullptr},
                                         {&state.layers[layer], 1, nullptr}};
      model.RunLayer(ctx, layer, segments, h.data());
    }
    chunks.push_back(model.EncodeChunk(ctx, h.data(), rows));
    read += rows;
    model.AddTokens(std::span(tokens).first(static_cast<size_t>(read)), chunks.back());
  }
  return chunks;
}

std::vector<std::vector<int32_t>> DocumentBlocks(const model::Model& model,
                                                 std::span<const int32_t> tokens) {
  std::vector<std::vector<int32_t>> blocks;
  while (const int64_t size = model::NextBlock(model, tokens, /*final=*/true)) {
    const auto block = tokens.first(static_cast<size_t>(size));
    blocks.emplace_back(block.begin(), block.end());
    tokens = tokens.subspan(block.size());
  }
  return blocks;
}

std::vector<std::vector<int32_t>> FullBlocks(const std::vector<int32_t>& tokens, int block_tokens) {
  const auto size = static_cast<size_t>(block_tokens);
  std::vector<std::vector<int32_t>> blocks;
  for (size_t i = 0; i < tokens.size(); i += size) {
    const size_t end = std::min(tokens.size(), i + size);
    blocks.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return blocks;
}

}  // namespace recollect
