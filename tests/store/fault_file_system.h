// A file system that fails on purpose: it has room for a limited number of bytes, fails at the N-th
// call of a kind, and knows what a loss of power would leave. It wraps the system's own, for one
// directory that nobody else writes to.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace recollect::store {

// Kinds of calls that may fail.
enum class Call { kCreate, kWrite, kSync, kRename, kDelete, kRead, kAnyChange };
inline constexpr size_t kCalls = 7;  // the last stands for all but kRead
inline constexpr const char* kCallNames[kCalls] = {"create", "write", "sync",      "rename",
                                                   "delete", "read",  "any change"};

struct Fault {
  Call call{};
  int64_t at = -1;            // the number of the call of that kind that fails, from 0; -1: none
  bool from_then_on = false;  // or once
  bool no_space = false;      // or an I/O error
  bool half = false;          // a write leaves its first half, or nothing
};

class FaultFileSystem : public rocksdb::FileSystemWrapper {
  using FileOptions = rocksdb::FileOptions;
  using Debug = rocksdb::IODebugContext;
  using IOOptions = rocksdb::IOOptions;
  using IOStatus = rocksdb::IOStatus;
  using Slice = rocksdb::Slice;

 public:
  FaultFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FaultFileSystem"; }

  // Sets the room left, in bytes, for all files together; deletion does not add to it. Where nobody
  // can ask for it (`told` is false), as with a quota, only writing shows it.
  void SetRoom(int64_t bytes, bool told = true) {
    room_ = bytes;
    told_ = told;
  }

  // Sets the fault to come; counts calls from here on.
  void Plan(const Fault& fault) {
    std::lock_guard lock(mutex_);
    fault_ = fault;
    calls_ = {};
    failed_ = 0;
  }
  int64_t calls(Call call) const {
    std::lock_guard lock(mutex_);
    return calls_[static_cast<size_t>(call)];
  }
  int64_t failed() const {
    std::lock_guard lock(mutex_);
    return failed_;
  }

  // Treats the files of a directory as written and synced.
  void Adopt(const std::map<std::string, std::string>& files) {
    std::lock_guard lock(mutex_);
    for (const auto& [path, bytes] : files) {
      names_[path] = std::make_shared<Contents>(Contents{bytes, bytes.size()});
    }
    synced_names_ = names_;
  }

