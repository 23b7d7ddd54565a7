// Limits a peer's share of a bounded number of places. One peer cannot take them all: the last
// quarter is for peers that hold less than a quarter.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace recollect::access {

// Returns OK if `peer`, a network address, may take one more of `what` ("sessions"), when `taken`
// of `limit` are taken, `own` of them by `peer`. An empty peer, as of the embedded command line, is
// exempt from this share. RESOURCE_EXHAUSTED names the numbers.
inline absl::Status CheckPlace(absl::string_view what, int64_t taken, int64_t limit,
                               const std::string& peer, int64_t own) {
  if (taken >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(taken, " ", what, " are open, at most ", limit, " are allowed"));
  }
  const int64_t quarter = limit / 4;
  if (peer.empty() || own < quarter || taken < limit - quarter) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(own, " ", what, " of ", peer, " are open and ",
                                                   taken, " in all: the last ", quarter, " of ",
                                                   limit, " are for others"));
}

}  // namespace recollect::access
