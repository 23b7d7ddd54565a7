// Whole files, small ones.
#ifndef RECOLLECT_BASE_FILE_H_
#define RECOLLECT_BASE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace recollect {

// The bytes of the file. NOT_FOUND when there is none, INVALID_ARGUMENT when it cannot be read (a
// directory opens, too); both name it and say why.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace recollect

#endif  // RECOLLECT_BASE_FILE_H_
