#include "bench/model/arguments.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace recollect::bench {
namespace {

template <typename Number>
bool ReadNumbers(const std::string& text, std::vector<Number>& numbers) {
  numbers.clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(part, &numbers.emplace_back())) return false;
  }
  return true;
}

}  // namespace

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  bool good = argc % 2 == 1;
  for (int i = 1; good && i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--config") {
      arguments.configs.push_back(value);
    } else if (name == "--dilations") {
      good = ReadNumbers(value, arguments.dilations);
    } else if (name == "--lengths") {
      good = ReadNumbers(value, arguments.lengths);
    } else if (name == "--batch") {
      good = absl::SimpleAtoi(value, &arguments.batch);
    } else if (name == "--seconds") {
      good = absl::SimpleAtod(value, &arguments.seconds);
    } else if (name == "--state-gib") {
      good = absl::SimpleAtod(value, &arguments.state_gib);
    } else if (name == "--minutes") {
      good = absl::SimpleAtod(value, &arguments.minutes);
    } else {
      good = name == "--json";
      arguments.json = value;
    }
  }
  if (!good || arguments.batch < 1) {
    std::fprintf(stderr,
                 "usage: families_bench [--config FILE]... [--dilations LIST] [--lengths LIST] "
                 "[--batch N] [--seconds S] [--state-gib G] [--minutes M] [--json FILE]\n");
    std::exit(2);
  }
  if (arguments.configs.empty()) {
    for (const auto& entry :
         std::filesystem::directory_iterator(RECOLLECT_SOURCE_DIR "/bench/model/configs")) {
      arguments.configs.push_back(entry.path());
    }
    std::sort(arguments.configs.begin(), arguments.configs.end());
  }
  std::sort(arguments.lengths.begin(), arguments.lengths.end());
  return arguments;
}

}  // namespace recollect::bench
