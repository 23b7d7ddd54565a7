// A file that torch.save wrote: a zip container with one pickle of the values and one stored entry
// per storage of tensors. Read without torch and without executing anything (pickle.h).
//
//   ASSIGN_OR_RETURN(auto checkpoint, TorchCheckpoint::Open(path));
//   const Value* step = checkpoint->tree().Find(checkpoint->tree().root(), "step");
#ifndef RECOLLECT_CONVERT_TORCH_CHECKPOINT_H_
#define RECOLLECT_CONVERT_TORCH_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/pickle.h"
#include "convert/zip_archive.h"

namespace recollect::convert {

class TorchCheckpoint;

// The bytes of one contiguous tensor, front to back. Borrows from its checkpoint.
class TensorReader {
 public:
  // Up to `size` bytes, less only at the end. When the tensor's last byte is read, the rest of its
  // storage is read, too, once per storage, so that its checksum is verified. DATA_LOSS: see
  // ZipEntry.
  absl::StatusOr<int64_t> Read(std::byte* to, int64_t size);

 private:
  friend class TorchCheckpoint;
  TensorReader(TorchCheckpoint& checkpoint, std::unique_ptr<ZipEntry> entry, std::string key,
               int64_t left)
      : checkpoint_(checkpoint), entry_(std::move(entry)), key_(std::move(key)), left_(left) {}
  absl::Status ReadToEnd();

  TorchCheckpoint& checkpoint_;
  std::unique_ptr<ZipEntry> entry_;
  std::string key_;
  int64_t left_;  // bytes
};

// Not thread-safe.
class TorchCheckpoint {
 public:
  // Errors of ZipArchive::Open and PickleTree::Parse; INVALID_ARGUMENT also for a zip file that
  // torch.save did not write and for big-endian data.
  static absl::StatusOr<std::unique_ptr<TorchCheckpoint>> Open(const std::string& path);

  const PickleTree& tree() const { return tree_; }

  // OK when the tensor's storage is in the container and has its size; else DATA_LOSS.
  absl::Status CheckStorage(const TensorRef& tensor) const;

  // REQUIRES: contiguous. CheckStorage's errors.
  absl::StatusOr<TensorReader> OpenTensor(const TensorRef& tensor);

 private:
  friend class TensorReader;
  TorchCheckpoint() = default;
  absl::Status ReadPickle();
  absl::StatusOr<std::string> ReadEntry(const std::string& name, int64_t limit);

  std::unique_ptr<ZipArchive> archive_;
  std::string prefix_;  // of every entry: "archive/"
  PickleTree tree_;
  std::set<std::string> verified_;  // storages whose checksum was verified
};

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_TORCH_CHECKPOINT_H_
