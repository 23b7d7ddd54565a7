// Combines the problems of a model's file into one error. Private to model/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/text/printable.h"

namespace recollect::model {

// Returns INVALID_ARGUMENT with the problems of a file, cut to a readable length, since a problem
// may quote a value of any size and there may be any number. REQUIRES: `problems` is not empty.
inline absl::Status ProblemsError(std::vector<std::string> problems) {
  constexpr size_t kMaxProblems = 100, kMaxProblemBytes = 500;
  for (std::string& problem : problems) problem = Shortened(problem, kMaxProblemBytes);
  if (const size_t count = problems.size(); count > kMaxProblems) {
    problems.resize(kMaxProblems);
    problems.push_back(absl::StrCat("and ", count - kMaxProblems, " more"));
  }
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

}  // namespace recollect::model
