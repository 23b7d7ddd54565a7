// Exit codes of `recollect`, by what a script should do next. Part of the interface: `recollect
// --help` lists them.
#pragma once

#include "absl/status/status.h"

namespace recollect::cli {

inline constexpr int kExitUsage = 2;

inline constexpr char kExitCodeHelp[] =
    "Exit codes:\n"
    "  0  success\n"
    "  1  failure of the program or of its output (INTERNAL, UNKNOWN)\n"
    "  2  wrong use of the command line\n"
    "  3  no such document, session, model or file (NOT_FOUND)\n"
    "  4  bad input (INVALID_ARGUMENT, OUT_OF_RANGE)\n"
    "  5  no server, it is draining, or its GPU is lost: retry elsewhere or later (UNAVAILABLE)\n"
    "  6  too late or broken off (DEADLINE_EXCEEDED, CANCELLED)\n"
    "  7  in conflict with what there is (ALREADY_EXISTS, FAILED_PRECONDITION, ABORTED)\n"
    "  8  a queue or budget is full (RESOURCE_EXHAUSTED)\n"
    "  9  a stored record is damaged (DATA_LOSS)\n"
    "  10 no API key, a wrong one, or one without the right (UNAUTHENTICATED, PERMISSION_DENIED)\n";

int ExitCode(const absl::Status& status);

}  // namespace recollect::cli
