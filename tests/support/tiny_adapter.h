// A small random model of the family llama with a memory adapter: the golden one of
// tests/golden/memory.
//
//   recollect::WriteTinyAdapter(directory);
//   auto model = recollect::model::CpuModel::Load(directory);
#pragma once

#include <string>

namespace recollect {

// Returns the folder of the golden files: memory.json and the others, beside the folder `base`.
std::string TinyAdapterGolden();

// Writes the base and its adapter to one directory, as a model is loaded: d 64, four query heads
// over two key-value heads, four layers, segments of 128 tokens. Aborts the test on an I/O error.
void WriteTinyAdapter(const std::string& directory);

}  // namespace recollect
