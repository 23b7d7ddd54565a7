// The names of the files of a model that is split into several GGUF files, as llama.cpp's
// gguf-split writes them: NAME-00001-of-00003.gguf and so on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace recollect::model {

struct GgufPartName {
  std::string stem;  // the path before "-00001-of-00003.gguf"
  int64_t part = 1;  // from 1 to `count`
  int64_t count = 1;
};

// Takes a path apart; nothing for one of another form.
std::optional<GgufPartName> ParseGgufPartName(const std::string& path);

// Returns the path of part `part` of `count`.
std::string GgufPartPath(const std::string& stem, int64_t part, int64_t count);

// Returns the paths of all parts of the model that `path` names one of, by their names alone; of a
// path of another form only itself.
std::vector<std::string> GgufPartPaths(const std::string& path);

}  // namespace recollect::model
