#include "bench/model/arguments.h"

#include <algorithm>
#include <filesystem>

#include "CLI/CLI.hpp"

namespace recollect::bench {

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Counts and times what a token of each family reads.");
  app.add_option("--config", arguments.configs)->allow_extra_args(false);
  app.add_option("--dilations", arguments.dilations)->delimiter(',');
  app.add_option("--lengths", arguments.lengths)->delimiter(',');
  app.add_option("--batch", arguments.batch)->check(CLI::PositiveNumber);
  app.add_option("--seconds", arguments.seconds);
  app.add_option("--state-gib", arguments.state_gib);
  app.add_option("--minutes", arguments.minutes);
  app.add_option("--json", arguments.json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
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
