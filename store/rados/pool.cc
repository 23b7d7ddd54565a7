#include "store/rados/pool.h"

#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::store {
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

timeval Duration(int64_t ms) {
  timeval out{};
  out.tv_sec = ms / 1000;
  out.tv_usec = ms % 1000 * 1000;
  return out;
}

using Completion = std::unique_ptr<librados::AioCompletion>;

Completion NewCompletion() { return Completion(librados::Rados::aio_create_completion()); }

}  // namespace

Pool::Pool(const RadosOptions& options)
    : options_(options),
      name_(options.name_space.empty()
                ? absl::StrCat("pool ", options.pool)
                : absl::StrCat("pool ", options.pool, ", namespace ", options.name_space)),
      holder_(absl::StrCat(HostName(), "/", getpid(), "/", absl::Hex(std::random_device()()))) {}

Pool::~Pool() {
  io_.close();
  cluster_.shutdown();
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Connect(const RadosOptions& options) {
  std::unique_ptr<Pool> pool(new Pool(options));
  librados::Rados& cluster = pool->cluster_;
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
  if (const int error = cluster.ioctx_create(options.pool.c_str(), pool->io_); error < 0) {
    if (error == -ENOENT) {
      return absl::NotFoundError(
          absl::StrCat("the cluster of ", conf, " has no pool ", options.pool));
    }
    return pool->Translate(error, absl::StrCat("pool ", options.pool));
  }
  pool->io_.set_namespace(options.name_space);
  pool->io_.set_pool_full_try();  // for locks, which take no flags, what kWriteFlags is for others
  return pool;
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
  return Translate(io_.operate(object, &op, kWriteFlags), what);
}

absl::StatusOr<std::map<std::string, std::string>> Pool::Get(const std::string& object,
                                                             const std::set<std::string>& keys,
                                                             absl::string_view what) {
  std::map<std::string, bufferlist> values;
  RETURN_IF_ERROR(Translate(io_.omap_get_vals_by_keys(object, keys, &values), what));
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
    RETURN_IF_ERROR(Translate(
        io_.omap_get_vals2(object, last, prefix, static_cast<uint64_t>(page), &values, &more),
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
  RETURN_IF_ERROR(Translate(io_.stat(object, &size, &changed), what));
  bufferlist out;
  RETURN_IF_ERROR(Translate(io_.read(object, out, size, 0), what));
  return out.to_str();
}

void Pool::Read(std::span<ReadRequest> requests) {
  std::vector<Completion> flying(requests.size());
  std::vector<bufferlist> results(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    flying[i] = NewCompletion();
    const int error = io_.aio_read(requests[i].object, flying[i].get(), &results[i],
                                   requests[i].bytes, requests[i].offset);
    if (error >= 0) continue;
    requests[i].status = Translate(error, requests[i].object);
    flying[i].reset();
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (flying[i] == nullptr) continue;
    flying[i]->wait_for_complete();
    requests[i].status = Translate(flying[i]->get_return_value(), requests[i].object);
    if (requests[i].status.ok()) requests[i].result = results[i].to_str();
  }
}

absl::Status Pool::Write(std::span<const WriteRequest> requests, absl::string_view what) {
  std::vector<Completion> flying;
  absl::Status result;
  for (const WriteRequest& request : requests) {
    librados::ObjectWriteOperation op;
    if (request.whole) {
      op.write_full(ToBuffer(request.bytes));
    } else {
      op.write(request.offset, ToBuffer(request.bytes));
    }
    Completion completion = NewCompletion();
    const int error = io_.aio_operate(request.object, completion.get(), &op, kWriteFlags);
    result.Update(Translate(error, what));
    if (error >= 0) flying.push_back(std::move(completion));
  }
  for (const Completion& completion : flying) {
    completion->wait_for_complete();
    result.Update(Translate(completion->get_return_value(), what));
  }
  return result;
}

absl::Status Pool::Remove(std::span<const std::string> objects, absl::string_view what) {
  constexpr size_t kAtOnce = 64;
  absl::Status result;
  for (size_t begin = 0; begin < objects.size(); begin += kAtOnce) {
    std::vector<Completion> flying;
    for (const std::string& object :
         objects.subspan(begin, std::min(kAtOnce, objects.size() - begin))) {
      librados::ObjectWriteOperation op;
      op.remove();
      Completion completion = NewCompletion();
      const int error = io_.aio_operate(object, completion.get(), &op, kWriteFlags);
      result.Update(Translate(error, what));
      if (error >= 0) flying.push_back(std::move(completion));
    }
    for (const Completion& completion : flying) {
      completion->wait_for_complete();
      const int error = completion->get_return_value();
      if (error != -ENOENT) result.Update(Translate(error, what));
    }
  }
  return result;
}

absl::Status Pool::TakeLock(const std::string& object, const std::string& lock, bool shared) {
  timeval duration = Duration(options_.lease_ms);
  constexpr uint8_t kFlags = LIBRADOS_LOCK_FLAG_MAY_RENEW;
  const int error = shared ? io_.lock_shared(object, lock, holder_, lock, "", &duration, kFlags)
                           : io_.lock_exclusive(object, lock, holder_, "", &duration, kFlags);
  return Translate(error, absl::StrCat("lock of ", object));
}

absl::Status Pool::RenewLock(const std::string& object, const std::string& lock, bool shared) {
  timeval duration = Duration(options_.lease_ms);
  constexpr uint8_t kFlags = LIBRADOS_LOCK_FLAG_MUST_RENEW;
  const int error = shared ? io_.lock_shared(object, lock, holder_, lock, "", &duration, kFlags)
                           : io_.lock_exclusive(object, lock, holder_, "", &duration, kFlags);
  return Translate(error, absl::StrCat("lock of ", object));
}

void Pool::DropLock(const std::string& object, const std::string& lock) {
  (void)io_.unlock(object, lock, holder_);  // what fails expires by itself
}

absl::StatusOr<Holders> Pool::LockHolders(const std::string& object, const std::string& lock) {
  int exclusive = 0;
  std::string tag;
  std::list<librados::locker_t> lockers;
  const int error = io_.list_lockers(object, lock, &exclusive, &tag, &lockers);
  if (error == -ENOENT) return Holders();
  RETURN_IF_ERROR(Translate(error, absl::StrCat("lock of ", object)));
  Holders out;
  for (const librados::locker_t& locker : lockers) out.push_back(locker.cookie);
  return out;
}

absl::Status Pool::List(const std::function<void(const std::string&)>& visit) {
  try {
    for (auto it = io_.nobjects_begin(); it != io_.nobjects_end(); ++it) visit(it->get_oid());
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(name_, ": list of objects: ", error.what()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Pool::Identity() {
  std::string fsid;
  RETURN_IF_ERROR(Translate(cluster_.cluster_fsid(&fsid), "the cluster's number"));
  return absl::StrCat(fsid, "/", io_.get_id(), "/", options_.name_space);
}

int64_t Pool::used_bytes() {
  std::list<std::string> pools{options_.pool};
  std::map<std::string, librados::pool_stat_t> stats;
  if (cluster_.get_pool_stats(pools, stats) < 0) return 0;
  return static_cast<int64_t>(stats[options_.pool].num_bytes);
}

int64_t Pool::free_bytes() {
  librados::cluster_stat_t stat{};
  if (cluster_.cluster_stat(stat) < 0) return 0;
  return static_cast<int64_t>(stat.kb_avail) << 10;
}

}  // namespace recollect::store
