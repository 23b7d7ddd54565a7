#include "model/pointer.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "kernels/cuda/cuda_math.h"
#include "model/weights/tensor_floats.h"

namespace recollect::model {
namespace {

// Of a chunk, so that one without weight has a logarithm.
constexpr float kMinWeight = 1e-6f;

void AddTo(std::vector<kernels::PointedToken>& pointed, const kernels::PointedToken& found) {
  for (kernels::PointedToken& known : pointed) {
    if (known.token != found.token) continue;
    known.score = kernels::cuda::LogAddExp(known.score, found.score);
    return;
  }
  pointed.push_back(found);
}

}  // namespace

absl::StatusOr<Pointer> Pointer::Load(const TensorFile& file, const ModelConfig&) {
  Pointer pointer;
  ASSIGN_OR_RETURN(pointer.run_, ReadFinite(file, "pointer.run"));
  ASSIGN_OR_RETURN(pointer.overlap_, ReadFinite(file, "pointer.overlap"));
  ASSIGN_OR_RETURN(pointer.rarity_, ReadFinite(file, "pointer.rarity"));
  return pointer;
}

int64_t Pointer::bytes() const {
  return (2 * reach() + std::ssize(rarity_)) * static_cast<int64_t>(sizeof(float));
}

std::vector<kernels::PointedToken> Pointer::Point(std::span<const int32_t> recent,
                                                  std::span<const PointerChunk> chunks) const {
  std::vector<kernels::PointedToken> pointed;
  if (recent.empty()) return pointed;
  for (const PointerChunk& chunk : chunks) {
    const float base = std::log(std::max(chunk.weight, kMinWeight));
    const std::span<const int32_t> line = chunk.tokens;
    const size_t first = std::max<size_t>(line.size() - static_cast<size_t>(chunk.rows), 1);
    for (size_t at = first; at < line.size(); ++at) {
      if (line[at - 1] != recent.back()) continue;
      const size_t count = std::min({run_.size(), at, recent.size()});
      kernels::PointedToken found{line[at], base};
      bool run = true;
      for (size_t j = 0; j < count; ++j) {
        const int32_t token = recent[recent.size() - 1 - j];
        const bool same = line[at - 1 - j] == token;
        run = run && same;
        if (!same) continue;
        found.score += rarity_[static_cast<size_t>(token)] * (overlap_[j] + (run ? run_[j] : 0));
      }
      AddTo(pointed, found);
    }
  }
  return pointed;
}

}  // namespace recollect::model
