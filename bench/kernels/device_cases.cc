#include "bench/kernels/device_cases.h"

#include <cstddef>
#include <string>

#include "kernels/elementwise/elementwise.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

// One decode step's arrays, and how they are laid out.
class DecodeStep {
 public:
  DecodeStep(Device& device, const DecodeSizes& sizes)
      : sizes_(sizes),
        width_(int64_t{sizes.heads} * sizes.head_dim),
        stride_(4 * width_),
        cache_(sizes.entries * width_),
        device_(device),
        memory_(device) {}

  absl::Status Place();
  std::vector<Operation> Operations() const;
  absl::Status Reset();
  absl::Status Check() const;
  double Bytes() const;

 private:
  absl::Status PlaceScan();
  absl::Status PlaceRope();
  absl::Status PlaceAppends();
  absl::Status PlaceAttention();
  absl::Status CheckHead(int64_t row, int64_t head) const;

  const DecodeSizes sizes_;
  const int64_t width_;
  const int64_t stride_;  // floats of a projected row: q, k, v, z
  const int64_t cache_;   // numbers of a sequence's keys
  const Pattern<float> projected_numbers_{1}, state_numbers_{2};
  const Pattern<Bf16> key_numbers_{3}, value_numbers_{4};
  Device& device_;
  CaseMemory memory_;
  float* projected_ = nullptr;  // [batch, q k v z]
  float* state_ = nullptr;      // [batch, keys values, width]
  Bf16* rounded_ = nullptr;     // [batch, q k v]
  Bf16* keys_ = nullptr;        // [batch, entries, width]
  Bf16* values_ = nullptr;      // likewise
  float* out_ = nullptr;        // [batch, width]
  const float* cosines_ = nullptr;
  const float* sines_ = nullptr;
  const DeviceCopy* appends_ = nullptr;
  GatedScanOp scan_;
  TileAttentionOp attention_;
};

absl::Status DecodeStep::Place() {
  const int64_t batch = sizes_.batch;
  ASSIGN_OR_RETURN(projected_, memory_.Allocate<float>(batch * stride_));
  ASSIGN_OR_RETURN(state_, memory_.Allocate<float>(batch * 2 * width_));
  ASSIGN_OR_RETURN(rounded_, memory_.Allocate<Bf16>(batch * 3 * width_));
  ASSIGN_OR_RETURN(keys_, memory_.Place(key_numbers_, batch * cache_));
  ASSIGN_OR_RETURN(values_, memory_.Place(value_numbers_, batch * cache_));
  ASSIGN_OR_RETURN(out_, memory_.Allocate<float>(batch * width_));
  RETURN_IF_ERROR(PlaceScan());
  RETURN_IF_ERROR(PlaceRope());
  RETURN_IF_ERROR(PlaceAppends());
  RETURN_IF_ERROR(PlaceAttention());
  return Reset();
}

absl::Status DecodeStep::PlaceScan() {
  ASSIGN_OR_RETURN(
      scan_.plan,
      PlanGatedScan({.segments = sizes_.batch, .max_rows = 1, .channels = width_, .inputs = 2},
                    device_.multiprocessors()));
  std::vector<GatedScanSegment> segments;
  for (int64_t r = 0; r < sizes_.batch; ++r) {
    float *const k = projected_ + r * stride_ + width_, *const v = k + width_;
    float* const state = state_ + r * 2 * width_;
    segments.push_back({.z = v + width_,
                        .x = {k, v},
                        .y = {k, v},
                        .state = {state, state + width_},
                        .rows = 1,
                        .first = sizes_.position});
  }
  RETURN_IF_ERROR(CheckGatedScan(scan_.plan, segments));
  ASSIGN_OR_RETURN(scan_.segments, memory_.Place(segments));
  scan_.segment_count = sizes_.batch;
  scan_.stride = scan_.y_stride = stride_;
  return absl::OkStatus();
}

