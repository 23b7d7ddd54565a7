#include "service/rpc/status_map.h"

#include <string>

#include "absl/strings/string_view.h"
#include "model/text/printable.h"
#include "model/text/tokenizer.h"
#include "service/limits.h"

namespace recollect::service {
namespace {

std::string Bounded(absl::string_view message) {
  std::string bounded(message.substr(0, kMaxErrorBytes));
  // The cut may have split a character, and peers expect UTF-8.
  if (const int64_t bad = model::FindInvalidUtf8(bounded, false); bad >= 0) bounded.resize(bad);
  return bounded;
}

}  // namespace

// Messages quote what callers sent: escaped, so that nothing in them acts on a terminal or hides.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Bounded(model::EscapeInvisible(Bounded(status.message()))));
}

}  // namespace recollect::service
