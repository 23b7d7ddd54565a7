#include "store/rados/pool.h"

#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "base/status.h"

namespace recollect::store::rados {
namespace {

using librados::bufferlist;

// A full pool answers at once instead of keeping the operation until there is room; removing is
// allowed all the same.
constexpr int kWriteFlags = librados::OPERATION_FULL_TRY;

bufferlist ToBuffer(absl::string_view bytes) {
  bufferlist out;
  out.append(bytes.data(), static_cast<unsigned>(bytes.size()));
  return out;
}

std::string HostName() {
  char name[256] = "";
  (void)gethostname(name, sizeof(name) - 1);
  return name;
}

// Within the timeout, or from an OSD that takes nothing from this client any more.
bool NoAnswer(int error) { return error == -ETIMEDOUT || error == -ESHUTDOWN; }

using Completion = std::unique_ptr<librados::AioCompletion>;

Completion NewCompletion() { return Completion(librados::Rados::aio_create_completion()); }

}  // namespace

Pool::Pool(const RadosOptions& options)
    : options_(options),
      name_(options.name_space.empty()
                ? absl::StrCat("pool ", options.pool)
                : absl::StrCat("pool ", options.pool, ", namespace ", options.name_space)),
      holder_(absl::StrCat(HostName(), "/", getpid(), "/", absl::Hex(std::random_device()()))) {}

struct Pool::Connection {
  librados::Rados cluster;
  librados::IoCtx io;
  ~Connection() {
    io.close();
    cluster.shutdown();
  }
};

absl::StatusOr<std::unique_ptr<Pool>> Pool::Connect(const RadosOptions& options) {
  std::unique_ptr<Pool> pool(new Pool(options));
  ASSIGN_OR_RETURN(pool->connection_, pool->Open());
  return pool;
}

Pool::~Pool() = default;

std::shared_ptr<Pool::Connection> Pool::connection() const {
  MutexLock lock(mutex_);
  return connection_;
}

absl::StatusOr<std::shared_ptr<Pool::Connection>> Pool::Open() const {
  const RadosOptions& options = options_;
  auto connection = std::make_shared<Connection>();
  librados::Rados& cluster = connection->cluster;
  const std::string conf =
      options.conf_file.empty() ? "the default configuration of Ceph" : options.conf_file;
  const std::string user = absl::StrCat("client.", options.user);
  if (const int error = cluster.init2(user.c_str(), "ceph", 0); error < 0) {
    return absl::InternalError(absl::StrCat("librados: ", std::strerror(-error)));
  }
  const char* const file = options.conf_file.empty() ? nullptr : options.conf_file.c_str();
  if (const int error = cluster.conf_read_file(file); error < 0) {
    return absl::Status(
        error == -ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
        absl::StrCat(conf, ": ", std::strerror(-error)));
  }
  const std::string seconds = absl::StrCat(options.timeout_s);
  for (const char* name : {"client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout"})
    if (cluster.conf_set(name, seconds.c_str()) < 0)
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", seconds));
  if (const int error = cluster.connect(); error < 0) {
    const std::string why = std::strerror(-error);
    if (error == -EACCES || error == -EPERM) {
      return absl::PermissionDeniedError(
          absl::StrCat("the cluster of ", conf, " refuses ", user, ": ", why));
    }
    if (error == -ENOENT) {
      return absl::PermissionDeniedError(
          absl::StrCat("the cluster of ", conf, ": no key for ", user, ", or no monitors: ", why));
    }
    return absl::UnavailableError(
        absl::StrCat("the cluster of ", conf, " did not answer within ", seconds, " s: ", why));
  }
  librados::IoCtx& io = connection->io;
  if (const int error = cluster.ioctx_create(options.pool.c_str(), io); error < 0) {
    if (error == -ENOENT) {
      return absl::NotFoundError(
          absl::StrCat("the cluster of ", conf, " has no pool ", options.pool));
    }
    return Translate(error, absl::StrCat("pool ", options.pool));
  }
  io.set_namespace(options.name_space);
  io.set_pool_full_try();  // for locks, which take no flags, what kWriteFlags is for others
  return connection;
}

absl::Status Pool::Result(const std::string& object, int error, absl::string_view what) {
  if (NoAnswer(error)) {
    MutexLock lock(mutex_);
    if (!std::exchange(probing_, true))
      probe_ = std::async(std::launch::async, [this, object] { ReconnectIfLost(object); });
  }
  return Translate(error, what);
}

// If the cluster answers neither, whatever is wrong is no affair of this connection; if it answers
// both, that has passed.
void Pool::ReconnectIfLost(const std::string& object) {
  const auto answers = [&](Connection& asked) {
    uint64_t size = 0;
    time_t changed = 0;
    return !NoAnswer(asked.io.stat(object, &size, &changed));
  };
  std::shared_ptr<Connection> before = connection();  // shut down after the lock below
  auto opened = Open();
  const bool lost = opened.ok() && answers(**opened) && !answers(*before);
  if (lost) {
    LogWarning("{}: connected anew: the cluster no longer answers this client, and answers others",
               name_);
  }
  MutexLock lock(mutex_);
  if (lost) connection_ = *std::move(opened);
  probing_ = false;
}

absl::Status Pool::Translate(int error, absl::string_view what) const {
  if (error >= 0) return absl::OkStatus();
  const std::string text = absl::StrCat(name_, ": ", what, ": ", std::strerror(-error));
  switch (-error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case ECANCELED:
    case EBUSY:
      return absl::AbortedError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    case EPERM:
    case EACCES:
      return absl::PermissionDeniedError(text);
    case ETIMEDOUT:
      return absl::UnavailableError(
          absl::StrCat(name_, ": ", what, ": no answer within ", options_.timeout_s, " s"));
    case EIO:
      return absl::DataLossError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::Status Pool::Apply(const std::string& object, const Change& change, absl::string_view what) {
  librados::ObjectWriteOperation op;
  if (change.create) {
    op.create(false);
  } else {
    op.assert_exists();
  }
  if (!change.expect.empty()) {
    std::map<std::string, std::pair<bufferlist, int>> assertions;
    for (const auto& [key, value] : change.expect) {
      assertions[key] = {ToBuffer(value), LIBRADOS_CMPXATTR_OP_EQ};
    }
    op.omap_cmp(assertions, nullptr);
  }
  if (change.data) op.write_full(ToBuffer(*change.data));
  if (!change.remove.empty()) op.omap_rm_keys(change.remove);
  if (!change.set.empty()) {
    std::map<std::string, bufferlist> values;
    for (const auto& [key, value] : change.set) values[key] = ToBuffer(value);
    op.omap_set(values);
  }
  if (change.remove_object) op.remove();
  return Result(object, connection()->io.operate(object, &op, kWriteFlags), what);
}

absl::StatusOr<std::map<std::string, std::string>> Pool::Get(const std::string& object,
                                                             const std::set<std::string>& keys,
                                                             absl::string_view what) {
  std::map<std::string, bufferlist> values;
  RETURN_IF_ERROR(
      Result(object, connection()->io.omap_get_vals_by_keys(object, keys, &values), what));
  std::map<std::string, std::string> out;
  for (auto& [key, value] : values) out[key] = value.to_str();
  return out;
}

absl::Status Pool::Scan(const std::string& object, const std::string& after,
                        const std::string& prefix, int64_t page, absl::string_view what,
                        const std::function<bool(const std::string&, std::string)>& visit) {
  std::string last = after;
  for (bool more = true; more;) {
    std::map<std::string, bufferlist> values;
    RETURN_IF_ERROR(Result(object,
                           connection()->io.omap_get_vals2(
                               object, last, prefix, static_cast<uint64_t>(page), &values, &more),
                           what));
    for (auto& [key, value] : values) {
      last = key;
      if (!visit(key, value.to_str())) return absl::OkStatus();
    }
    if (values.empty()) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Pool::ReadAll(const std::string& object, absl::string_view what) {
  uint64_t size = 0;
  time_t changed = 0;
  RETURN_IF_ERROR(Result(object, connection()->io.stat(object, &size, &changed), what));
  bufferlist out;
  RETURN_IF_ERROR(Result(object, connection()->io.read(object, out, size, 0), what));
  return out.to_str();
}

void Pool::Read(std::span<ReadRequest> requests) {
  const std::shared_ptr<Connection> at = connection();
  std::vector<Completion> flying(requests.size());
  std::vector<bufferlist> results(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    flying[i] = NewCompletion();
    const int error = at->io.aio_read(requests[i].object, flying[i].get(), &results[i],
                                      requests[i].bytes, requests[i].offset);
    if (error >= 0) continue;
    requests[i].status = Translate(error, requests[i].object);
    flying[i].reset();
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (flying[i] == nullptr) continue;
    flying[i]->wait_for_complete();
    requests[i].status =
        Result(requests[i].object, flying[i]->get_return_value(), requests[i].object);
    if (requests[i].status.ok()) requests[i].result = results[i].to_str();
  }
}

absl::Status Pool::Write(std::span<const WriteRequest> requests, absl::string_view what) {
  const std::shared_ptr<Connection> at = connection();
  std::vector<std::pair<Completion, const WriteRequest*>> flying;
  absl::Status result;
  for (const WriteRequest& request : requests) {
    librados::ObjectWriteOperation op;
    if (request.remove) {
      op.remove();
    } else if (request.whole) {
      op.write_full(ToBuffer(request.bytes));
    } else {
      op.write(request.offset, ToBuffer(request.bytes));
    }
    Completion completion = NewCompletion();
    const int error = at->io.aio_operate(request.object, completion.get(), &op, kWriteFlags);
    result.Update(Translate(error, what));
    if (error >= 0) flying.emplace_back(std::move(completion), &request);
  }
  for (const auto& [completion, request] : flying) {
    completion->wait_for_complete();
    const int error = completion->get_return_value();
    if (request->remove && error == -ENOENT) continue;
    result.Update(Result(request->object, error, what));
  }
  return result;
}

absl::Status Pool::Remove(std::span<const std::string> objects, absl::string_view what) {
  constexpr size_t kAtOnce = 64;
  absl::Status result;
  while (!objects.empty()) {
    std::vector<WriteRequest> removals;
    for (const std::string& object : objects.first(std::min(kAtOnce, objects.size()))) {
      removals.push_back({.object = object, .remove = true});
    }
    objects = objects.subspan(removals.size());
    result.Update(Write(removals, what));
  }
  return result;
}

absl::Status Pool::TakeLock(const std::string& object, const std::string& lock, bool shared,
                            bool renew) {
  timeval duration{options_.lease_ms / 1000, options_.lease_ms % 1000 * 1000};
  const uint8_t flags = renew ? LIBRADOS_LOCK_FLAG_MUST_RENEW : LIBRADOS_LOCK_FLAG_MAY_RENEW;
  const std::shared_ptr<Connection> at = connection();
  const int error = shared ? at->io.lock_shared(object, lock, holder_, lock, "", &duration, flags)
                           : at->io.lock_exclusive(object, lock, holder_, "", &duration, flags);
  return Result(object, error, absl::StrCat("lock of ", object));
}

void Pool::DropLock(const std::string& object, const std::string& lock) {
  (void)connection()->io.unlock(object, lock, holder_);  // what fails expires by itself
}

absl::StatusOr<Holders> Pool::LockHolders(const std::string& object, const std::string& lock) {
  const std::shared_ptr<Connection> at = connection();
  int exclusive = 0;
  std::string tag;
  std::list<librados::locker_t> lockers;
  const int error = at->io.list_lockers(object, lock, &exclusive, &tag, &lockers);
  if (error == -ENOENT) return Holders();
  RETURN_IF_ERROR(Result(object, error, absl::StrCat("lock of ", object)));
  Holders out;
  for (const librados::locker_t& locker : lockers) out.push_back(locker.cookie);
  return out;
}

absl::Status Pool::List(const std::function<void(const std::string&)>& visit) {
  const std::shared_ptr<Connection> at = connection();
  try {
    for (auto it = at->io.nobjects_begin(); it != at->io.nobjects_end(); ++it) visit(it->get_oid());
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(name_, ": list of objects: ", error.what()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Pool::Identity() {
  const std::shared_ptr<Connection> at = connection();
  std::string fsid;
  RETURN_IF_ERROR(Translate(at->cluster.cluster_fsid(&fsid), "the cluster's number"));
  return absl::StrCat(fsid, "/", at->io.get_id(), "/", options_.name_space);
}

int64_t Pool::used_bytes() {
  std::list<std::string> pools{options_.pool};
  std::map<std::string, librados::pool_stat_t> stats;
  if (connection()->cluster.get_pool_stats(pools, stats) < 0) return 0;
  return static_cast<int64_t>(stats[options_.pool].num_bytes);
}

int64_t Pool::free_bytes() {
  librados::cluster_stat_t stat{};
  if (connection()->cluster.cluster_stat(stat) < 0) return 0;
  return static_cast<int64_t>(stat.kb_avail) << 10;
}

}  // namespace recollect::store::rados