absl::Status DecodeStep::PlaceRope() {
  const std::vector<int64_t> positions(static_cast<size_t>(sizes_.batch), sizes_.position);
  const int64_t count = sizes_.batch * sizes_.head_dim / 2;
  std::vector<float> cosines(static_cast<size_t>(count)), sines(static_cast<size_t>(count));
  OpContext ctx;
  RopeFactors(ctx, RopeAngles(), positions, sizes_.head_dim, cosines.data(), sines.data());
  ASSIGN_OR_RETURN(cosines_, memory_.Place(cosines));
  ASSIGN_OR_RETURN(sines_, memory_.Place(sines));
  return absl::OkStatus();
}

// Each row's k and v become the last entry of its sequence's caches.
absl::Status DecodeStep::PlaceAppends() {
  const int64_t bytes = width_ * int64_t{sizeof(Bf16)};
  std::vector<DeviceCopy> copies;
  for (int64_t r = 0; r < sizes_.batch; ++r) {
    const Bf16* const k = rounded_ + r * 3 * width_ + width_;
    const int64_t last = (r + 1) * cache_ - width_;
    copies.push_back({k, keys_ + last, bytes});
    copies.push_back({k + width_, values_ + last, bytes});
  }
  RETURN_IF_ERROR(CheckCopies(copies, bytes));
  ASSIGN_OR_RETURN(appends_, memory_.Place(copies));
  return absl::OkStatus();
}

absl::Status DecodeStep::PlaceAttention() {
  const int64_t batch = sizes_.batch;
  std::vector<CacheRows> caches(static_cast<size_t>(batch));
  std::vector<RangeSet> sets(static_cast<size_t>(batch));
  for (int64_t r = 0; r < batch; ++r) {
    caches[r].rows = 1;
    caches[r].parts[1] = {keys_ + r * cache_, values_ + r * cache_};
    sets[r].ranges[1] = {0, sizes_.entries};
  }
  const std::vector<RowTile> tiles =
      RowTilesOf(caches, sets, MostTileRows(sizes_.heads, sizes_.heads));
  ASSIGN_OR_RETURN(attention_.plan, PlanTileAttention(SizesOf({.rows = batch,
                                                               .heads = sizes_.heads,
                                                               .kv_heads = sizes_.heads,
                                                               .head_dim = sizes_.head_dim},
                                                              tiles),
                                                      device_.multiprocessors()));
  RETURN_IF_ERROR(CheckTileAttention(attention_.plan, tiles, sets));
  attention_.q = rounded_;
  attention_.q_stride = 3 * width_;
  attention_.kv_stride = width_;
  ASSIGN_OR_RETURN(attention_.tiles, memory_.Place(tiles));
  ASSIGN_OR_RETURN(attention_.sets, memory_.Place(sets));
  ASSIGN_OR_RETURN(attention_.workspace,
                   memory_.Allocate<std::byte>(attention_.plan.workspace_bytes));
  attention_.out = out_;
  return absl::OkStatus();
}

std::vector<Operation> DecodeStep::Operations() const {
  const RopeOp rope = {.sizes = {.rows = sizes_.batch,
                                 .width = sizes_.head_dim,
                                 .heads = int64_t{2} * sizes_.heads,  // q and k lie side by side
                                 .stride = stride_},
                       .pairs = RopeAngles().pairs,
                       .cosines = cosines_,
                       .sines = sines_,
                       .x = projected_};
  return {scan_, rope, ConvertToBf16Op{projected_, 3 * width_, rounded_, sizes_.batch, stride_},
          CopyOp{appends_, 2 * sizes_.batch, width_ * int64_t{sizeof(Bf16)}}, attention_};
}

absl::Status DecodeStep::Reset() {
  RETURN_IF_ERROR(memory_.Fill(projected_numbers_, sizes_.batch * stride_, projected_));
  RETURN_IF_ERROR(memory_.Fill(state_numbers_, sizes_.batch * 2 * width_, state_));
  // What a run leaves must not pass for the next one's.
  for (int64_t r = 1; r <= sizes_.batch; ++r) {
    for (Bf16* const cache : {keys_, values_}) {
      RETURN_IF_ERROR(
          device_.Run(ZeroOp{cache + r * cache_ - width_, width_ * int64_t{sizeof(Bf16)}}));
    }
  }
  return device_.Run(ZeroOp{out_, sizes_.batch * width_ * int64_t{sizeof(float)}});
}

