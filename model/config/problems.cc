#include "model/config/problems.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/text/printable.h"

namespace recollect::model {
namespace {

constexpr size_t kMaxProblems = 100;
constexpr size_t kMaxProblemBytes = 500;

}  // namespace

absl::Status ProblemsError(const std::vector<std::string>& problems) {
  std::vector<std::string> shown;
  for (const std::string& problem : problems) {
    if (shown.size() == kMaxProblems) {
      shown.push_back(absl::StrCat("and ", problems.size() - kMaxProblems, " more"));
      break;
    }
    shown.push_back(Shortened(problem, kMaxProblemBytes));
  }
  return absl::InvalidArgumentError(absl::StrJoin(shown, "; "));
}

}  // namespace recollect::model
