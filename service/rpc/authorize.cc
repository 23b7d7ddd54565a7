#include "service/rpc/authorize.h"

#include "absl/strings/str_cat.h"

namespace recollect::service {

absl::StatusOr<engine::SessionInfo> GetOwnSession(engine::Engine& engine,
                                                  const access::Caller& caller, uint64_t id) {
  ASSIGN_OR_RETURN(engine::SessionInfo info, engine.GetSession(engine::SessionId{id}));
  if (info.owner != caller.name()) return absl::NotFoundError(absl::StrCat("no open session ", id));
  // The key may be for other documents than when it was opened.
  RETURN_IF_ERROR(caller.CheckDocuments(info.mounts));
  return info;
}

absl::Status CheckOwnSession(engine::Engine& engine, const access::Caller& caller, uint64_t id) {
  if (id == 0 || caller.key() == nullptr) return absl::OkStatus();
  return GetOwnSession(engine, caller, id).status();
}

}  // namespace recollect::service