absl::Status DecodeStep::Check() const {
  for (const int64_t row : {int64_t{0}, sizes_.batch - 1}) {
    for (const int64_t head : {0, sizes_.heads - 1}) RETURN_IF_ERROR(CheckHead(row, head));
  }
  return absl::OkStatus();
}

absl::Status DecodeStep::CheckHead(int64_t row, int64_t head) const {
  // Numbers rounded to Bf16 on one side only, by 2^-9 of some 5; probabilities so rounded, and a
  // number that falls on the other side.
  constexpr double kRounded = 2000, kAttended = 400;
  const int dim = sizes_.head_dim;
  const int64_t at = row * stride_ + head * dim, entry = head * dim;
  OpContext reference(Isa::kScalar);
  std::vector<float> q = projected_numbers_.Floats(at, dim), key(dim), value(dim);
  const std::vector<float> z = projected_numbers_.Floats(at + 3 * width_, dim);
  for (const int64_t input : {0, 1}) {
    const std::vector<float> x = projected_numbers_.Floats(at + (1 + input) * width_, dim);
    std::vector<float> state = state_numbers_.Floats((2 * row + input) * width_ + head * dim, dim);
    GatedScan(reference, z.data(), nullptr, x.data(), dim, 1, dim, state.data(),
              input == 0 ? key.data() : value.data(), dim);
  }
  for (float* const x : {q.data(), key.data()}) {
    Rope(reference, RopeAngles(), sizes_.position, 1, dim, 1, dim, x);
  }
  std::vector<float> keys, values;
  const std::string what = absl::StrCat("row ", row, ", head ", head);
  const auto appended = [&](const Pattern<Bf16>& before, const Bf16* cache,
                            std::vector<float>& last, std::vector<float>& all) -> absl::Status {
    all = before.Rows(row * cache_ + entry, sizes_.entries - 1, width_, dim);
    ASSIGN_OR_RETURN(const std::vector<Bf16> found,
                     memory_.Read(cache + (row + 1) * cache_ - width_ + entry, dim));
    std::vector<float> actual;
    for (const Bf16 number : found) actual.push_back(number.ToFloat());
    RETURN_IF_ERROR(ExpectClose(actual, last, kRounded, absl::StrCat("appended to ", what)));
    kernels::RoundToBf16(reference, last.data(), dim);
    all.insert(all.end(), last.begin(), last.end());
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(appended(key_numbers_, keys_, key, keys));
  RETURN_IF_ERROR(appended(value_numbers_, values_, value, values));
  kernels::RoundToBf16(reference, q.data(), dim);
  const KvSpan part{keys.data(), values.data()};
  RangeSet set;
  set.ranges[1] = {0, sizes_.entries};
  std::vector<float> expected(dim);
  RangeAttention(reference, {.heads = 1, .kv_heads = 1, .head_dim = dim}, q.data(), dim, 1,
                 {part, part, part}, &set, expected.data());
  ASSIGN_OR_RETURN(const std::vector<float> actual, memory_.Read(out_ + row * width_ + entry, dim));
  return ExpectClose(actual, expected, kAttended, what);
}

// In: q, k, v, z, the state and the entries before; out: the state, the new entries and `out`.
double DecodeStep::Bytes() const {
  const int64_t fp32 = 4 + 2 * 2 + 1, bf16 = 2 * sizes_.entries;
  return static_cast<double>(sizes_.batch * width_ *
                             (fp32 * int64_t{sizeof(float)} + bf16 * int64_t{sizeof(Bf16)}));
}

}  // namespace

