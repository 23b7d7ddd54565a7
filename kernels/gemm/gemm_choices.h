// Which of cuBLASLt's algorithms products use, kept in a file from one start to the next: choosing
// them (gemm_cuda_plan.h) takes some hundred products a shape. A file is for one kind of device and
// one version of cuBLASLt; one that is damaged, or of another kind, is ignored and written anew.
// Host code without CUDA, so that every machine tests it.
//   GemmChoices choices(GemmChoicesPath("NVIDIA H200, 9.0", 130000), "NVIDIA H200, 9.0", 130000);
//   if (auto chosen = choices.Find(shape)) …
//   choices.Keep(shape, chosen);
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/gemm/gemm_cuda_plan.h"

namespace recollect::kernels {

// cublasLtMatmulAlgo_t, which may be stored for the same version of the library.
using GemmAlgorithmBytes = std::array<uint64_t, 8>;

struct GemmChoice {
  GemmPlan plan;                               // of algorithms by their index in
  std::vector<GemmAlgorithmBytes> algorithms;  // these, none of which is unused
};

// Returns the file for a kind of device, under $XDG_CACHE_HOME or else $HOME/.cache; empty without
// either.
std::string GemmChoicesPath(absl::string_view device, uint64_t library);

// Used by one thread at a time. Several processes may share a file: each adds to what is there when
// it writes; of two that write at the same time the last one wins, and the other chooses again at
// its next start.
class GemmChoices {
 public:
  // Reads the file; without one, or with a damaged or foreign one, nothing is chosen yet. An empty
  // path: no file. `device` is one line of text.
  GemmChoices(std::string path, std::string device, uint64_t library);

  std::optional<GemmChoice> Find(const GemmShape& shape) const;

  // Remembers a choice and writes the file, which other processes see whole or not at all, and its
  // directory where there is none. A status that names the file: it was not written, and the choice
  // is remembered all the same.
  absl::Status Keep(const GemmShape& shape, const GemmChoice& choice);

 private:
  void Read();
  std::string Text() const;

  const std::string path_;
  const std::string head_;  // the lines that say what the file is for
  std::map<GemmShape, GemmChoice> choices_;
};

}  // namespace recollect::kernels
