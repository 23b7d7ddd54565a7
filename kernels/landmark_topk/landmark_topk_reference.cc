#include <cmath>

#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::kernels::reference {

void LandmarkScores(OpContext&, const float* query, int64_t width, const Bf16* keys, int64_t count,
                    float* scores) {
  for (int64_t e = 0; e < count; ++e) {
    double dot = 0;
    for (int64_t i = 0; i < width; ++i) {
      dot += static_cast<double>(query[i]) * keys[e * width + i].ToFloat();
    }
    scores[e] = static_cast<float>(dot / std::sqrt(static_cast<double>(width)));
  }
}

void LandmarkScoresAt(OpContext& ctx, const float* query, int64_t width, const Bf16* keys,
                      const int64_t* at, int64_t count, float* scores) {
  for (int64_t e = 0; e < count; ++e) {
    reference::LandmarkScores(ctx, query, width, keys + at[e] * width, 1, scores + e);
  }
}

}  // namespace recollect::kernels::reference
