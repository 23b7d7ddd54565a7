#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/status.h"
#include "http/api/encode.h"
#include "http/api/handlers.h"
#include "http/api/published_part.h"
#include "http/api/query.h"
#include "http/net/entity_tag.h"
#include "http/net/errors.h"
#include "http/net/json.h"
#include "http/net/ranges.h"

namespace recollect::http {
namespace {

using nlohmann::json;

constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);

json EncodeProgress(const engine::IngestStatus& status) {
  return {{"accepted_bytes", status.accepted_offset},
          {"committed_bytes", status.committed_offset},
          {"tokens", status.tokens},
          {"chunks", status.chunks},
          {"tokens_per_s", std::round(status.tokens_per_s * 10) / 10}};
}

struct AskedUpload {
  engine::SessionOptions session;  // its pattern
  std::optional<engine::Replacement> replacement;
  std::optional<std::string> metadata;
};

absl::StatusOr<AskedUpload> DecodeUpload(Query query, bool appends) {
  AskedUpload asked;
  RETURN_IF_ERROR(TakePattern(query, asked.session));
  if (appends) {
    asked.replacement = {.appends = true};
    RETURN_IF_ERROR(RefuseOthers(query));
    return asked;
  }
  std::string replace = "false";
  RETURN_IF_ERROR(Take(query, "replace", replace));
  if (replace != "true" && replace != "false") {
    return absl::InvalidArgumentError(
        absl::StrCat("replace: \"", replace, "\", expected true or false"));
  }
  if (replace == "true") asked.replacement.emplace();
  if (query.contains("metadata")) {
    RETURN_IF_ERROR(Take(query, "metadata", asked.metadata.emplace()));
  }
  RETURN_IF_ERROR(RefuseOthers(query));
  return asked;
}

// Whether the document is as the client takes it to be (RFC 9110, 13.1.1 and 13.1.2): 412
// otherwise.
bool MeetsConditions(const Request& request, const absl::StatusOr<store::DocumentInfo>& document) {
  const std::string tag = document.ok() ? absl::StrCat("\"", document->sha256, "\"") : "";
  const auto names = [&](absl::string_view header, TagComparison comparison) {
    return document.ok() && NamesTag(header, tag, comparison);
  };
  const auto match = HeaderOf(request, "if-match"), none = HeaderOf(request, "if-none-match");
  return (!match.has_value() || names(*match, TagComparison::kStrong)) &&
         (!none.has_value() || !names(*none, TagComparison::kWeak));
}

// One thing at a time: read a piece, let the engine take it, read the next. Each step starts the
// one after it, so nothing here needs a lock; only Cancel comes from elsewhere.
class Upload final : public std::enable_shared_from_this<Upload> {
 public:
  Upload(Runtime& runtime, const Request& request, std::shared_ptr<Answer> answer, bool appends)
      : runtime_(runtime),
        appends_(appends),
        request_(request),
        id_(request.parameter),
        body_(request.stream),
        answer_(std::move(answer)),
        lines_(
            absl::StrContains(HeaderOf(request, "accept").value_or(""), "application/x-ndjson")) {}

  // Waits for the disk. After an error, which nobody has been told yet, call Refuse.
  absl::Status Begin(const Request& request);
  void Refuse(const absl::Status& status);

 private:
  absl::Status CheckLength(const Request& request) const;
  void Read();
  void OnPiece(absl::StatusOr<std::string> piece);
  absl::Status Skip(std::string& piece);
  void OnTaken(const absl::StatusOr<engine::IngestStatus>& status);
  void OnBodyEnd();
  absl::Status CheckBodyEnd() const;
  void Cancel();
  void OnThread(std::function<absl::Status()> step);
  void Fail(const absl::Status& status);
  void End(std::function<void()> tell);
  void WriteLine(const json& line);

