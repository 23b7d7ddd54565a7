// Search of landmark keys, which is reading them, or their sketch.
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/kernels/op_report.h"
#include "kernels/landmark_topk/landmark_sketch.h"
#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

constexpr int64_t kDirections = 30;

// Keys [count, 640] as the shipped model's are: 256 numbers in 30 directions beside a mean, 384
// that are alike. Some thousand, again and again.
std::vector<Bf16> LandmarkKeys(const SketchShape& shape, int64_t count) {
  constexpr int64_t kDistinct = 16384;
  const std::vector<float> directions = Numbers(kDirections * shape.dense, 1);
  const std::vector<float> along = Numbers(kDistinct * kDirections, 2);
  const std::vector<float> mean = Numbers(shape.width, 3);
  std::vector<float> key = Numbers(kDistinct * shape.width, 4);
  std::vector<Bf16> keys;
  keys.reserve(static_cast<size_t>((count + kDistinct) * shape.width));
  for (int64_t k = 0; k < kDistinct; ++k) {
    for (int64_t i = 0; i < shape.width; ++i) {
      float number = key[k * shape.width + i];
      if (i < shape.dense) {
        number *= 0.002f;
        for (int64_t r = 0; r < kDirections; ++r) {
          number += 0.1f * along[k * kDirections + r] * directions[r * shape.dense + i];
        }
      }
      keys.push_back(Bf16::FromFloat(number + mean[i]));
    }
  }
  while (std::ssize(keys) < count * shape.width) {
    keys.insert(keys.end(), keys.begin(), keys.begin() + kDistinct * shape.width);
  }
  keys.resize(static_cast<size_t>(count * shape.width));
  return keys;
}

}  // namespace

// The landmark keys of 16 K, 1 M and 16 M tokens, with all keys read and with a sketch. Bytes are
// those of what is read in order, the keys or the sketch.
void BenchLandmarks(OpReport& report) {
  constexpr SketchShape kShape{640, 256};
  constexpr int64_t kCoordinates = kDirections + kShape.width - kShape.dense;
  for (const int64_t count : {290, 18500, 290000}) {
    const std::vector<Bf16> keys = LandmarkKeys(kShape, count);
    LandmarkSketch sketch(kShape, keys.data(), count);
    OpContext encoding;
    sketch.Encode(encoding, keys.data(), 0, sketch.blocks());
    // The encoder's numbers count for more than the others in queries, too.
    std::vector<float> query = Numbers(kShape.width, 5);
    for (int64_t i = 0; i < kShape.dense; ++i) query[i] *= 4;
    const KeySegment plain{keys.data(), count}, sketched{keys.data(), count, &sketch, 0};
    ForEachFast([&](Isa isa) {
      OpContext ctx(isa);
      std::vector<ScoredCandidate> best, expected;
      const std::string of = std::to_string(count);
      report.Add(
          "landmark_topk " + of, IsaName(isa), 1,
          {2.0 * static_cast<double>(keys.size()), static_cast<double>(keys.size() * sizeof(Bf16))},
          [&] {
            expected = LandmarkTopK(ctx, query, {&plain, 1}, 8);
          });
      report.Add("landmark sketch " + of, IsaName(isa), 1,
                 {2.0 * static_cast<double>(count * kCoordinates),
                  static_cast<double>(LandmarkSketch::BytesOf(kShape, count))},
                 [&] {
                   best = LandmarkTopK(ctx, query, {&sketched, 1}, 8);
                 });
      RECOLLECT_CHECK(best == expected);
    });
  }
}

}  // namespace recollect::bench
