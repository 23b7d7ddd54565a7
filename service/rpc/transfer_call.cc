#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/memory.h"
#include "base/status.h"
#include "service/limits.h"
#include "service/rpc/services.h"
#include "service/rpc/silence_alarm.h"

namespace recollect::service {
namespace {

// Reads the next bytes of the file when the last ones are sent, so that a client that is slow holds
// a message and nothing more. The disk is waited for on threads of the pool.
class ExportCall final : public grpc::ServerWriteReactor<v1::ExportDocumentResponse> {
 public:
  ExportCall(Runtime& runtime, engine::Engine& engine, Context* context,
             const v1::ExportDocumentRequest& request)
      : call_(runtime, kMethod<v1::ExportDocumentRequest>.name, context),
        engine_(engine),
        id_(request.id()) {
    if (absl::Status admitted = call_.AdmitFor(request); !admitted.ok()) {
      End(admitted);
    } else {
      Post([this] { return Begin(); });
    }
  }

 private:
  // An error of `step` ends the call.
  template <typename Step>
  void Post(const Step& step) {
    const absl::Status posted = call_.runtime().Post([this, step] {
      if (absl::Status status = OrExhausted("a call", step); !status.ok()) End(std::move(status));
    });
    if (!posted.ok()) End(posted);
  }

  absl::Status Begin() {
    ASSIGN_OR_RETURN(stream_, engine_.ExportDocument(id_));
    *response_.mutable_document() = Encode(stream_->document());
    return SendNext();
  }

  absl::Status SendNext() {
    RETURN_IF_ERROR(call_.CheckStill());
    if (sent_ == std::ssize(bytes_)) {
      ASSIGN_OR_RETURN(bytes_, stream_->Next());
      sent_ = 0;
    }
    if (bytes_.empty()) {
      End(absl::OkStatus());
      return absl::OkStatus();
    }
    const int64_t size = std::min(kMaxFileBytes, std::ssize(bytes_) - sent_);
    response_.set_data(bytes_.substr(static_cast<size_t>(sent_), static_cast<size_t>(size)));
    sent_ += size;
    StartWrite(&response_);
    return absl::OkStatus();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client is gone"));
    response_.Clear();
    Post([this] { return SendNext(); });
  }

  void End(absl::Status status) {
    stream_.reset();
    Finish(call_.End(std::move(status)));
  }
  void OnCancel() override {}  // the next write finds it
  void OnDone() override { delete this; }

