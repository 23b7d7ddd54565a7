// Prints retrieved chunks for people.
#pragma once

#include <cstdio>

#include "client/client.h"

namespace recollect::cli {

// Prints a line per retrieval with position, group, and numbers of hits and candidates; then a line
// per hit with weight, score, tier, document#chunk, byte range and the start of its text (read from
// the server if a hit has none).
void PrintRetrievals(client::Client& client,
                     const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals,
                     std::FILE* out);

}  // namespace recollect::cli
