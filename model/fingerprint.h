// What binds stored memory to the model that wrote it.
#ifndef RECOLLECT_MODEL_FINGERPRINT_H_
#define RECOLLECT_MODEL_FINGERPRINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "model/config.h"

namespace recollect::model {

// Layout of what the model hands out to be stored: landmark keys, chunk states,
// LocalState::Serialize.
inline constexpr int kRecordLayoutVersion = 1;

// Hex SHA-256 of a file's contents, or "absent". INVALID_ARGUMENT: it cannot be read.
absl::StatusOr<std::string> HashFile(const std::string& path);

// Hex SHA-256 over the contents of `paths` in order (a file that is not there counts as such), the
// ingest pattern, the record layout version and the number format.
absl::StatusOr<std::string> ComputeFingerprint(const std::vector<std::string>& paths,
                                               const LocalPatterns& patterns, DType dtype);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_FINGERPRINT_H_
