// Model, store and engine of this process, put together: what `serve` serves and the embedded
// command line runs on.
#ifndef RECOLLECT_CLI_HOST_H_
#define RECOLLECT_CLI_HOST_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace recollect::cli {

struct HostOptions {
  std::string model_dir;          // empty: FindModel
  std::string data_dir;           // empty: DefaultDataDir; ":memory:": nothing is kept
  bool makes_data_dir = true;     // else one that is named has to be there
  bool accept_data_loss = false;  // RocksOptions says what that is
  std::string dtype = "auto";
  std::string device = "cpu";  // of LoadModel
  engine::EngineOptions engine;
};

struct Host {
  std::unique_ptr<engine::Engine> engine;
  std::string model_name;  // the last part of its directory
  std::string data_dir;
};

// Errors of LoadModel, OpenRocksStore and Engine::Create, with the directory they
// are about.
absl::StatusOr<Host> CreateHost(const HostOptions& options);

// models/recollect-7m, looked for upward from the executable, then upward from the working
// directory. NOT_FOUND says so.
absl::StatusOr<std::string> FindModel();

// $XDG_DATA_HOME/recollect, or ~/.local/share/recollect. FAILED_PRECONDITION: neither is known.
absl::StatusOr<std::string> DefaultDataDir();

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_HOST_H_
