#include <algorithm>
#include <string>
#include <utility>

#include "base/memory.h"
#include "base/status.h"
#include "http/api/encode.h"
#include "http/api/handlers.h"
#include "http/api/query.h"
#include "http/net/errors.h"
#include "http/net/json.h"

namespace recollect::http {
namespace {

constexpr size_t kPartBytes = 256 << 10;  // written at once, well below what may wait unsent

// One thing at a time, as an upload: read a piece, let the engine take it, read the next.
class Import final : public std::enable_shared_from_this<Import> {
 public:
  Import(Runtime& runtime, const Request& request, std::shared_ptr<Answer> answer)
      : runtime_(runtime), request_(request), answer_(std::move(answer)) {}

  // After an error nobody has been told of it yet.
  absl::Status Begin() {
    RETURN_IF_ERROR(RefuseOthers(request_.query));
    // The path has the id, so its key is checked already.
    ASSIGN_OR_RETURN(stream_, runtime_.engine.ImportDocument(
                                  request_.parameter, {.peer = request_.peer,
                                                       .owner = request_.caller.name(),
                                                       .account = request_.caller.account()}));
    Read();
    return absl::OkStatus();
  }

 private:
  void Read() {
    request_.stream->Read([self = shared_from_this()](absl::StatusOr<std::string> piece) {
      self->OnPiece(std::move(piece));
    });
  }

  // On the network's thread.
  void OnPiece(absl::StatusOr<std::string> piece) {
    auto shared = std::make_shared<absl::StatusOr<std::string>>(std::move(piece));
    runtime_.Continue([self = shared_from_this(), shared] {
      const absl::Status status = OrExhausted("an import", [&] { return self->Take(*shared); });
      if (!status.ok()) self->Fail(status);
    });
  }

  absl::Status Take(const absl::StatusOr<std::string>& piece) {
    RETURN_IF_ERROR(piece.status());
    RETURN_IF_ERROR(runtime_.CheckKey(request_));
    if (!piece->empty()) {
      RETURN_IF_ERROR(stream_->Append(*piece));
      Read();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const store::DocumentInfo document, stream_->Finish());
    stream_.reset();
    SendJson(*answer_, EncodeDocument(document), 201);
    return absl::OkStatus();
  }

  // What was written goes first: a client that has heard how its import ended may write the same id
  // at once.
  void Fail(const absl::Status& status) {
    stream_.reset();
    // What is damaged is the request, and nothing of the server's.
    SendError(*answer_, status, "", absl::IsDataLoss(status) ? 400 : 0);
  }

  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const Request request_;
  const std::shared_ptr<Answer> answer_;
  std::unique_ptr<engine::ImportStream> stream_;
};

}  // namespace

absl::Status ExportDocument(Runtime& runtime, const Request& request,
                            const std::shared_ptr<Answer>& answer) {
  RETURN_IF_ERROR(RefuseOthers(request.query));
  ASSIGN_OR_RETURN(const std::shared_ptr<engine::ExportStream> stream,
                   runtime.engine.ExportDocument(request.parameter));
  const auto next = [&runtime, request, stream, bytes = std::string(),
                     sent = size_t{0}]() mutable -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(runtime.CheckKey(request));
    if (sent == bytes.size()) {
      ASSIGN_OR_RETURN(bytes, stream->Next());
      sent = 0;
    }
    std::string part = bytes.substr(sent, kPartBytes);
    sent += part.size();
    return part;
  };
  runtime.SendParts(answer, {200, "application/octet-stream"}, next);
  return absl::OkStatus();
}

absl::Status ImportDocument(Runtime& runtime, const Request& request,
                            const std::shared_ptr<Answer>& answer) {
  return std::make_shared<Import>(runtime, request, answer)->Begin();
}

}  // namespace recollect::http