absl::StatusOr<DeviceCase> SmallOperationsCase(Device& device, int64_t count, int64_t width) {
  constexpr float kEpsilon = 1e-6f;
  constexpr double kMagnitude = 1000;  // h grows by a row of mean square 1 each time
  const auto memory = std::make_shared<CaseMemory>(device);
  const auto h_numbers = std::make_shared<const Pattern<float>>(1),
             x_numbers = std::make_shared<const Pattern<float>>(2);
  ASSIGN_OR_RETURN(float* const h, memory->Place(*h_numbers, width));
  ASSIGN_OR_RETURN(float* const x, memory->Place(*x_numbers, width));
  DeviceCase made;
  for (int64_t i = 0; i < count; ++i) {
    if (i % 2 == 0) {
      made.operations.push_back(AddOp{x, width, h});
    } else {
      made.operations.push_back(RmsNormOp{.sizes = {1, width}, .x = h, .eps = kEpsilon, .y = {x}});
    }
  }
  made.reset = [=]() -> absl::Status {
    RETURN_IF_ERROR(memory->Fill(*h_numbers, width, h));
    return memory->Fill(*x_numbers, width, x);
  };
  made.check = [=]() -> absl::Status {
    std::vector<float> sum = h_numbers->Floats(0, width), normed = x_numbers->Floats(0, width);
    OpContext reference(Isa::kScalar);
    for (int64_t i = 0; i < count; ++i) {
      if (i % 2 == 0) {
        Add(reference, normed.data(), width, sum.data());
      } else {
        RmsNorm(reference, sum.data(), nullptr, kEpsilon, 1, width, normed.data());
      }
    }
    ASSIGN_OR_RETURN(const std::vector<float> actual, memory->Read(h, width));
    return ExpectClose(actual, sum, kMagnitude, "sum");
  };
  return made;
}

absl::StatusOr<DeviceCase> RatPlusDecodeCase(Device& device, const DecodeSizes& sizes) {
  const auto step = std::make_shared<DecodeStep>(device, sizes);
  RETURN_IF_ERROR(step->Place());
  DeviceCase made;
  made.operations = step->Operations();
  made.reset = [step] { return step->Reset(); };
  made.check = [step] { return step->Check(); };
  made.bytes = step->Bytes();
  made.flops =
      4.0 * static_cast<double>(sizes.batch * sizes.entries) * sizes.heads * sizes.head_dim;
  return made;
}

ChunkUploads::ChunkUploads(Device& device, int64_t chunks, int64_t numbers) : device_(device) {
  const Pattern<Bf16> pattern(1);
  for (int64_t i = 0; i < chunks; ++i) {
    std::vector<Bf16>& chunk = chunks_.emplace_back();
    for (int64_t n = i * numbers; n < (i + 1) * numbers; ++n) chunk.push_back(pattern[n]);
  }
}

int64_t ChunkUploads::bytes() const {
  int64_t numbers = 0;
  for (const std::vector<Bf16>& chunk : chunks_) numbers += std::ssize(chunk);
  return numbers * int64_t{sizeof(Bf16)};
}

absl::Status ChunkUploads::Upload() {
  std::vector<std::span<const std::byte>> arrays;
  for (const std::vector<Bf16>& chunk : chunks_) arrays.push_back(std::as_bytes(std::span(chunk)));
  ASSIGN_OR_RETURN(buffers_, device_.UploadAllAsync(arrays));
  return absl::OkStatus();
}

absl::Status ChunkUploads::Await() {
  for (const auto& buffer : buffers_) RETURN_IF_ERROR(device_.Await(*buffer));
  return absl::OkStatus();
}

absl::Status ChunkUploads::Check() const {
  for (size_t i = 0; i < chunks_.size(); ++i) {
    std::vector<Bf16> found(chunks_[i].size());
    RETURN_IF_ERROR(device_.Download(buffers_.at(i)->data(), buffers_[i]->bytes(), found.data()));
    if (found == chunks_[i]) continue;
    return absl::InternalError(absl::StrCat("WRONG ANSWER, chunk ", i));
  }
  return absl::OkStatus();
}

}  // namespace recollect::bench
