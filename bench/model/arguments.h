// The arguments of families_bench.
#ifndef RECOLLECT_BENCH_MODEL_ARGUMENTS_H_
#define RECOLLECT_BENCH_MODEL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace recollect::bench {

struct Arguments {
  std::vector<std::string> configs;
  std::vector<int64_t> dilations = {1, 4, 16, 64};
  std::vector<int64_t> lengths = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18};
  int batch = 4;
  double seconds = 0.3, state_gib = 6, minutes = 6;
  std::string json;
};

// Parses the arguments; exits with the usage if they are wrong. Returns the lengths in ascending
// order, and without --config the files of bench/model/configs, by name.
Arguments Parse(int argc, char** argv);

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_MODEL_ARGUMENTS_H_
