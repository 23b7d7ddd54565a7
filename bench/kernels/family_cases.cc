#include "bench/kernels/family_cases.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "kernels/block_topk/block_topk.h"
#include "kernels/linear_attention/linear_attention.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

template <typename... Counts>
double FloatBytes(Counts... counts) {
  return sizeof(float) * (static_cast<double>(counts) + ...);
}

std::vector<float> BoundsOf(const Pattern<float>& keys, const BlockBoundsSizes& sizes,
                            int64_t block, bool high) {
  const int64_t size = sizes.block * sizes.width;
  std::vector<float> bounds;
  for (int64_t i = 0; i < sizes.width; ++i) {
    float bound = keys[block * size + i];
    double sum = 0;
    for (int64_t key = 0; key < sizes.block; ++key) {
      const float number = keys[block * size + key * sizes.width + i];
      bound = high ? std::max(bound, number) : std::min(bound, number);
      sum += number;
    }
    bounds.push_back(sizes.mean ? static_cast<float>(sum / static_cast<double>(sizes.block))
                                : bound);
  }
  return bounds;
}

// What (row, head) attends to must be whole blocks, ascending, the last of them its own, and the
// others of the best scores. Not which ones: scores may be as good as equal.
absl::Status CheckChoice(const BlockTopKSizes& sizes, const std::vector<int32_t>& entries,
                         const std::vector<float>& scores, const std::string& what) {
  const int64_t own = sizes.max_position / sizes.block;
  std::vector<int64_t> blocks;
  for (int64_t i = 0; i < std::ssize(entries); ++i) {
    const int64_t within = i % sizes.block;
    if (within == 0) blocks.push_back(entries[i] / sizes.block);
    if (entries[i] == blocks.back() * sizes.block + within) continue;
    return absl::InternalError(
        absl::StrCat("WRONG ANSWER, ", what, ", entry ", i, ": ", entries[i]));
  }
  const int64_t expected =
      std::min(sizes.count - 1, own) * sizes.block + sizes.max_position % sizes.block + 1;
  if (std::ssize(entries) != expected || blocks.back() != own ||
      std::adjacent_find(blocks.begin(), blocks.end(), std::greater_equal<>()) != blocks.end()) {
    return absl::InternalError(absl::StrCat("WRONG ANSWER, ", what, ": ", entries.size(),
                                            " entries, expected ", expected));
  }
  blocks.pop_back();
  std::vector<float> chosen, best = scores;
  for (const int64_t block : blocks) chosen.push_back(scores.at(block));
  std::sort(chosen.begin(), chosen.end(), std::greater<>());
  std::sort(best.begin(), best.end(), std::greater<>());
  best.resize(chosen.size());
  return ExpectClose(chosen, best, 100, what);
}

}  // namespace

absl::StatusOr<DeviceCase> BlockBoundsCase(Device& device, const BlockBoundsSizes& sizes) {
  const int64_t numbers = sizes.blocks * sizes.block * sizes.width;
  const int64_t bounds = sizes.blocks * sizes.width;
  const auto memory = std::make_shared<CaseMemory>(device);
  const auto pattern = std::make_shared<const Pattern<float>>(1);
  ASSIGN_OR_RETURN(const float* const keys, memory->Place(*pattern, numbers));
  ASSIGN_OR_RETURN(float* const low, memory->Allocate<float>(bounds));
  float* high = low;
  if (!sizes.mean) {
    ASSIGN_OR_RETURN(high, memory->Allocate<float>(bounds));
  }
  std::vector<KeyBlock> blocks;
  for (int64_t b = 0; b < sizes.blocks; ++b) {
    blocks.push_back(
        {keys + b * sizes.block * sizes.width, low + b * sizes.width, high + b * sizes.width});
  }
  RETURN_IF_ERROR(CheckBlockBounds(sizes));
  RETURN_IF_ERROR(CheckKeyBlocks(sizes, blocks));
  ASSIGN_OR_RETURN(const KeyBlock* const device_blocks, memory->Place(blocks));
  DeviceCase made;
  made.operations = [=](DeviceOperations& operations) {
    return operations.BlockBounds(sizes, device_blocks);
  };
  made.check = [=]() -> absl::Status {
    for (const int64_t block : {int64_t{0}, sizes.blocks - 1}) {
      for (const bool of_high : {false, true}) {
        ASSIGN_OR_RETURN(const std::vector<float> actual,
                         memory->Read((of_high ? high : low) + block * sizes.width, sizes.width));
        RETURN_IF_ERROR(ExpectClose(actual, BoundsOf(*pattern, sizes, block, of_high), 10,
                                    absl::StrCat("block ", block)));
      }
    }
    return absl::OkStatus();
  };
  made.bytes = FloatBytes(numbers, bounds, sizes.mean ? 0 : bounds);
  return made;
}

