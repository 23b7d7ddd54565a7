#include "bench/model/mounted.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::bench {
namespace {

// More than a batch reads at once, so that no two sequences or groups share one.
constexpr int64_t kMaxMemory = 256;

void MakeUp(int64_t count, std::minstd_rand& generator, std::vector<Bf16>& values) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  values.resize(static_cast<size_t>(count));
  for (Bf16& value : values) value = Bf16::FromFloat(uniform(generator));
}

}  // namespace

Mounted::Mounted(const model::CpuModel& model, int64_t chunks, int rows)
    : model_(model),
      chunks_(chunks),
      rows_(rows),
      query_(static_cast<size_t>(model.config().key_width())),
      memory_(static_cast<size_t>(std::min(chunks, kMaxMemory))) {
  RECOLLECT_CHECK(model.config().landmarks() && chunks > 0);
  std::minstd_rand generator(1);
  MakeUp(chunks * model.config().key_width(), generator, keys_);
  for (model::Memory& memory : memory_) {
    memory.rows = rows;
    MakeUp(rows * model.config().memory_width(), generator, memory.keys);
    MakeUp(rows * model.config().memory_width(), generator, memory.values);
  }
}

model::Retrieved Mounted::Retrieve(kernels::OpContext& ctx, int group, const float* h) {
  model_.Query(ctx, group, h, query_.data());
  const kernels::KeySegment all{keys_.data(), chunks_};
  const auto best = kernels::LandmarkTopK(ctx, query_, {&all, 1}, model_.config().n_ret);
  model::Retrieved retrieved;
  for (size_t i = 0; i < best.size(); ++i) {
    retrieved.chunks.push_back(memory_[next_++ % memory_.size()].view());
    retrieved.weights.push_back(1.0f / static_cast<float>(best.size()));
  }
  return retrieved;
}

}  // namespace recollect::bench
