// Runs a fuzz target over files and over those of folders, without libFuzzer: the committed corpora
// are ordinary tests in every preset.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/io/file.h"
#include "tests/fuzz/fuzzing.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::fprintf(stderr, "%s\n", file.c_str());  // the last one names what failed
    const auto bytes = recollect::ReadWholeFile(file.string());
    RECOLLECT_CHECK(bytes.ok());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
