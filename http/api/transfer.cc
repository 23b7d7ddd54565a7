#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
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

// The key may have been revoked since the request began.
absl::Status CheckKey(const Runtime& runtime, const Request& request) {
  if (runtime.options.authorize == nullptr) return absl::OkStatus();
  return runtime.options.authorize(request).status();
}

// The next part is read when the one before is on its way.
class Export final : public std::enable_shared_from_this<Export> {
 public:
  Export(Runtime& runtime, const Request& request, std::shared_ptr<Answer> answer)
      : runtime_(runtime), request_(request), answer_(std::move(answer)) {}

  // Waits for the disk, like Next.
  absl::Status Begin() {
    RETURN_IF_ERROR(RefuseOthers(request_.query));
    ASSIGN_OR_RETURN(stream_, runtime_.engine.ExportDocument(request_.parameter));
    Next();
    return absl::OkStatus();
  }

 private:
  void Next() {
    const absl::Status read = OrExhausted("an export", [&] { return Read(); });
    if (!read.ok()) return begun_ ? answer_->Break() : SendError(*answer_, read);
    if (!std::exchange(begun_, true)) answer_->Begin("application/octet-stream");
    const absl::string_view part = absl::string_view(bytes_).substr(sent_, kPartBytes);
    if (part.empty()) return answer_->End();
    sent_ += part.size();
    answer_->Write(part);
    answer_->WhenTaken(
        [self = shared_from_this()] { self->runtime_.Continue([self] { self->Next(); }); });
  }

  absl::Status Read() {
    RETURN_IF_ERROR(CheckKey(runtime_, request_));
    if (sent_ < bytes_.size()) return absl::OkStatus();
    ASSIGN_OR_RETURN(bytes_, stream_->Next());
    sent_ = 0;
    return absl::OkStatus();
  }

  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const Request request_;
  const std::shared_ptr<Answer> answer_;
  std::unique_ptr<engine::ExportStream> stream_;
  std::string bytes_;  // of the file, as the engine gave them; none: all is sent
  size_t sent_ = 0;    // of those
  bool begun_ = false;
};

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
    RETURN_IF_ERROR(CheckKey(runtime_, request_));
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

void ExportDocument(Runtime& runtime, const Request& request,
                    const std::shared_ptr<Answer>& answer) {
  const absl::Status begun = std::make_shared<Export>(runtime, request, answer)->Begin();
  if (!begun.ok()) SendError(*answer, begun);
}

void ImportDocument(Runtime& runtime, const Request& request,
                    const std::shared_ptr<Answer>& answer) {
  const absl::Status begun = std::make_shared<Import>(runtime, request, answer)->Begin();
  if (!begun.ok()) SendError(*answer, begun);
}

}  // namespace recollect::http