  Runtime& runtime_;
  const Runtime::Work work_{runtime_};
  const bool appends_;
  const Request request_;
  const std::string id_;
  const std::shared_ptr<Body> body_;
  const std::shared_ptr<Answer> answer_;
  const bool lines_;  // progress as JSON lines
  std::optional<ContentRange> range_;
  bool existed_ = false;
  bool unmet_ = false;  // a condition of the request's head
  std::unique_ptr<engine::IngestStream> stream_;
  std::shared_ptr<engine::RequestHandle> handle_;  // may be null
  int64_t received_ = 0;                           // bytes of the body
  int64_t at_ = 0;                                 // where the next piece lies in the text
  // Of a body from the text's beginning: what an earlier upload has committed is not read again.
  int64_t committed_ = 0;
  std::string committed_sha256_;
  Sha256 skipped_;
  bool begun_ = false;  // lines have been written
  absl::Time told_ = absl::InfinitePast();
};

absl::Status Upload::Begin(const Request& request) {
  ASSIGN_OR_RETURN(AskedUpload asked, DecodeUpload(request.query, appends_));
  if (const auto header = HeaderOf(request, "content-range"); header.has_value()) {
    ASSIGN_OR_RETURN(range_, ParseContentRange(std::string(*header)));
  }
  RETURN_IF_ERROR(CheckLength(request));
  const absl::StatusOr<store::DocumentInfo> there = runtime_.engine.GetDocument(id_);
  existed_ = there.ok();
  unmet_ = !MeetsConditions(request, there);
  if (unmet_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "If-Match, If-None-Match: document \"", id_, "\" ",
        existed_ ? absl::StrCat("has the ETag \"", there->sha256, "\"") : "does not exist"));
  }
  // Of a document that changes between the look above and the engine's.
  if (HeaderOf(request, "if-match").has_value()) {
    asked.replacement = {.sha256 = there->sha256, .appends = appends_};
  }
  if (asked.replacement.has_value() && range_.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Content-Range: a part, but a text that ",
        appends_ ? "is appended to another" : "replaces another", " is sent in one request"));
  }
  absl::StatusOr<std::unique_ptr<engine::IngestStream>> stream = runtime_.engine.BeginIngest(
      id_, /*from_tokens=*/false, asked.session,
      {.peer = request.peer, .owner = request.caller.name(), .account = request.caller.account()},
      asked.replacement, asked.metadata);
  if (!stream.ok()) return NamedAsInQuery(stream.status());
  stream_ = *std::move(stream);
  if (existed_ && range_.has_value())
    stream_ = ComparePart(runtime_.engine, *there, range_->begin, asked.metadata);
  const engine::IngestStatus status = stream_->status();
  committed_ = status.committed_offset;
  committed_sha256_ = status.committed_sha256;
  if (range_.has_value()) {
    at_ = range_->begin;
    if (at_ != committed_) {
      return absl::OutOfRangeError(
          absl::StrCat("Content-Range: the part begins at byte ", at_, ", expected ", committed_));
    }
  }
  handle_ = stream_->handle();
  answer_->OnGone([self = shared_from_this()] { self->Cancel(); });
  Read();
  return absl::OkStatus();
}

void Upload::Refuse(const absl::Status& status) {
  stream_.reset();
  const std::string expected =
      absl::IsOutOfRange(status) ? absl::StrCat("Content-Range: bytes */", committed_, "\r\n") : "";
  SendError(*answer_, status, expected, unmet_ ? 412 : 0);
}

absl::Status Upload::CheckLength(const Request& request) const {
  int64_t length = 0;
  if (!range_.has_value() ||
      !absl::SimpleAtoi(HeaderOf(request, "content-length").value_or(""), &length) ||
      length == range_->size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Content-Range: ", range_->size(), " bytes, Content-Length: ", length));
}

void Upload::Read() {
  body_->Read([self = shared_from_this()](absl::StatusOr<std::string> piece) {
    self->OnPiece(std::move(piece));
  });
}

// On the network's thread.
void Upload::OnPiece(absl::StatusOr<std::string> piece) {
  if (!piece.ok()) return Fail(piece.status());
  if (piece->empty()) return OnBodyEnd();
  received_ += std::ssize(*piece);
  if (range_.has_value() && received_ > range_->size()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "Content-Range: ", range_->size(), " bytes, the body has at least ", received_)));
  }
  auto shared = std::make_shared<std::string>(*std::move(piece));
  OnThread([this, shared]() -> absl::Status {
    RETURN_IF_ERROR(runtime_.CheckKey(request_));
    RETURN_IF_ERROR(Skip(*shared));
    if (shared->empty()) {
      Read();
      return absl::OkStatus();
    }
    const int64_t offset = std::exchange(at_, at_ + std::ssize(*shared));
    stream_->Append(offset, std::move(*shared),
                    [self = shared_from_this()](const auto& status) { self->OnTaken(status); });
    return absl::OkStatus();
  });
}

// Takes from `piece` what is committed. That it is the same is known once all of it has come.
absl::Status Upload::Skip(std::string& piece) {
  if (at_ >= committed_) return absl::OkStatus();
  const int64_t size = std::min(std::ssize(piece), committed_ - at_);
  skipped_.Update(absl::string_view(piece).substr(0, static_cast<size_t>(size)));
  piece.erase(0, static_cast<size_t>(size));
  at_ += size;
  if (at_ < committed_ || skipped_.Hex() == committed_sha256_) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("the unfinished ingest of document \"", id_,
                                               "\" has read ", committed_,
                                               " other bytes: delete it to start again"));
}

