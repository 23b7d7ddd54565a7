// Runs the verb niah with its flags: runs the samples of each control, shows progress, and reports.
#ifndef RECOLLECT_CLI_NIAH_VERB_H_
#define RECOLLECT_CLI_NIAH_VERB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/niah/run.h"
#include "cli/options.h"

namespace recollect::cli::niah {

// The flags as given on the command line; cli/niah.cc explains each.
struct Flags {
  RunOptions run;
  std::vector<std::string> haystack;  // files
  std::vector<std::string> tokens = {"4k", "64k"};
  std::string shard_tokens = "64k";
  std::string phrasing = "both";
  std::vector<std::string> controls = {"none"};
  int control_samples = 0;  // 0: as many as without a control
  std::string hide = "each";
  std::string phrases;   // file
  std::string json;      // file; empty: where the table would go, if at all
  std::string heat_map;  // file; empty: none
};

absl::Status RunVerb(const Options& common, const Flags& flags);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_VERB_H_
