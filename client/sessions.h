// Open sessions of a client of several servers: each lives on one of them, and is opened again at
// another from what the client keeps of it. Internal to the library.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "client/client.h"
#include "client/replicas.h"
#include "recollect/v1/generation.grpc.pb.h"

namespace recollect::client {

// Thread-safe. Errors are those of the client's calls, and UNAVAILABLE: no server has taken the
// session over, or none can. Ids are this object's own: those of two servers may be the same.
class Sessions {
 public:
  // `replicas` must outlive it.
  Sessions(Replicas& replicas, const ClientOptions& options)
      : replicas_(replicas), options_(options) {}

  absl::StatusOr<v1::Session> Open(const v1::SessionOptions& options);
  absl::StatusOr<v1::Session> Get(uint64_t id);
  absl::Status Close(uint64_t id);
  absl::StatusOr<v1::Document> Save(const v1::SaveSessionRequest& request);
  absl::StatusOr<GenerateResult> Generate(const v1::GenerateRequest& request,
                                          const GenerateCallbacks& callbacks);

 private:
  // Where a session lives.
  struct Place {
    std::string target;
    std::shared_ptr<v1::Generation::Stub> stub;
    uint64_t id = 0;  // the server's
  };
  struct Session {
    v1::SessionOptions options;
    Mutex mutex;
    bool busy ABSL_GUARDED_BY(mutex) = false;  // a call may change what follows
    Place place ABSL_GUARDED_BY(mutex);
    // Complete calls, each with all that it generated, from which the session is made again.
    std::vector<v1::GenerateRequest> turns ABSL_GUARDED_BY(mutex);
    // Not OK: a call has ended in its middle, so what the session has read is not known here.
    absl::Status unknown ABSL_GUARDED_BY(mutex);
  };

  absl::StatusOr<std::shared_ptr<Session>> Find(uint64_t id);
  static Place PlaceOf(Session& session);
  // Opens one with these options and turns anywhere; `last`: the target to be tried at the end.
  absl::StatusOr<Place> OpenSomewhere(const v1::SessionOptions& options,
                                      const std::vector<v1::GenerateRequest>& turns,
                                      const std::string& last);
  absl::StatusOr<Place> OpenAt(const Address& address, const v1::SessionOptions& options,
                               const std::vector<v1::GenerateRequest>& turns);
  // Gives a session that is gone from its place, for the reason `why`, another one.
  absl::Status Move(Session& session, const absl::Status& why);

  Replicas& replicas_;
  const ClientOptions options_;
  Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::client
