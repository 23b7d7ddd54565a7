#include "engine/step/request.h"

#include "base/io/log.h"
#include "base/memory.h"

namespace recollect::engine {

void Request::End(const absl::Status& status) {
  // First: who hears of the end may use the session at once.
  if (session != nullptr) session->DropMemory();
  session = nullptr;
  counted_session = nullptr;
  const absl::Status told = OrExhausted("the end of a request", [&] {
    const MemoryScope scope(MemoryScope::kTake);
    status.ok() ? Finish() : Fail(status);
    return absl::OkStatus();
  });
  if (!told.ok()) LogError("{}", told.ToString());
}

}  // namespace recollect::engine
