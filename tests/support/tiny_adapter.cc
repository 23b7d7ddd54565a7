#include "tests/support/tiny_adapter.h"

#include <filesystem>

#include "tests/support/tiny_model.h"

namespace recollect {

std::string TinyAdapterGolden() { return SourceDir() + "/tests/golden/memory"; }

void WriteTinyAdapter(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path golden = TinyAdapterGolden();
  fs::create_directories(directory);
  fs::copy(golden / "base", directory,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  for (const char* name :
       {"memory.json", "memory.safetensors", "reader.safetensors", "reranker.safetensors"}) {
    fs::copy_file(golden / name, fs::path(directory) / name, fs::copy_options::overwrite_existing);
  }
}

}  // namespace recollect
