// The one file that knows libzip.
#include "convert/zip_archive.h"

#include <zip.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "convert/pickle.h"

namespace recollect::convert {
namespace {

// What libzip says, as our codes: a file that broke is DATA_LOSS, a file of another kind is the
// caller's mistake.
absl::Status ZipStatus(const zip_error_t* error, const std::string& what) {
  const std::string text =
      absl::StrCat(what, ": ", zip_error_strerror(const_cast<zip_error_t*>(error)));
  switch (zip_error_code_zip(error)) {
    case ZIP_ER_NOENT:
      return absl::NotFoundError(text);
    case ZIP_ER_CRC:
    case ZIP_ER_EOF:
    case ZIP_ER_INCONS:
    case ZIP_ER_READ:
    case ZIP_ER_SEEK:
    case ZIP_ER_ZLIB:
      return absl::DataLossError(text);
    case ZIP_ER_MEMORY:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InvalidArgumentError(text);
  }
}

class LibzipEntry final : public ZipEntry {
 public:
  LibzipEntry(zip_file_t* file, std::string name) : file_(file), name_(std::move(name)) {}
  ~LibzipEntry() override { zip_fclose(file_); }

  absl::StatusOr<int64_t> Read(std::byte* to, int64_t size) override {
    const zip_int64_t read = zip_fread(file_, to, static_cast<zip_uint64_t>(size));
    if (read < 0) return ZipStatus(zip_file_get_error(file_), name_);
    return static_cast<int64_t>(read);
  }
  absl::Status Seek(int64_t offset) override {
    if (zip_fseek(file_, offset, SEEK_SET) == 0) return absl::OkStatus();
    return ZipStatus(zip_file_get_error(file_), name_);
  }

 private:
  zip_file_t* const file_;
  const std::string name_;
};

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

class LibzipArchive final : public ZipArchive {
 public:
  LibzipArchive(zip_t* archive, std::string path) : archive_(archive), path_(std::move(path)) {}

  absl::Status ReadDirectory() {
    std::error_code error;
    const uintmax_t file_bytes = std::filesystem::file_size(path_, error);
    if (error) return absl::DataLossError(absl::StrCat(path_, ": ", error.message()));
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      zip_stat_t stat;
      if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0) {
        return ZipStatus(zip_get_error(archive_.get()), absl::StrCat(path_, ": entry ", i));
      }
      constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                       ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
      if ((stat.valid & kNeeded) != kNeeded || stat.size > INT64_MAX) {
        return absl::DataLossError(absl::StrCat(path_, ": entry ", i, ": damaged directory"));
      }
      if (stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": entry ", Printable(stat.name),
                         " is compressed or encrypted; expected "
                         "stored entries, as torch.save writes them"));
      }
      if (stat.size != stat.comp_size || stat.size > file_bytes) {
        return absl::DataLossError(absl::StrCat(path_, ": entry ", Printable(stat.name), ": ",
                                                stat.size, " bytes, of which ", stat.comp_size,
                                                " are stored in a file of ", file_bytes, " bytes"));
      }
      by_name_.emplace(stat.name, entries_.size());
      entries_.push_back({stat.name, static_cast<int64_t>(stat.size)});
    }
    return absl::OkStatus();
  }

  const std::vector<ZipEntryInfo>& entries() const override { return entries_; }

  const ZipEntryInfo* Find(const std::string& name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &entries_[found->second];
  }

  absl::StatusOr<std::unique_ptr<ZipEntry>> OpenEntry(const std::string& name) override {
    const std::string what = absl::StrCat(path_, ": entry ", name);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return absl::NotFoundError(absl::StrCat(what, ": no such entry"));
    // By index: libzip's own look-up by name has options that ours has not.
    zip_file_t* const file = zip_fopen_index(archive_.get(), found->second, 0);
    if (file == nullptr) return ZipStatus(zip_get_error(archive_.get()), what);
    return std::make_unique<LibzipEntry>(file, what);
  }

 private:
  const std::unique_ptr<zip_t, Discard> archive_;
  const std::string path_;
  std::vector<ZipEntryInfo> entries_;
  std::unordered_map<std::string, size_t> by_name_;
};

// What a file is that libzip does not take for a zip file. libzip finds one by its end; one that
// lost its end is told by its beginning.
absl::Status NoZip(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t size = file.tellg();
  char begin[4] = {};
  file.seekg(0).read(begin, sizeof(begin));
  const absl::string_view magic(begin, sizeof(begin));
  if (size == 0) return absl::DataLossError(absl::StrCat(path, ": the file is empty: 0 bytes"));
  if (magic == absl::string_view("PK\3\4", 4)) {
    return absl::DataLossError(absl::StrCat(path, ": the zip directory at the end of ", size,
                                            " bytes is missing; the file is cut off"));
  }
  // A pickle begins with the byte of its protocol, of which torch.save took the second.
  const bool pickle = magic[0] == '\x80' && magic[1] >= 2 && magic[1] <= 5;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": ",
      pickle ? "a pickle, as torch.save wrote before PyTorch 1.6" : "neither zip nor pickle", ", ",
      size, " bytes; expected the zip file that torch.save writes",
      pickle ? ": load it with PyTorch and save it again" : ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ZipArchive>> ZipArchive::Open(const std::string& path) {
  int code = 0;
  zip_t* const opened = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (opened == nullptr) {
    if (code == ZIP_ER_NOZIP) return NoZip(path);
    // libzip says "no such file" of an entry that lacks its large offset, too.
    if (code == ZIP_ER_NOENT && std::filesystem::exists(path)) {
      return absl::DataLossError(absl::StrCat(path, ": the zip directory is damaged"));
    }
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    absl::Status status = ZipStatus(&error, path);
    zip_error_fini(&error);
    return status;
  }
  auto archive = std::make_unique<LibzipArchive>(opened, path);
  RETURN_IF_ERROR(archive->ReadDirectory());
  return archive;
}

}  // namespace recollect::convert
