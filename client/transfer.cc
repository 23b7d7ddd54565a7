// Documents as files: export and import.
#include <utility>

#include "base/status.h"
#include "client/client.h"
#include "client/state.h"

namespace recollect::client {
namespace {

constexpr int64_t kMessageBytes = 1 << 20;  // the server's limit

using ImportStream =
    grpc::ClientReaderWriter<v1::ImportDocumentRequest, v1::ImportDocumentResponse>;

// As long as the server goes along. Not OK: the file could not be read. When the server ends the
// stream, the stream's status says why.
absl::Status SendFile(ImportStream& stream, const std::string& id, const TextReader& file,
                      const std::function<void(int64_t)>& progress, v1::Document* document) {
  v1::ImportDocumentRequest request;
  v1::ImportDocumentResponse response;
  request.mutable_header()->set_id(id);
  if (!stream.Write(request) || !stream.Read(&response)) return absl::OkStatus();
  // Never a message ahead: inside one process a write waits for its reader.
  for (int64_t sent = 0;;) {
    ASSIGN_OR_RETURN(std::string bytes, file(sent, kMessageBytes));
    if (bytes.empty()) break;
    sent += std::ssize(bytes);
    request.set_data(std::move(bytes));
    if (!stream.Write(request) || !stream.Read(&response)) return absl::OkStatus();
    if (progress != nullptr) progress(response.accepted_bytes());
  }
  request.mutable_finish();
  if (!stream.Write(request)) return absl::OkStatus();
  while (stream.Read(&response)) {
    if (response.has_document()) *document = response.document();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Document> Client::RefreshDocument(
    const std::string& id, const std::function<void(const v1::IngestProgress&)>& progress) {
  grpc::ClientContext context;
  SetKey(state_->options, &context);
  v1::RefreshDocumentRequest request;
  request.set_id(id);
  const auto stream = state_->documents->RefreshDocument(&context, request);
  v1::Document document;
  v1::RefreshDocumentResponse response;
  while (stream->Read(&response)) {
    if (response.has_document()) document = response.document();
    if (response.has_progress() && progress != nullptr) progress(response.progress());
  }
  RETURN_IF_ERROR(FromGrpc(stream->Finish()));
  return document;
}

absl::StatusOr<v1::Document> Client::ExportDocument(const std::string& id, const ByteSink& sink) {
  grpc::ClientContext context;
  SetKey(state_->options, &context);
  v1::ExportDocumentRequest request;
  request.set_id(id);
  const auto stream = state_->documents->ExportDocument(&context, request);
  v1::Document document;
  v1::ExportDocumentResponse response;
  absl::Status taken;
  while (taken.ok() && stream->Read(&response)) {
    if (response.has_document()) document = response.document();
    taken = sink(response.data());
  }
  if (!taken.ok()) {
    context.TryCancel();
    (void)stream->Finish();
    return taken;
  }
  RETURN_IF_ERROR(FromGrpc(stream->Finish()));
  return document;
}

absl::StatusOr<v1::Document> Client::ImportDocument(
    const std::string& id, const TextReader& file,
    const std::function<void(int64_t accepted_bytes)>& progress) {
  grpc::ClientContext context;
  SetKey(state_->options, &context);
  const auto stream = state_->documents->ImportDocument(&context);
  v1::Document document;
  const absl::Status read = SendFile(*stream, id, file, progress, &document);
  stream->WritesDone();
  const absl::Status ended = ReadToEnd<v1::ImportDocumentResponse>(*stream);
  RETURN_IF_ERROR(read);
  RETURN_IF_ERROR(ended);
  return document;
}

}  // namespace recollect::client