  Call call_;
  engine::Engine& engine_;
  const std::string id_;
  std::unique_ptr<engine::ExportStream> stream_;
  v1::ExportDocumentResponse response_;
  std::string bytes_;  // of the file, as the engine gave them
  int64_t sent_ = 0;   // of those
};

// One thing at a time, as an ingest: read a message, hand it over, answer, read the next.
class ImportCall final
    : public grpc::ServerBidiReactor<v1::ImportDocumentRequest, v1::ImportDocumentResponse> {
 public:
  ImportCall(Runtime& runtime, engine::Engine& engine, Context* context)
      : call_(runtime, kMethod<v1::ImportHeader>.name, context), engine_(engine) {
    if (absl::Status admitted = call_.Admit(MayImport); !admitted.ok()) {
      End(admitted);
    } else {
      Read();
    }
  }

 private:
  // Before there is a header: who may not import at all holds no stream open.
  static absl::Status MayImport(const access::Caller& caller) {
    return caller.CheckRight(access::Right::kFull, "ImportDocument");
  }

  // Where a step begins after another one, or hands over to it. gRPC orders them, in a way that the
  // thread sanitizer does not see: it would look at every chunk of a document as at a race.
  void Follow() { steps_.fetch_add(1, std::memory_order_acq_rel); }

  // Over with the message, or with the alarm where that comes first.
  void Read() {
    const absl::Duration silence = call_.runtime().ingest_silence;
    alarm_.Set(silence, [this, silence] {
      End(absl::AbortedError(absl::StrCat("nothing came for ", absl::FormatDuration(silence))));
    });
    Follow();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    Follow();
    if (!alarm_.Disarm()) return;
    if (!ok) {
      return End(absl::InvalidArgumentError(
          absl::StrCat("the stream ended without finish, after ", accepted_, " bytes")));
    }
    const absl::Status posted = call_.runtime().Post([this] {
      if (absl::Status status = OrExhausted("a call", [this] { return Take(); }); !status.ok()) {
        return End(std::move(status));
      }
      response_.set_accepted_bytes(accepted_);
      Follow();
      StartWrite(&response_);
    });
    if (!posted.ok()) End(posted);
  }

  absl::Status Take() {
    if (request_.has_header() == (stream_ != nullptr)) {
      return absl::InvalidArgumentError("the header is the first message, and sent once");
    }
    RETURN_IF_ERROR(call_.CheckStill());
    switch (request_.request_case()) {
      case v1::ImportDocumentRequest::kHeader: {
        RETURN_IF_ERROR(Authorize(engine_, call_.caller(), request_.header()));
        ASSIGN_OR_RETURN(stream_,
                         engine_.ImportDocument(request_.header().id(), call_.origin(),
                                                [caller = call_.caller()](const std::string& id) {
                                                  return caller.CheckDocument(id);
                                                }));
        return absl::OkStatus();
      }
      case v1::ImportDocumentRequest::kData: {
        const int64_t size = std::ssize(request_.data());
        if (size > kMaxFileBytes) {
          return absl::InvalidArgumentError(
              absl::StrCat("data: bytes: ", size, ", limit ", kMaxFileBytes));
        }
        RETURN_IF_ERROR(stream_->Append(request_.data()));
        accepted_ += size;
        return absl::OkStatus();
      }
      case v1::ImportDocumentRequest::kFinish: {
        ASSIGN_OR_RETURN(const store::DocumentInfo document, stream_->Finish());
        *response_.mutable_document() = Encode(document);
        return absl::OkStatus();
      }
      case v1::ImportDocumentRequest::REQUEST_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("request: empty, needs header, data or finish");
  }

  void OnWriteDone(bool ok) override {
    Follow();
    if (response_.has_document()) return End(absl::OkStatus());  // also when nobody stayed to hear
    if (!ok) return End(absl::CancelledError("the client is gone"));
    Read();
  }

  // The stream goes first, with what it has written: a client that has heard how its call ended may
  // write the same id at once. That waits for the disk, which threads of gRPC may not.
  void End(absl::Status status) {
    if (stream_ == nullptr) return Finish(call_.End(std::move(status)));
    const absl::Status posted = call_.runtime().Post([this, status] {
      stream_.reset();
      Finish(call_.End(status));
    });
    if (posted.ok()) return;
    stream_.reset();
    Finish(call_.End(std::move(status)));
  }
  void OnCancel() override {}  // the read or write that is under way ends with it
  void OnDone() override { delete this; }

  Call call_;
  engine::Engine& engine_;
  std::atomic<int64_t> steps_{0};
  SilenceAlarm alarm_;
  std::unique_ptr<engine::ImportStream> stream_;
  v1::ImportDocumentRequest request_;
  v1::ImportDocumentResponse response_;
  int64_t accepted_ = 0;
};

}  // namespace

grpc::ServerWriteReactor<v1::ExportDocumentResponse>* StartExportCall(
    Runtime& runtime, engine::Engine& engine, Context* context,
    const v1::ExportDocumentRequest& request) {
  return new ExportCall(runtime, engine, context, request);
}

grpc::ServerBidiReactor<v1::ImportDocumentRequest, v1::ImportDocumentResponse>* StartImportCall(
    Runtime& runtime, engine::Engine& engine, Context* context) {
  return new ImportCall(runtime, engine, context);
}

}  // namespace recollect::service