absl::StatusOr<DeviceCase> BlockTopKCase(Device& device, BlockTopKSizes sizes, bool shared) {
  const BlockPattern pattern;  // blocks alone
  sizes.max_entries = MostBlockEntries(sizes, pattern, sizes.max_position);
  const int64_t dim = sizes.head_dim, width = sizes.heads * dim,
                sequences = shared ? 1 : sizes.rows;
  const int64_t blocks = sizes.max_position / sizes.block, bounds = blocks * width;
  const auto memory = std::make_shared<CaseMemory>(device);
  const auto q_numbers = std::make_shared<const Pattern<float>>(1),
             low_numbers = std::make_shared<const Pattern<float>>(2),
             high_numbers = std::make_shared<const Pattern<float>>(3);
  ASSIGN_OR_RETURN(const float* const low, memory->Place(*low_numbers, sequences * bounds));
  ASSIGN_OR_RETURN(const float* const high, memory->Place(*high_numbers, sequences * bounds));
  std::vector<BlockTopKRow> rows;
  for (int64_t r = 0; r < sizes.rows; ++r) {
    const int64_t at = shared ? 0 : r * bounds;
    rows.push_back({low + at, high + at, sizes.max_position});
  }
  ASSIGN_OR_RETURN(const BlockTopKPlan plan, PlanBlockTopK(sizes, device.multiprocessors()));
  RETURN_IF_ERROR(CheckBlockTopK(plan, rows, {&pattern, 1}));
  const int64_t lists = sizes.rows * sizes.heads;
  BlockTopKDeviceArrays arrays;
  ASSIGN_OR_RETURN(arrays.q, memory->Place(*q_numbers, sizes.rows * width));
  arrays.q_stride = width;
  ASSIGN_OR_RETURN(arrays.rows, memory->Place(rows));
  ASSIGN_OR_RETURN(arrays.patterns, memory->Place(std::vector<BlockPattern>{pattern}));
  ASSIGN_OR_RETURN(arrays.workspace, memory->Allocate<std::byte>(plan.workspace_bytes));
  ASSIGN_OR_RETURN(arrays.entries, memory->Allocate<int32_t>(lists * sizes.max_entries));
  ASSIGN_OR_RETURN(arrays.counts, memory->Allocate<int32_t>(lists));
  DeviceCase made;
  made.operations = [=](DeviceOperations& operations) {
    return operations.BlockTopK(plan, arrays);
  };
  made.check = [=]() -> absl::Status {
    for (const int64_t list : {int64_t{0}, lists - 1}) {
      const int64_t row = list / sizes.heads, channel = list % sizes.heads * dim;
      const int64_t at = (shared ? 0 : row * bounds) + channel;
      const std::vector<float> q = q_numbers->Floats(row * width + channel, dim);
      std::vector<float> scores(blocks);
      OpContext reference(Isa::kScalar);
      for (int64_t b = 0; b < blocks; ++b) {
        BlockScores(reference, q.data(), dim, low_numbers->Floats(at + b * width, dim).data(),
                    high_numbers->Floats(at + b * width, dim).data(), dim, 1, &scores[b]);
      }
      ASSIGN_OR_RETURN(const std::vector<int32_t> count, memory->Read(arrays.counts + list, 1));
      ASSIGN_OR_RETURN(const std::vector<int32_t> entries,
                       memory->Read(arrays.entries + list * sizes.max_entries,
                                    std::clamp<int64_t>(count[0], 1, sizes.max_entries)));
      RETURN_IF_ERROR(CheckChoice(sizes, entries, scores,
                                  absl::StrCat("row ", row, ", head ", list % sizes.heads)));
    }
    return absl::OkStatus();
  };
  made.bytes = FloatBytes(2 * sequences * bounds, sizes.rows * width, lists * sizes.max_entries);
  // Two products, the greater, a sum.
  made.flops = 4.0 * static_cast<double>(sizes.rows * bounds);
  return made;
}

