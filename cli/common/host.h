// Model, store and engine of this process, which `serve` serves and the embedded command line uses.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace recollect::cli {

struct HostOptions {
  // Name or path (FindModel). Empty: that of the data directory; of a new directory smollm2 where
  // it was added, else recollect-7m, as of any other store.
  std::string model;
  // Whether the model becomes the data directory's also where that has another: of a server and of
  // a refresh, and of no other single command.
  bool keeps_model = false;
  std::string
      data_dir;  // empty: DefaultDataDir (cli/common/models.h); ":memory:": keeps nothing on disk
  std::string store;      // "rados:POOL[/NAMESPACE]", instead of a data directory; or empty
  std::string ceph_conf;  // of its cluster; empty: librados's default, like the next
  std::string ceph_user = "admin";
  double store_lease_s = 30;  // RadosOptions::lease_ms
  std::string cache_dir;      // in front of that store; empty: no cache
  int64_t cache_budget_bytes = int64_t{16} << 30;
  bool makes_data_dir = true;     // false: a directory that is named must exist
  bool accept_data_loss = false;  // see RocksOptions
  std::string dtype = "auto";
  std::string device = "cpu";  // as in LoadModel, like the next two
  int threads = 0;
  std::string chat_template;
  std::string index = "exact";                 // sets engine.index
  std::string chunk_states_format = "mxint8";  // sets engine.chunk_states_format
  engine::EngineOptions engine;
};

struct Host {
  std::unique_ptr<engine::Engine> engine;
  std::string model_name;  // the last part of its path
  std::string data_dir;    // or the name of the store
};

// Errors of FindModel, LoadModel, OpenRocksStore, OpenRadosStore and Engine::Create, with the
// directory that they concern.
absl::StatusOr<Host> CreateHost(const HostOptions& options);

}  // namespace recollect::cli
