// Whose a directory is, told before anything in it is touched: the library deletes the tables and
// logs that it does not know.
#ifndef RECOLLECT_STORE_ROCKS_DATA_DIRECTORY_H_
#define RECOLLECT_STORE_ROCKS_DATA_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"

namespace recollect::store {

// Makes the directory when it is missing, for its owner alone; warns of one that others can enter,
// since documents lie in it as they are. FAILED_PRECONDITION when it cannot be made, or is neither
// empty nor a data directory of ours (names what is in it).
absl::Status PrepareDataDirectory(const std::string& directory);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_ROCKS_DATA_DIRECTORY_H_
