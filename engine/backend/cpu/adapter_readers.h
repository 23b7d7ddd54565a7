// The reader and the reranker of a memory adapter on compute threads, also for the backend of a
// device, which leaves both to the CPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/cpu/compute_threads.h"
#include "model/cpu/cpu_model.h"
#include "model/reading.h"
#include "model/reranker.h"

namespace recollect::engine {

// Backend::Read, a block a thread.
model::Reading ReadOn(ComputeThreads& threads, const model::CpuModel& model,
                      const model::ReaderQuestion& question);

// Backend::Rerank, a slice of the texts a thread.
std::vector<std::vector<float>> RerankOn(ComputeThreads& threads, const model::CpuModel& model,
                                         std::span<const model::RerankerText> texts);

}  // namespace recollect::engine