absl::StatusOr<DeviceCase> FeaturesCase(Device& device, FeatureMap map, int64_t rows, int heads,
                                        int head_dim) {
  const int64_t width = int64_t{heads} * head_dim;
  const RowSizes sizes = {.rows = rows, .width = head_dim, .heads = heads};
  const auto memory = std::make_shared<CaseMemory>(device);
  const auto x_numbers = std::make_shared<const Pattern<float>>(1),
             scale_numbers = std::make_shared<const Pattern<float>>(2);
  RETURN_IF_ERROR(CheckFeatures(sizes));
  ASSIGN_OR_RETURN(const float* const x, memory->Place(*x_numbers, rows * width));
  ASSIGN_OR_RETURN(const float* const scale, memory->Place(*scale_numbers, head_dim));
  ASSIGN_OR_RETURN(float* const features, memory->Allocate<float>(rows * 2 * width));
  DeviceCase made;
  made.operations = [=](DeviceOperations& operations) {
    return operations.Features(map, sizes, x, scale, features);
  };
  made.check = [=]() -> absl::Status {
    const std::vector<float> scales = scale_numbers->Floats(0, head_dim);
    for (const int64_t row : {int64_t{0}, rows - 1}) {
      std::vector<float> expected(2 * width);
      OpContext reference(Isa::kScalar);
      Features(reference, map, x_numbers->Floats(row * width, width).data(), width, 1, heads,
               head_dim, scales.data(), expected.data());
      ASSIGN_OR_RETURN(const std::vector<float> actual,
                       memory->Read(features + row * 2 * width, 2 * width));
      RETURN_IF_ERROR(ExpectClose(actual, expected, 10, absl::StrCat("row ", row)));
    }
    return absl::OkStatus();
  };
  made.bytes = FloatBytes(3 * rows * width);
  return made;
}

namespace {

// Segments of as many rows, one behind the other.
class LinearRows {
 public:
  LinearRows(Device& device, const LinearAttentionSizes& sizes, int64_t rows)
      : sizes_(sizes),
        rows_(rows),
        dim_(sizes.shape.head_dim),
        heads_(sizes.shape.heads),
        kv_heads_(sizes.shape.kv_heads),
        memory_(device) {}

  absl::Status Place();
  absl::Status Run(DeviceOperations& operations) const {
    return operations.LinearAttention(plan_, arrays_);
  }
  absl::Status Reset() { return memory_.Fill(state_numbers_, StateNumbers(), state_); }
  absl::Status Check() const;
  double Bytes() const {
    const int64_t all = sizes_.segments * rows_;
    return FloatBytes(2 * StateNumbers(), heads_ * 2 * dim_ * dim_, all * heads_ * 3 * dim_,
                      all * kv_heads_ * 3 * dim_);
  }

 private:
  int64_t StateNumbers() const { return sizes_.segments * kv_heads_ * 2 * dim_ * dim_; }
  absl::Status CheckHead(int64_t segment, int64_t head) const;

