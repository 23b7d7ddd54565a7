// Prints retrieved chunks for people.
#ifndef RECOLLECT_CLI_RETRIEVALS_H_
#define RECOLLECT_CLI_RETRIEVALS_H_

#include <cstdio>

#include "client/client.h"

namespace recollect::cli {

// One line per hit: group, position, document#chunk, score, weight, tier, byte range, the start of
// its text (read from the server if a hit has none).
void PrintRetrievals(client::Client& client,
                     const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals,
                     std::FILE* out);

// Where an answer was found: a line for each of the hits with the greatest weights, with document,
// byte range and the start of its text.
void PrintCitations(client::Client& client,
                    const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals,
                    std::FILE* out);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_RETRIEVALS_H_
