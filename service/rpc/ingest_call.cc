#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "service/limits.h"
#include "service/rpc/services.h"
#include "service/rpc/silence_alarm.h"

namespace recollect::service {
namespace {

// One thing at a time, as the engine's stream takes its input: read a message, let the engine work
// on it part by part, answer, read the next. Each step starts the one after it, so nothing here
// needs a lock except what OnCancel touches. gRPC itself buffers the messages that a client sends
// ahead.
class IngestCall final : public grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse> {
 public:
  IngestCall(Runtime& runtime, engine::Engine& engine, Context* context)
      : call_(runtime, kMethod<v1::IngestHeader>.name, context), engine_(engine) {
    if (absl::Status admitted = call_.Admit(MayIngest); !admitted.ok()) {
      End(admitted);
    } else {
      Read();
    }
  }

 private:
  // Before there is a header: who may not ingest at all holds no stream open.
  static absl::Status MayIngest(const access::Caller& caller) {
    return caller.CheckRight(access::Right::kFull, "Ingest");
  }

  // Over with the message, or with the alarm where that comes first.
  void Read() {
    alarm_.Set(call_.runtime().ingest_silence, [this] { End(Silent()); });
    StartRead(&request_);
  }

  absl::Status Silent() const {
    // Worth another try, as after a broken connection.
    return absl::AbortedError(
        absl::StrCat("nothing came for ", absl::FormatDuration(call_.runtime().ingest_silence),
                     "; committed up to offset ", last_status_.committed_offset));
  }

  void OnReadDone(bool ok) override {
    if (!alarm_.Disarm()) return;
    if (!ok) return OnInputEnd();
    switch (request_.request_case()) {
      case v1::IngestRequest::kHeader:
        return OnHeader();
      case v1::IngestRequest::kPiece:
        return OnPiece();
      case v1::IngestRequest::kFinish:
        return OnFinish();
      case v1::IngestRequest::REQUEST_NOT_SET:
        break;
    }
    End(absl::InvalidArgumentError("request: empty, needs header, piece or finish"));
  }

  // That the input ends may be heard before the cancellation or deadline that ended it. A client
  // that is still there takes an answer.
  void OnInputEnd() {
    input_ended_ = true;
    Answer(stream_ == nullptr ? engine::IngestStatus() : stream_->status());
  }

  void OnHeader() {
    if (stream_ != nullptr) return End(absl::InvalidArgumentError("header: sent twice"));
    const absl::Status posted = call_.runtime().Post([this] {
      if (absl::Status status = Begin(); !status.ok()) return End(status);
      Answer(stream_->status());
    });
    if (!posted.ok()) End(posted);
  }

  absl::Status Begin() {
    const v1::IngestHeader& header = request_.header();
    RETURN_IF_ERROR(Authorize(engine_, call_.caller(), header));
    if (!v1::InputKind_IsValid(header.kind())) {
      return absl::InvalidArgumentError(absl::StrCat("header.kind: unknown value ", header.kind()));
    }
    if (header.replace() && header.append()) {
      return absl::InvalidArgumentError("header.append: set, and header.replace too");
    }
    const bool changes = header.replace() || header.append();
    if (!changes && !header.replaces_sha256().empty()) {
      return absl::InvalidArgumentError(
          "header.replaces_sha256: set, but header.replace and header.append are not");
    }
    from_tokens_ = header.kind() == v1::INPUT_KIND_TOKENS;
    std::optional<engine::Replacement> replacement;
    if (changes) replacement = {header.replaces_sha256(), header.append()};
    std::optional<std::string> metadata;
    if (header.has_metadata()) metadata = header.metadata();
    ASSIGN_OR_RETURN(stream_,
                     engine_.BeginIngest(header.id(), from_tokens_, Decode(header.session()),
                                         call_.origin(), replacement, metadata));
    cancellation_.Set(stream_->handle());
    return absl::OkStatus();
  }