  const LinearAttentionSizes sizes_;
  const int64_t rows_, dim_, heads_, kv_heads_;
  const Pattern<float> q_numbers_{1}, key_numbers_{2}, value_numbers_{3}, state_numbers_{4},
      initial_numbers_{5};
  CaseMemory memory_;
  float* state_ = nullptr;
  float* out_ = nullptr;
  LinearAttentionPlan plan_;
  LinearAttentionDeviceArrays arrays_;
};

absl::Status LinearRows::Place() {
  const int64_t all = sizes_.segments * rows_, size = 2 * dim_ * dim_;
  ASSIGN_OR_RETURN(const float* const q, memory_.Place(q_numbers_, all * heads_ * 2 * dim_));
  ASSIGN_OR_RETURN(const float* const keys,
                   memory_.Place(key_numbers_, all * kv_heads_ * 2 * dim_));
  ASSIGN_OR_RETURN(const float* const values,
                   memory_.Place(value_numbers_, all * kv_heads_ * dim_));
  ASSIGN_OR_RETURN(state_, memory_.Place(state_numbers_, StateNumbers()));
  ASSIGN_OR_RETURN(out_, memory_.Allocate<float>(all * heads_ * dim_));
  std::vector<LinearAttentionSegment> segments;
  for (int64_t s = 0; s < sizes_.segments; ++s) {
    const int64_t row = s * rows_;
    segments.push_back({.q = q + row * heads_ * 2 * dim_,
                        .keys = keys + row * kv_heads_ * 2 * dim_,
                        .values = values + row * kv_heads_ * dim_,
                        .state = state_ + s * kv_heads_ * size,
                        .out = out_ + row * heads_ * dim_,
                        .rows = rows_,
                        .entering = rows_});
  }
  ASSIGN_OR_RETURN(plan_, PlanLinearAttention(sizes_));
  RETURN_IF_ERROR(CheckLinearAttention(plan_, segments));
  ASSIGN_OR_RETURN(arrays_.segments, memory_.Place(segments));
  arrays_.segment_count = sizes_.segments;
  ASSIGN_OR_RETURN(arrays_.initial, memory_.Place(initial_numbers_, heads_ * size));
  return absl::OkStatus();
}

absl::Status LinearRows::Check() const {
  RETURN_IF_ERROR(CheckHead(0, 0));
  return CheckHead(sizes_.segments - 1, heads_ - 1);
}

absl::Status LinearRows::CheckHead(int64_t segment, int64_t head) const {
  const int64_t size = 2 * dim_ * dim_, row = segment * rows_, kv_head = head * kv_heads_ / heads_;
  const auto take = [&](const Pattern<float>& from, int64_t heads, int64_t of, int64_t width) {
    return from.Rows((row * heads + of) * width, rows_, heads * width, width);
  };
  const std::vector<float> q = take(q_numbers_, heads_, head, 2 * dim_),
                           keys = take(key_numbers_, kv_heads_, kv_head, 2 * dim_),
                           values = take(value_numbers_, kv_heads_, kv_head, dim_),
                           initial = initial_numbers_.Floats(head * size, size);
  const int64_t state_at = (segment * kv_heads_ + kv_head) * size;
  std::vector<float> state = state_numbers_.Floats(state_at, size), expected(rows_ * dim_);
  OpContext reference(Isa::kScalar);
  LinearAttention(reference, {.heads = 1, .kv_heads = 1, .head_dim = sizes_.shape.head_dim},
                  q.data(), rows_, {keys.data(), values.data(), rows_}, initial.data(),
                  state.data(), expected.data());
  // Of 2 dim products, whose second factors sum up a number of each row.
  const double magnitude = 10 * std::sqrt(2.0 * static_cast<double>(dim_ * rows_));
  const std::string what = absl::StrCat("sequence ", segment, ", head ", head);
  for (int64_t r = 0; r < rows_; ++r) {
    ASSIGN_OR_RETURN(const std::vector<float> actual,
                     memory_.Read(out_ + ((row + r) * heads_ + head) * dim_, dim_));
    RETURN_IF_ERROR(ExpectClose(actual, std::span(expected).subspan(r * dim_, dim_), magnitude,
                                absl::StrCat(what, ", row ", r)));
  }
  ASSIGN_OR_RETURN(const std::vector<float> actual, memory_.Read(state_ + state_at, size));
  return ExpectClose(actual, state, 100, absl::StrCat("state of ", what));
}

}  // namespace

absl::StatusOr<DeviceCase> LinearAttentionCase(Device& device, const LinearAttentionSizes& sizes,
                                               int64_t rows) {
  const auto linear = std::make_shared<LinearRows>(device, sizes, rows);
  RETURN_IF_ERROR(linear->Place());
  DeviceCase made;
  made.operations = [linear](DeviceOperations& operations) { return linear->Run(operations); };
  made.reset = [linear] { return linear->Reset(); };
  made.check = [linear] { return linear->Check(); };
  made.bytes = linear->Bytes();
  // A multiplication and an addition to enter, as many to read.
  const LinearAttentionShape& shape = sizes.shape;
  made.flops = 4.0 * static_cast<double>(sizes.segments * rows * (shape.heads + shape.kv_heads)) *
               shape.head_dim * shape.head_dim;
  return made;
}

}  // namespace recollect::bench
