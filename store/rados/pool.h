// A namespace of a RADOS pool: wraps the library's operations in our types and codes. Knows no
// documents.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <rados/librados.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "store/rados/rados_store.h"

namespace recollect::store::rados {

// An atomic change of an object's keys (omap), and of its data.
struct Change {
  bool create = false;  // otherwise the object must exist
  // ABORTED unless these are so; "": the key is absent.
  std::map<std::string, std::string> expect = {};
  std::map<std::string, std::string> set = {};
  std::set<std::string> remove = {};
  std::optional<std::string> data = {};  // replaces the object's data
  bool remove_object = false;
};

struct ReadRequest {
  std::string object;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string result = {};  // shorter where the object ends before
  absl::Status status = {};
};

struct WriteRequest {
  std::string object;
  uint64_t offset = 0;
  std::string bytes = {};
  bool whole = false;   // the object ends with them
  bool remove = false;  // nothing is written: the object goes, if there is one
};

// The holders of a lock, each as TakeLock wrote it: "host/process/number".
using Holders = std::vector<std::string>;

// Errors common to all calls: NOT_FOUND: no such object; UNAVAILABLE: no answer within the timeout;
// RESOURCE_EXHAUSTED: the cluster or the pool is full. If operations get no answer and a new client
// does, Pool connects anew; locks that were taken before are then not renewed, and expire.
// Thread-safe.
class Pool {
 public:
  static absl::StatusOr<std::unique_ptr<Pool>> Connect(const RadosOptions& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  absl::Status Apply(const std::string& object, const Change& change, absl::string_view what);

  // Returns the values of the given keys that exist.
  absl::StatusOr<std::map<std::string, std::string>> Get(const std::string& object,
                                                         const std::set<std::string>& keys,
                                                         absl::string_view what);
  // Calls visit(key, value) for keys > `after` that start with `prefix`, in order, until it returns
  // false. Reads a page of `page` at a time.
  absl::Status Scan(const std::string& object, const std::string& after, const std::string& prefix,
                    int64_t page, absl::string_view what,
                    const std::function<bool(const std::string&, std::string)>& visit);
  absl::StatusOr<std::string> ReadAll(const std::string& object, absl::string_view what);

  // Read and Write have all requests in flight at once.
  void Read(std::span<ReadRequest> requests);
  absl::Status Write(std::span<const WriteRequest> requests, absl::string_view what);
  // Removes objects, so many at once; objects that do not exist are no error.
  absl::Status Remove(std::span<const std::string> objects, absl::string_view what);

  // Locks expire on the clock of the object's server. ABORTED: another holder has it. `renew`: this
  // process must have it; NOT_FOUND: it has expired, or the object is gone.
  absl::Status TakeLock(const std::string& object, const std::string& lock, bool shared,
                        bool renew = false);
  void DropLock(const std::string& object, const std::string& lock);
  // Returns no holders if there is no such object.
  absl::StatusOr<Holders> LockHolders(const std::string& object, const std::string& lock);

  absl::Status List(const std::function<void(const std::string&)>& visit);
  // Return the bytes used in the whole pool and free in the cluster, as the cluster's manager
  // counts them; 0: there is no manager.
  int64_t used_bytes();
  int64_t free_bytes();

  // Returns the cluster's number, the pool's number and the namespace.
  absl::StatusOr<std::string> Identity();
  const std::string& name() const { return name_; }  // "pool P, namespace N"

 private:
  explicit Pool(const RadosOptions& options);
  struct Connection;
  absl::StatusOr<std::shared_ptr<Connection>> Open() const;
  // Returns the present connection. A caller keeps it alive while it uses it, also after another
  // connection has taken its place.
  std::shared_ptr<Connection> connection() const;
  // Returns the status of an operation on the object. If there was no answer, looks for the reason
  // in a thread of its own.
  absl::Status Result(const std::string& object, int error, absl::string_view what);
  // Replaces the connection if it alone gets no answer: the library waits for ever for a map of the
  // cluster that a monitor forgot to send, and the cluster may have shut it out.
  void ReconnectIfLost(const std::string& object);
  absl::Status Translate(int error, absl::string_view what) const;

  const RadosOptions options_;
  const std::string name_;
  const std::string holder_;  // this process, in locks
  mutable Mutex mutex_;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mutex_);
  bool probing_ ABSL_GUARDED_BY(mutex_) = false;
  std::future<void> probe_ ABSL_GUARDED_BY(mutex_);  // last: its thread uses all of the above
};

}  // namespace recollect::store::rados