  // Returns what a loss of power leaves of the files made here and adopted, by path: the part of
  // each that was synced, under the names that the last sync of the directory found.
  std::map<std::string, std::string> AfterPowerLoss() const {
    std::lock_guard lock(mutex_);
    std::map<std::string, std::string> files;
    for (const auto& [path, file] : synced_names_) {
      files[path] = file->bytes.substr(0, file->synced);
    }
    return files;
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           Debug* debug) override {
    if (const IOStatus status = Count(Call::kCreate); !status.ok()) return status;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &file, debug);
    if (!status.ok()) return status;
    std::lock_guard lock(mutex_);
    names_[path] = std::make_shared<Contents>();
    *result = std::make_unique<File>(std::move(file), this, names_[path]);
    return status;
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              Debug* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const IOStatus status = FileSystemWrapper::ReopenWritableFile(path, options, &file, debug);
    if (!status.ok()) return status;
    std::lock_guard lock(mutex_);
    std::shared_ptr<Contents>& contents = names_[path];
    if (contents == nullptr) contents = std::make_shared<Contents>();
    *result = std::make_unique<File>(std::move(file), this, contents);
    return status;
  }
  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             Debug* debug) override {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    const IOStatus status = FileSystemWrapper::NewSequentialFile(path, options, &file, debug);
    if (status.ok()) *result = std::make_unique<SequentialFile>(std::move(file), this);
    return status;
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               Debug* debug) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    const IOStatus status = FileSystemWrapper::NewRandomAccessFile(path, options, &file, debug);
    if (status.ok()) *result = std::make_unique<RandomAccessFile>(std::move(file), this);
    return status;
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result, Debug* debug) override {
    std::unique_ptr<rocksdb::FSDirectory> directory;
    const IOStatus status = FileSystemWrapper::NewDirectory(path, options, &directory, debug);
    if (status.ok()) *result = std::make_unique<Directory>(std::move(directory), this);
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options, Debug* debug) override {
    if (const IOStatus status = Count(Call::kDelete); !status.ok()) return status;
    const IOStatus status = FileSystemWrapper::DeleteFile(path, options, debug);
    std::lock_guard lock(mutex_);
    if (status.ok()) names_.erase(path);
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      Debug* debug) override {
    if (const IOStatus status = Count(Call::kRename); !status.ok()) return status;
    const IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
    std::lock_guard lock(mutex_);
    if (status.ok()) {
      names_[to] = names_[from];
      names_.erase(from);
    }
    return status;
  }
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes,
                        Debug* debug) override {
    const IOStatus status = FileSystemWrapper::GetFreeSpace(path, options, bytes, debug);
    if (told_) *bytes = std::min(*bytes, static_cast<uint64_t>(room_.load()));
    return status;
  }

 private:
  // The contents of a file, whatever its name is by now.
  struct Contents {
    std::string bytes;
    size_t synced = 0;
  };

  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, FaultFileSystem* owner,
         std::shared_ptr<Contents> contents)
        : FSWritableFileOwnerWrapper(std::move(file)),
          owner_(owner),
          contents_(std::move(contents)) {}
    IOStatus Append(const Slice& data, const IOOptions& options, Debug* debug) override {
      // Writes a part and fails for the rest, as real disks do.
      size_t fits = data.size();
      IOStatus failure = owner_->Count(Call::kWrite, &fits);
      if (failure.ok() && (fits = owner_->Take(fits)) < data.size()) {
        failure = IOStatus::NoSpace("no room left");
      }
      const IOStatus status =
          FSWritableFileOwnerWrapper::Append({data.data(), fits}, options, debug);
      if (!status.ok()) return status;
      std::lock_guard lock(owner_->mutex_);
      contents_->bytes.append(data.data(), fits);
      return failure;
    }
    IOStatus Append(const Slice& data, const IOOptions& options,
                    const rocksdb::DataVerificationInfo&, Debug* debug) override {
      return Append(data, options, debug);
    }
    IOStatus Truncate(uint64_t size, const IOOptions& options, Debug* debug) override {
      const IOStatus status = FSWritableFileOwnerWrapper::Truncate(size, options, debug);
      std::lock_guard lock(owner_->mutex_);
      if (status.ok()) contents_->bytes.resize(std::min<size_t>(size, contents_->bytes.size()));
      return status;
    }
    // Does not wait for the disk below: only a power loss as AfterPowerLoss knows it counts.
    IOStatus Sync(const IOOptions&, Debug*) override {
      if (const IOStatus status = owner_->Count(Call::kSync); !status.ok()) return status;
      std::lock_guard lock(owner_->mutex_);
      contents_->synced = contents_->bytes.size();
      return IOStatus::OK();
    }
    IOStatus Fsync(const IOOptions& options, Debug* debug) override { return Sync(options, debug); }

   private:
    FaultFileSystem* const owner_;
    const std::shared_ptr<Contents> contents_;
  };

  class SequentialFile : public rocksdb::FSSequentialFileOwnerWrapper {
   public:
    SequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> file, FaultFileSystem* owner)
        : FSSequentialFileOwnerWrapper(std::move(file)), owner_(owner) {}
    IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch,
                  Debug* debug) override {
      if (const IOStatus status = owner_->Count(Call::kRead); !status.ok()) return status;
      return FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, debug);
    }

   private:
    FaultFileSystem* const owner_;
  };

  class RandomAccessFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    RandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, FaultFileSystem* owner)
        : FSRandomAccessFileOwnerWrapper(std::move(file)), owner_(owner) {}
    IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                  Debug* debug) const override {
      if (const IOStatus status = owner_->Count(Call::kRead); !status.ok()) return status;
      return FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, debug);
    }
    IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                       Debug* debug) override {
      if (const IOStatus status = owner_->Count(Call::kRead); !status.ok()) return status;
      return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
    }

   private:
    FaultFileSystem* const owner_;
  };

  class Directory : public rocksdb::FSDirectoryWrapper {
   public:
    Directory(std::unique_ptr<rocksdb::FSDirectory> directory, FaultFileSystem* owner)
        : FSDirectoryWrapper(std::move(directory)), owner_(owner) {}
    IOStatus Fsync(const IOOptions&, Debug*) override {
      if (const IOStatus status = owner_->Count(Call::kSync); !status.ok()) return status;
      std::lock_guard lock(owner_->mutex_);
      owner_->synced_names_ = owner_->names_;
      return IOStatus::OK();
    }
    IOStatus FsyncWithDirOptions(const IOOptions& options, Debug* debug,
                                 const rocksdb::DirFsyncOptions&) override {
      return Fsync(options, debug);
    }

   private:
    FaultFileSystem* const owner_;
  };

  // Counts a call, and fails it if it is planned to. If a write fails, sets `bytes` to the number
  // that is written all the same.
  IOStatus Count(Call call, size_t* bytes = nullptr) {
    std::lock_guard lock(mutex_);
    int64_t number = calls_[static_cast<size_t>(call)]++;
    if (call != Call::kRead) {
      const int64_t change = calls_[static_cast<size_t>(Call::kAnyChange)]++;
      if (fault_.call == Call::kAnyChange) number = change, call = Call::kAnyChange;
    }
    const bool fails = fault_.call == call && fault_.at >= 0 &&
                       (number == fault_.at || (fault_.from_then_on && number > fault_.at));
    if (!fails) return IOStatus::OK();
    ++failed_;
    if (bytes != nullptr) *bytes = fault_.half ? *bytes / 2 : 0;
    return fault_.no_space ? IOStatus::NoSpace("made to fail") : IOStatus::IOError("made to fail");
  }
  // Takes as many of `wanted` bytes as still fit, and returns their number.
  size_t Take(size_t wanted) {
    int64_t left = room_.load();
    int64_t taken = 0;
    do {
      taken = std::min(left, static_cast<int64_t>(wanted));
    } while (!room_.compare_exchange_weak(left, left - taken));
    return static_cast<size_t>(taken);
  }

  std::atomic<int64_t> room_{INT64_MAX};
  std::atomic<bool> told_{true};
  mutable std::mutex mutex_;
  Fault fault_;
  std::array<int64_t, kCalls> calls_{};
  int64_t failed_ = 0;
  std::map<std::string, std::shared_ptr<Contents>> names_, synced_names_;
};

struct FaultEnv {
  FaultFileSystem* const files = new FaultFileSystem;  // of `env`
  const std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::shared_ptr<rocksdb::FileSystem>(files));
};

}  // namespace recollect::store
