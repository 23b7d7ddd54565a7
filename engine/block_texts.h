// Reads the text of retrieved blocks, for answers that quote it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/types.h"

namespace recollect::engine {

class Engine;  // engine/engine.h

// The least weight of a block that counts as a source of the answer, if nothing has a weight, too
// (Retrieval::nothing).
inline constexpr float kLeastCited = 0.05f;

// The text of each hit's byte range, without characters that the range cuts at its ends. Empty for
// a chunk of a session itself, and where the document has been deleted, or replaced by another one
// with its name, since the hit was found. Blocks on the disk; its errors are returned.
absl::StatusOr<std::vector<std::string>> ReadBlockTexts(Engine& engine,
                                                        const std::vector<Hit>& hits);

}  // namespace recollect::engine
