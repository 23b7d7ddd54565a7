// Reads a zip file entry by entry, for the containers that torch.save writes: entries that are
// stored, not compressed, and may be larger than 4 GiB (zip64). Not for archives in general: a
// compressed or encrypted entry is refused, so an entry is never larger than the file.
//
//   ASSIGN_OR_RETURN(auto archive, ZipArchive::Open(path));
//   ASSIGN_OR_RETURN(auto entry, archive->OpenEntry("archive/data.pkl"));
//   ASSIGN_OR_RETURN(const int64_t read, entry->Read(buffer, size));
#ifndef RECOLLECT_CONVERT_ZIP_ARCHIVE_H_
#define RECOLLECT_CONVERT_ZIP_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::convert {

struct ZipEntryInfo {
  std::string name;
  int64_t bytes = 0;
};

// An entry of an archive, read from front to back. Borrows from its archive. Not thread-safe.
class ZipEntry {
 public:
  virtual ~ZipEntry() = default;

  // Reads up to `size` bytes; fewer only at the end of the entry, where it returns 0. DATA_LOSS:
  // the file ends early, or (found when the end is reached, never after Seek) the entry's checksum
  // is wrong.
  virtual absl::StatusOr<int64_t> Read(std::byte* to, int64_t size) = 0;

  // Makes the next Read begin `offset` bytes into the entry.
  virtual absl::Status Seek(int64_t offset) = 0;
};

// Not thread-safe; entries of one archive may be read in turns.
class ZipArchive {
 public:
  // NOT_FOUND: no file. INVALID_ARGUMENT: not a zip file, or an entry is compressed or encrypted.
  // DATA_LOSS: a zip file that is cut off or whose directory is damaged.
  static absl::StatusOr<std::unique_ptr<ZipArchive>> Open(const std::string& path);
  virtual ~ZipArchive() = default;

  // Returns the entries in the order of the file's directory.
  virtual const std::vector<ZipEntryInfo>& entries() const = 0;
  // The entry of this exact name, or nullptr.
  virtual const ZipEntryInfo* Find(const std::string& name) const = 0;
  // NOT_FOUND, or DATA_LOSS when the entry's own header is damaged.
  virtual absl::StatusOr<std::unique_ptr<ZipEntry>> OpenEntry(const std::string& name) = 0;
};

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_ZIP_ARCHIVE_H_
