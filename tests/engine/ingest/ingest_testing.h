// Makes an engine on a store that outlives it, for tests of ingests.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/engine/engine_testing.h"

namespace recollect::engine {

// An engine on a store that outlives it.
struct StoreAndEngine {
  explicit StoreAndEngine(TestOptions options = SmallOptions(),
                          std::shared_ptr<const model::Model> model = nullptr)
      : store(store::CreateMemoryStore()),
        engine(MakeEngine(options, std::make_unique<ForwardingStore>(store), std::move(model))) {}
  std::string Dump(const std::string& id) {
    return DumpDocument(*store, id, engine->model().config().key_width());
  }
  std::shared_ptr<store::DocumentStore> store;
  std::unique_ptr<EngineImpl> engine;
};

}  // namespace recollect::engine