void Upload::OnTaken(const absl::StatusOr<engine::IngestStatus>& status) {
  if (!status.ok()) return Fail(status.status());
  if (lines_ && SteadyNow() - told_ >= kProgressInterval) {
    told_ = SteadyNow();
    WriteLine(EncodeProgress(*status));
  }
  Read();
}

absl::Status Upload::CheckBodyEnd() const {
  if (range_.has_value() && received_ < range_->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Content-Range: ", range_->size(), " bytes, the body has ", received_));
  }
  if (at_ >= committed_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the text has ", at_, " bytes, but the unfinished ingest of document \"", id_,
                   "\" has read ", committed_, ": delete it to start again"));
}

void Upload::OnBodyEnd() {
  OnThread([this]() -> absl::Status {
    RETURN_IF_ERROR(CheckBodyEnd());
    const auto self = shared_from_this();
    if (range_.has_value() && !range_->last()) {
      stream_->Commit([self](const absl::StatusOr<engine::IngestStatus>& status) {
        if (!status.ok()) return self->Fail(status.status());
        json progress = EncodeProgress(*status);
        self->End([self = self.get(), progress]() mutable {
          if (self->lines_) return self->WriteLine(progress);
          progress.update({{"id", self->id_}, {"object", "ingest"}});
          SendJson(*self->answer_, progress, 202);
        });
      });
      return absl::OkStatus();
    }
    stream_->Finish([self](const absl::StatusOr<store::DocumentInfo>& document) {
      if (!document.ok()) return self->Fail(document.status());
      const json encoded = EncodeDocument(*document);
      self->End([self = self.get(), encoded] {
        if (self->lines_) return self->WriteLine({{"document", encoded}});
        SendJson(*self->answer_, encoded, self->existed_ ? 200 : 201);
      });
    });
    return absl::OkStatus();
  });
}

// From any thread. What the engine works on fails at once, and ends the upload.
void Upload::Cancel() {
  if (handle_ != nullptr) handle_->Cancel();
}

void Upload::OnThread(std::function<absl::Status()> step) {
  runtime_.Continue([self = shared_from_this(), step = std::move(step)] {
    const absl::Status status = OrExhausted("an upload", step);
    if (!status.ok()) self->Fail(status);
  });
}

void Upload::Fail(const absl::Status& status) {
  End([this, status] {
    if (!begun_) return SendError(*answer_, status);
    answer_->Write(absl::StrCat(ErrorJson(status), "\n"));
  });
}

// The stream goes first: a client that has heard how its upload ended may write the same id at
// once. On a thread of its own, because this may be a callback of that stream.
void Upload::End(std::function<void()> tell) {
  runtime_.Continue([self = shared_from_this(), tell = std::move(tell)] {
    self->stream_.reset();
    tell();
    if (self->begun_) self->answer_->End();
  });
}

void Upload::WriteLine(const json& line) {
  if (!std::exchange(begun_, true)) answer_->Begin({200, "application/x-ndjson"});
  answer_->Write(absl::StrCat(Dump(line), "\n"));
}

// Else what a form puts around a file, or the object that a client takes for its request, would
// become the text.
absl::Status CheckType(const Request& request) {
  const std::string header(HeaderOf(request, "content-type").value_or(""));
  if (absl::StartsWithIgnoreCase(header, "multipart/")) {
    return absl::InvalidArgumentError(
        "Content-Type: multipart, but the body is the text itself, without a form (curl -T FILE)");
  }
  const absl::string_view type =
      absl::StripAsciiWhitespace(absl::string_view(header).substr(0, header.find(';')));
  if (!absl::EqualsIgnoreCase(type, "application/json")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "Content-Type: 'application/json', but the body is the text itself, without JSON around it "
      "(curl -T FILE); JSON that is to be the text is sent as 'text/plain', metadata as "
      "?metadata=OBJECT");
}

absl::Status BeginUpload(Runtime& runtime, const Request& request,
                         const std::shared_ptr<Answer>& answer, bool appends) {
  if (const absl::Status status = CheckType(request); !status.ok()) {
    SendError(*answer, status, "", 415);
    return absl::OkStatus();
  }
  const auto upload = std::make_shared<Upload>(runtime, request, answer, appends);
  const absl::Status begun = upload->Begin(request);
  if (!begun.ok()) upload->Refuse(begun);
  return absl::OkStatus();
}

}  // namespace

absl::Status PutDocument(Runtime& runtime, const Request& request,
                         const std::shared_ptr<Answer>& answer) {
  return BeginUpload(runtime, request, answer, /*appends=*/false);
}

absl::Status AppendToDocument(Runtime& runtime, const Request& request,
                              const std::shared_ptr<Answer>& answer) {
  return BeginUpload(runtime, request, answer, /*appends=*/true);
}

}  // namespace recollect::http
