#include "client/sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "client/answer.h"
#include "client/patience.h"
#include "client/state.h"

namespace recollect::client {
namespace {

// Whether a session's server is gone, and the session with it.
bool IsGone(const absl::Status& status) {
  // NOT_FOUND: another process answers there, or the session has expired.
  return absl::IsUnavailable(status) || absl::IsNotFound(status);
}

// Whether a call that ended like this, before any event, has left its session as it was.
bool LeavesUnchanged(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsAborted(status) ||
         absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         absl::IsFailedPrecondition(status);
}

// Gives back a session's right to be changed.
template <typename Session>
class Busy {
 public:
  static absl::StatusOr<std::unique_ptr<Busy>> Take(Session& session, uint64_t id) {
    MutexLock lock(session.mutex);
    if (std::exchange(session.busy, true)) {
      return absl::AbortedError(absl::StrCat("another call of this client runs in session ", id));
    }
    return std::unique_ptr<Busy>(new Busy(session));
  }
  ~Busy() {
    MutexLock lock(session_.mutex);
    session_.busy = false;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  explicit Busy(Session& session) : session_(session) {}
  Session& session_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Sessions::Session>> Sessions::Find(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end())
    return absl::NotFoundError(absl::StrCat("this client has no open session ", id));
  return found->second;
}

Sessions::Place Sessions::PlaceOf(Session& session) {
  MutexLock lock(session.mutex);
  return session.place;
}

absl::StatusOr<v1::Session> Sessions::Open(const v1::SessionOptions& options) {
  const auto session = std::make_shared<Session>();
  session->options = options;
  ASSIGN_OR_RETURN(Place place, OpenSomewhere(options, {}, ""));
  ASSIGN_OR_RETURN(v1::Session info, GetAt(options_, *place.stub, place.id));
  {
    MutexLock lock(session->mutex);
    session->place = std::move(place);
  }
  MutexLock lock(mutex_);
  info.set_id(next_++);
  sessions_[info.id()] = session;
  return info;
}

absl::StatusOr<Sessions::Place> Sessions::OpenSomewhere(
    const v1::SessionOptions& options, const std::vector<v1::GenerateRequest>& turns,
    const std::string& last) {
  Patience patience(replicas_.patience());
  while (true) {
    absl::Status status;
    for (const Address& address : replicas_.Rotated(last)) {
      absl::StatusOr<Place> place = OpenAt(address, options, turns);
      status = Annotate(place.status(), Shown(address.target));
      if (!absl::IsUnavailable(status)) {
        RETURN_IF_ERROR(status);
        return place;
      }
    }
    if (!patience.Wait()) return NoneLeft(replicas_.servers(), status);
  }
}

absl::StatusOr<Sessions::Place> Sessions::OpenAt(const Address& address,
                                                 const v1::SessionOptions& options,
                                                 const std::vector<v1::GenerateRequest>& turns) {
  Place place{address.target, v1::Generation::NewStub(replicas_.To(address))};
  ASSIGN_OR_RETURN(const v1::Session opened, client::OpenAt(options_, *place.stub, options));
  place.id = opened.id();
  absl::Status status;
  for (const v1::GenerateRequest& turn : turns) {
    const GenerateCallbacks none;
    Answer answer(turn, none);
    status = answer.Ask(*place.stub, place.id, options_, absl::Now());
    if (status.ok() && answer.tokens() > 0) {
      status = absl::FailedPreconditionError(
          absl::StrCat("after ", turn.generated().ids_size(),
                       " tokens, where an answer in this session had ended, this server goes on: "
                       "it has another model or another kind of CPU"));
    }
    if (!status.ok()) break;
  }
  if (status.ok()) return place;
  (void)CloseAt(options_, *place.stub, place.id);
  return status;
}

absl::Status Sessions::Move(Session& session, const absl::Status& why) {
  std::string from;
  std::vector<v1::GenerateRequest> turns;
  {
    MutexLock lock(session.mutex);
    if (!session.unknown.ok()) {
      return absl::UnavailableError(
          absl::StrCat("the session is lost with its server at ", Shown(session.place.target), " (",
                       why.message(),
                       "); it cannot be opened elsewhere, because an earlier call was broken off (",
                       session.unknown.message(), ")"));
    }
    from = session.place.target;
    turns = session.turns;
  }
  ASSIGN_OR_RETURN(Place place, OpenSomewhere(session.options, turns, from));
  replicas_.Report(absl::StrCat("the session at ", Shown(from), " is gone (", why.message(),
                                "); it was opened at ", Shown(place.target), ", where its ",
                                turns.size(), turns.size() == 1 ? " call was" : " calls were",
                                " read again"));
  MutexLock lock(session.mutex);
  session.place = std::move(place);
  return absl::OkStatus();
}

absl::StatusOr<v1::Session> Sessions::Get(uint64_t id) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(id));
  for (bool moved = false;; moved = true) {
    const Place place = PlaceOf(*session);
    absl::StatusOr<v1::Session> info = GetAt(options_, *place.stub, place.id);
    if (info.ok()) info->set_id(id);
    if (moved || !IsGone(info.status())) return info;
    ASSIGN_OR_RETURN(const auto busy, Busy<Session>::Take(*session, id));
    RETURN_IF_ERROR(Move(*session, info.status()));
  }
}

absl::Status Sessions::Close(uint64_t id) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(id));
  {
    MutexLock lock(mutex_);
    sessions_.erase(id);
  }
  const Place place = PlaceOf(*session);
  const absl::Status status = CloseAt(options_, *place.stub, place.id);
  // With its server the session has ended, too.
  return IsGone(status) ? absl::OkStatus() : status;
}

absl::StatusOr<v1::Document> Sessions::Save(const v1::SaveSessionRequest& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(request.session_id()));
  ASSIGN_OR_RETURN(const auto busy, Busy<Session>::Take(*session, request.session_id()));
  for (bool moved = false;; moved = true) {
    const Place place = PlaceOf(*session);
    v1::SaveSessionRequest there = request;
    there.set_session_id(place.id);
    absl::StatusOr<v1::Document> saved = SaveAt(options_, *place.stub, there);
    if (moved || !IsGone(saved.status())) return saved;
    RETURN_IF_ERROR(Move(*session, saved.status()));
  }
}

absl::StatusOr<GenerateResult> Sessions::Generate(const v1::GenerateRequest& request,
                                                  const GenerateCallbacks& callbacks) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(request.session_id()));
  ASSIGN_OR_RETURN(const auto busy, Busy<Session>::Take(*session, request.session_id()));
  Answer answer(request, callbacks);
  const absl::Time begun = absl::Now();
  absl::Status status;
  Patience patience(replicas_.patience());
  for (int64_t tokens = 0;; tokens = answer.tokens()) {
    const Place place = PlaceOf(*session);
    status = answer.Ask(*place.stub, place.id, options_, begun);
    if (!IsGone(status) || answer.cancelled()) break;
    if (answer.tokens() > tokens) patience.Renew();
    if (!patience.Wait()) return NoneLeft(replicas_.servers(), status);
    if (answer.tokens() > 0) replicas_.Report(GoesOn(Shown(place.target), status, answer.tokens()));
    RETURN_IF_ERROR(Move(*session, status));
  }
  MutexLock lock(session->mutex);
  if (status.ok()) {
    v1::GenerateRequest turn = answer.request();
    turn.clear_session_id();
    turn.set_with_retrievals(false);
    session->turns.push_back(std::move(turn));
    return answer.Take();
  }
  if (answer.has_events() || !LeavesUnchanged(status)) session->unknown = status;
  return status;
}

}  // namespace recollect::client
