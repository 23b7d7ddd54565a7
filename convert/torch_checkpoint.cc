#include "convert/torch_checkpoint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/check.h"
#include "base/status.h"

namespace recollect::convert {
namespace {

// What PickleTree::Parse refuses anyway; checked before the entry is read into memory.
constexpr int64_t kMaxEntryBytes = int64_t{16} << 20;
constexpr int64_t kMaxNoteBytes = 64;
constexpr int64_t kDiscardBytes = int64_t{64} << 10;
constexpr char kPickle[] = "data.pkl";

}  // namespace

absl::StatusOr<int64_t> TensorReader::Read(std::byte* to, int64_t size) {
  const int64_t wanted = std::min(size, left_);
  if (wanted == 0) return 0;
  int64_t done = 0;
  while (done < wanted) {
    ASSIGN_OR_RETURN(const int64_t read, entry_->Read(to + done, wanted - done));
    if (read == 0) return absl::DataLossError(absl::StrCat("storage ", key_, " ends early"));
    done += read;
  }
  left_ -= done;
  if (left_ == 0) RETURN_IF_ERROR(ReadToEnd());
  return done;
}

absl::Status TensorReader::ReadToEnd() {
  if (checkpoint_.verified_.contains(key_)) return absl::OkStatus();
  std::vector<std::byte> discarded(kDiscardBytes);
  while (true) {
    ASSIGN_OR_RETURN(const int64_t read, entry_->Read(discarded.data(), kDiscardBytes));
    if (read == 0) break;
  }
  checkpoint_.verified_.insert(key_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TorchCheckpoint>> TorchCheckpoint::Open(const std::string& path) {
  std::unique_ptr<TorchCheckpoint> checkpoint(new TorchCheckpoint);
  ASSIGN_OR_RETURN(checkpoint->archive_, ZipArchive::Open(path));
  RETURN_IF_ERROR(Annotate(checkpoint->ReadPickle(), path));
  return checkpoint;
}

absl::Status TorchCheckpoint::ReadPickle() {
  std::vector<std::string> found;
  for (const ZipEntryInfo& entry : archive_->entries()) {
    const size_t slash = entry.name.find('/');
    if (slash != std::string::npos &&
        entry.name.compare(slash + 1, std::string::npos, kPickle) == 0)
      found.push_back(entry.name.substr(0, slash + 1));
  }
  if (found.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("a zip file with ", found.size(), " entries */",
                                                   kPickle, ", expected the one of torch.save"));
  }
  prefix_ = found.front();
  const std::string order = absl::StrCat(prefix_, "byteorder");
  if (archive_->Find(order) != nullptr) {  // older files have none and are little-endian
    ASSIGN_OR_RETURN(const std::string text, ReadEntry(order, kMaxNoteBytes));
    if (text != "little") {
      return absl::InvalidArgumentError(
          absl::StrCat("byte order \"", Printable(text), "\", expected \"little\""));
    }
  }
  ASSIGN_OR_RETURN(const std::string pickle,
                   ReadEntry(absl::StrCat(prefix_, kPickle), kMaxEntryBytes));
  auto tree = PickleTree::Parse(pickle);
  if (!tree.ok()) return tree.status();
  tree_ = *std::move(tree);
  return absl::OkStatus();
}

absl::StatusOr<std::string> TorchCheckpoint::ReadEntry(const std::string& name, int64_t limit) {
  const int64_t size = archive_->Find(name)->bytes;
  if (size > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("entry ", name, " has ", size, " bytes, limit ", limit));
  }
  ASSIGN_OR_RETURN(const auto entry, archive_->OpenEntry(name));
  // One byte more than there is: the checksum is compared when the end is seen.
  std::string bytes(static_cast<size_t>(size) + 1, '\0');
  int64_t done = 0;
  while (true) {
    ASSIGN_OR_RETURN(const int64_t read,
                     entry->Read(reinterpret_cast<std::byte*>(bytes.data()) + done,
                                 static_cast<int64_t>(bytes.size()) - done));
    done += read;
    if (read == 0 || done > size) break;
  }
  if (done != size) {
    return absl::DataLossError(absl::StrCat("entry ", name, ": ", done, " bytes, expected ", size));
  }
  bytes.resize(static_cast<size_t>(size));
  return bytes;
}

absl::Status TorchCheckpoint::CheckStorage(const TensorRef& tensor) const {
  const StorageRef& storage = tensor.storage;
  const ZipEntryInfo* entry = archive_->Find(absl::StrCat(prefix_, "data/", storage.key));
  if (entry == nullptr) {
    return absl::DataLossError(
        absl::StrCat("its storage ", storage.key, " is not in the container"));
  }
  const int64_t bytes = storage.items * ItemBytes(storage.type);
  if (entry->bytes == bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("its storage ", storage.key, " has ", entry->bytes, " bytes, expected ", bytes));
}

absl::StatusOr<TensorReader> TorchCheckpoint::OpenTensor(const TensorRef& tensor) {
  RECOLLECT_CHECK(tensor.contiguous());
  RETURN_IF_ERROR(CheckStorage(tensor));
  const StorageRef& storage = tensor.storage;
  ASSIGN_OR_RETURN(auto entry, archive_->OpenEntry(absl::StrCat(prefix_, "data/", storage.key)));
  const int64_t offset = tensor.offset * ItemBytes(storage.type);
  if (offset > 0 && verified_.contains(storage.key)) {
    RETURN_IF_ERROR(entry->Seek(offset));
  } else {
    std::vector<std::byte> discarded(static_cast<size_t>(std::min(offset, kDiscardBytes)));
    for (int64_t left = offset; left > 0;) {
      ASSIGN_OR_RETURN(const int64_t read,
                       entry->Read(discarded.data(), std::min(left, kDiscardBytes)));
      if (read == 0)
        return absl::DataLossError(absl::StrCat("storage ", storage.key, " ends early"));
      left -= read;
    }
  }
  return TensorReader(*this, std::move(entry), storage.key,
                      tensor.size() * ItemBytes(storage.type));
}

}  // namespace recollect::convert
