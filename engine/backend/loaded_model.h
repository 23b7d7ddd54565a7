// The argument of Engine::Create: a model, and where the engine's two kinds of work run.
#pragma once

#include <memory>

#include "base/sync/thread_pool.h"
#include "engine/backend/backend.h"
#include "engine/backend/landmark_index.h"
#include "engine/backend/sparse_index.h"
#include "model/model.h"

namespace recollect::engine {

// Only the last three may be null. LoadModel (devices.h) makes one for the device of a given name,
// OnCpu (cpu/cpu_backend.h) one for a CpuModel.
struct LoadedModel {
  std::shared_ptr<const model::Model> model;
  std::shared_ptr<Backend> backend;          // the layers of `model`
  std::shared_ptr<LandmarkIndex> landmarks;  // the search of landmark keys
  std::shared_ptr<ListMaker> lists = {};     // null: `landmarks` searches exactly only
  std::shared_ptr<ThreadPool> threads = {};  // make and search sparse keys; null: callers do
  std::shared_ptr<SparseIndex> sparse = {};  // keeps and searches sparse keys; null: in RAM
};

}  // namespace recollect::engine