  void OnPiece() {
    if (stream_ == nullptr) return End(absl::InvalidArgumentError("piece: sent before the header"));
    if (absl::Status status = CheckPiece(request_.piece(), from_tokens_); !status.ok())
      return End(status);
    if (absl::Status status = call_.CheckStill(); !status.ok()) return End(status);
    part_begin_ = 0;
    AppendPart();
  }

  // Hands the engine the next part of the piece; what follows happens in its callback.
  void AppendPart() {
    const v1::IngestPiece& piece = request_.piece();
    const int64_t size = from_tokens_ ? piece.tokens_size() : piece.text().size();
    const int64_t begin = part_begin_;
    part_begin_ = std::min(size, begin + (from_tokens_ ? kAppendTokens : kAppendBytes));
    auto done = [this, last = part_begin_ == size](absl::StatusOr<engine::IngestStatus> status) {
      if (!status.ok()) return End(status.status());
      if (cancellation_.cancelled()) return End(absl::CancelledError("cancelled by the client"));
      if (!last && SteadyNow() - answered_ < kAnswerInterval) return AppendPart();
      more_parts_ = !last;
      Answer(*status);
    };
    if (from_tokens_) {
      const auto first = piece.tokens().begin();
      stream_->AppendTokens(piece.offset() + begin, {first + begin, first + part_begin_},
                            std::move(done));
    } else {
      stream_->Append(piece.offset() + begin, piece.text().substr(begin, part_begin_ - begin),
                      std::move(done));
    }
  }

  void OnFinish() {
    if (stream_ == nullptr)
      return End(absl::InvalidArgumentError("finish: sent before the header"));
    stream_->Finish([this](absl::StatusOr<store::DocumentInfo> document) {
      if (!document.ok()) return End(document.status());
      published_ = true;
      *response_.mutable_document() = Encode(*document);
      last_status_.committed_offset = last_status_.accepted_offset;
      last_status_.bytes = document->bytes;
      last_status_.tokens = document->tokens;
      last_status_.chunks = document->chunks;
      Answer(last_status_);
    });
  }

  void Answer(engine::IngestStatus status) {
    answered_ = SteadyNow();
    last_status_ = status;
    *response_.mutable_progress() = Encode(status);
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (published_) return End(absl::OkStatus());  // also when the client has not stayed to hear it
    if (!ok) return End(absl::CancelledError("the client is gone"));
    if (input_ended_) {
      return End(absl::InvalidArgumentError(
          absl::StrCat("the stream ended without finish; committed up to offset ",
                       last_status_.committed_offset)));
    }
    if (more_parts_) {
      more_parts_ = false;
      return AppendPart();
    }
    Read();
  }

  // The stream goes first: a client that has heard how its call ended may write the same id at
  // once. Not here, because this may be a callback of that stream.
  void End(absl::Status status) {
    if (stream_ == nullptr) return Finish(call_.End(std::move(status)));
    const absl::Status posted = call_.runtime().Post([this, status] {
      stream_.reset();
      Finish(call_.End(status));
    });
    if (!posted.ok()) Finish(call_.End(std::move(status)));
  }
  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

  static constexpr absl::Duration kAnswerInterval = absl::Milliseconds(200);

  Call call_;
  engine::Engine& engine_;
  Cancellation cancellation_;
  SilenceAlarm alarm_;
  bool from_tokens_ = false;
  std::unique_ptr<engine::IngestStream> stream_;
  v1::IngestRequest request_;
  v1::IngestResponse response_;
  int64_t part_begin_ = 0;   // of the piece, what the engine has not been handed yet
  bool more_parts_ = false;  // an answer was sent inside a piece
  bool published_ = false;
  bool input_ended_ = false;
  absl::Time answered_ = absl::InfinitePast();
  engine::IngestStatus last_status_;
};

}  // namespace

grpc::ServerBidiReactor<v1::IngestRequest, v1::IngestResponse>* StartIngestCall(
    Runtime& runtime, engine::Engine& engine, Context* context) {
  return new IngestCall(runtime, engine, context);
}

}  // namespace recollect::service
