// Flags of the verbs that generate: how tokens are chosen, and when an answer ends.
#ifndef RECOLLECT_CLI_COMMON_ANSWER_FLAGS_H_
#define RECOLLECT_CLI_COMMON_ANSWER_FLAGS_H_

#include "CLI/App.hpp"
#include "recollect/v1/generation.pb.h"

namespace recollect::cli {

// The values go to `request`, which must outlive the parsing; those not given stay unset, and the
// defaults shown are then the service's.
void AddAnswerFlags(CLI::App& verb, v1::GenerateRequest& request);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_COMMON_ANSWER_FLAGS_H_
