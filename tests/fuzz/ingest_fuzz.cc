// The input is a byte, which chooses a model, and the messages of an Ingest stream, each after its
// length. They go the way of service/rpc/ingest_call.cc, without the network.
#include "base/sha256.h"
#include "base/status.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "service/codec/codec.h"
#include "service/limits.h"
#include "tests/fuzz/tiny_engine.h"

namespace {

using namespace recollect;  // NOLINT

std::string Hash(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Hex();
}

// One stream, and what it has sent.
class Call {
 public:
  explicit Call(engine::Engine& engine) : engine_(engine) {}

  absl::Status Handle(const v1::IngestRequest& request) {
    switch (request.request_case()) {
      case v1::IngestRequest::kHeader:
        return OnHeader(request.header());
      case v1::IngestRequest::kPiece:
        return OnPiece(request.piece());
      case v1::IngestRequest::kFinish:
        return OnFinish();
      case v1::IngestRequest::REQUEST_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("request: empty");
  }
  bool published() const { return published_; }

  // A published document is what was sent. One that is not is resumed and sent to its end, which
  // gives the same. Afterwards nothing is left of it.
  void Check() {
    if (stream_ == nullptr) return;
    stream_.reset();
    if (!published_ && !from_tokens_) Resume();
    if (published_) CheckDocument();
    const absl::Status deleted = engine_.DeleteDocument(id_);
    RECOLLECT_CHECK(deleted.ok() || (absl::IsNotFound(deleted) && !published_));
    RECOLLECT_CHECK(engine_.ListDocuments("", 1)->empty() && engine_.ListIngests()->empty());
  }

 private:
  absl::Status OnHeader(const v1::IngestHeader& header) {
    if (stream_ != nullptr) return absl::InvalidArgumentError("header: sent twice");
    if (!v1::InputKind_IsValid(header.kind())) return absl::InvalidArgumentError("header.kind");
    from_tokens_ = header.kind() == v1::INPUT_KIND_TOKENS;
    session_ = service::Decode(header.session());
    ASSIGN_OR_RETURN(stream_, engine_.BeginIngest(header.id(), from_tokens_, session_));
    id_ = header.id();
    service::Encode(stream_->status());
    return absl::OkStatus();
  }

  absl::Status OnPiece(const v1::IngestPiece& piece) {
    if (stream_ == nullptr) return absl::InvalidArgumentError("piece: sent before the header");
    RETURN_IF_ERROR(service::CheckPiece(piece, from_tokens_));
    const int64_t sent = from_tokens_ ? tokens_sent_ : std::ssize(text_);
    if (piece.offset() == sent) {
      text_ += piece.text();
      tokens_sent_ += piece.tokens_size();
    }
    const auto status = from_tokens_ ? fuzz::Await<engine::IngestStatus>([&](auto done) {
      stream_->AppendTokens(piece.offset(), {piece.tokens().begin(), piece.tokens().end()},
                            std::move(done));
    })
                                     : fuzz::Append(*stream_, piece.offset(), piece.text());
    if (!status.ok()) return status.status();
    RECOLLECT_CHECK(piece.offset() == sent);
    RECOLLECT_CHECK(status->committed_offset <= status->accepted_offset);
    service::Encode(*status);
    return absl::OkStatus();
  }

  absl::Status OnFinish() {
    if (stream_ == nullptr) return absl::InvalidArgumentError("finish: sent before the header");
    ASSIGN_OR_RETURN(info_, fuzz::Finish(*stream_));
    published_ = true;
    service::Encode(info_);
    return absl::OkStatus();
  }

  void Resume() {
    auto stream = engine_.BeginIngest(id_, from_tokens_, session_);
    RECOLLECT_CHECK(stream.ok());
    stream_ = *std::move(stream);
    const engine::IngestStatus status = stream_->status();
    const int64_t committed = status.committed_offset;
    RECOLLECT_CHECK(committed <= std::ssize(text_));
    const std::string before = text_.substr(0, static_cast<size_t>(committed));
    RECOLLECT_CHECK(status.committed_sha256 == (before.empty() ? "" : Hash(before)));
    if (fuzz::Append(*stream_, committed, text_.substr(before.size())).ok()) {
      const absl::Status finished = OnFinish();
      if (!finished.ok()) fuzz::CheckRefusal(finished, {absl::StatusCode::kInvalidArgument});
    }
    stream_.reset();
  }

  void CheckDocument() {
    const auto stored = engine_.GetDocument(id_);
    RECOLLECT_CHECK(stored.ok() && stored->sha256 == info_.sha256);
    const auto text = engine_.ReadText(id_, 0, info_.bytes);
    RECOLLECT_CHECK(text.ok() && Hash(*text) == info_.sha256);
    RECOLLECT_CHECK(from_tokens_ ? info_.tokens == tokens_sent_ : *text == text_);
  }

  engine::Engine& engine_;
  std::unique_ptr<engine::IngestStream> stream_;
  engine::SessionOptions session_;
  std::string id_, text_;
  bool from_tokens_ = false, published_ = false;
  int64_t tokens_sent_ = 0;
  store::DocumentInfo info_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Call call(*(data[0] % 2 == 0 ? fuzz::TinyDrt() : fuzz::TinyRatPlus()).engine);
  google::protobuf::io::ArrayInputStream messages(data + 1, static_cast<int>(size - 1));
  v1::IngestRequest request;
  while (!call.published() && google::protobuf::util::ParseDelimitedFromZeroCopyStream(
                                  &request, &messages, /*clean_eof=*/nullptr)) {
    const absl::Status status = call.Handle(request);
    if (status.ok()) continue;
    fuzz::CheckRefusal(status,
                       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
                        absl::StatusCode::kResourceExhausted});
    break;
  }
  call.Check();
  return 0;
}
