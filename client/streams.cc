// The stream of an ingest.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/sha256.h"
#include "base/status.h"
#include "client/client.h"
#include "client/state.h"

namespace recollect::client {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;  // of input in one message
constexpr int64_t kPieceTokens = 64 << 10;

using IngestStream = grpc::ClientReaderWriter<v1::IngestRequest, v1::IngestResponse>;
// Fills the piece that starts at its offset, with input from before `limit`, and returns where it
// ends: at its start when the input has ended.
using PieceFunction = std::function<absl::StatusOr<int64_t>(v1::IngestPiece* piece, int64_t limit)>;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// What a piece is hashed as.
absl::string_view BytesOf(const v1::IngestPiece& piece) {
  if (piece.tokens().empty()) return piece.text();
  return {reinterpret_cast<const char*>(piece.tokens().data()),
          static_cast<size_t>(piece.tokens_size()) * sizeof(int32_t)};
}

// What earlier streams had read has to be the beginning of this input: else the document would be
// neither. OUT_OF_RANGE, ALREADY_EXISTS.
absl::Status CheckCommitted(const v1::IngestProgress& progress, const PieceFunction& next_piece) {
  const int64_t committed = progress.committed_offset();
  if (progress.committed_sha256().empty()) return absl::OkStatus();
  Sha256 hash;
  for (int64_t read = 0; read < committed;) {
    v1::IngestPiece piece;
    piece.set_offset(read);
    ASSIGN_OR_RETURN(const int64_t end, next_piece(&piece, committed));
    if (end == read) {
      return absl::OutOfRangeError(absl::StrCat(
          "the input ends at ", read, ", but an earlier ingest of this id had read ", committed));
    }
    hash.Update(BytesOf(piece));
    read = end;
  }
  const std::string found = hash.Hex();
  if (found == progress.committed_sha256()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("an earlier ingest of this id had read other input: the first ", committed,
                   " of this one have SHA-256 ", found, ", expected ", progress.committed_sha256(),
                   "; delete the unfinished document, or take another id"));
}

// Runs the conversation on a stream whose header has been sent, as long as the server goes along.
// Not OK: the input failed. When the server ends the stream, `document` stays as it was and the
// stream's status says why.
absl::Status SendInput(IngestStream& stream, const PieceFunction& next_piece,
                       const ProgressFunction& progress, v1::Document* document) {
  v1::IngestResponse response;
  if (!stream.Read(&response)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckCommitted(response.progress(), next_piece));
  if (progress != nullptr) progress(response.progress());
  int64_t sent = response.progress().committed_offset();
  int64_t accepted = sent;
  while (true) {
    v1::IngestRequest request;
    request.mutable_piece()->set_offset(sent);
    ASSIGN_OR_RETURN(const int64_t end, next_piece(request.mutable_piece(), kNoLimit));
    if (end == sent) break;
    if (!stream.Write(request)) return absl::OkStatus();
    // Never a piece ahead: inside one process a write waits for its reader, and the server answers
    // before it reads.
    for (sent = end; accepted < sent;) {
      if (!stream.Read(&response)) return absl::OkStatus();
      accepted = response.progress().accepted_offset();
      if (progress != nullptr) progress(response.progress());
    }
  }
  v1::IngestRequest finish;
  finish.mutable_finish();
  if (!stream.Write(finish)) return absl::OkStatus();
  while (stream.Read(&response)) {
    if (progress != nullptr) progress(response.progress());
    if (response.has_document()) *document = response.document();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Document> Ingest(std::unique_ptr<IngestStream> stream,
                                    const v1::IngestHeader& begin, const PieceFunction& next_piece,
                                    const ProgressFunction& progress) {
  v1::IngestRequest header;
  *header.mutable_header() = begin;
  v1::Document document;
  if (stream->Write(header)) {
    if (absl::Status input = SendInput(*stream, next_piece, progress, &document); !input.ok()) {
      // Not cancelled: the server answers once it has let go of the id, so that the next one may
      // begin at once.
      stream->WritesDone();
      (void)ReadToEnd<v1::IngestResponse>(*stream);
      return input;
    }
  }
  RETURN_IF_ERROR(ReadToEnd<v1::IngestResponse>(*stream));
  return document;
}

// Whether an input of `size` goes as far as an earlier stream of the same id was read.
absl::Status CheckInputReaches(int64_t offset, int64_t size, const char* unit) {
  if (offset <= size) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "the input has ", size, " ", unit, ", but an earlier ingest of this id had read ", offset));
}

v1::IngestHeader Header(const std::string& id, v1::InputKind kind, const IngestOptions& options) {
  v1::IngestHeader header;
  header.set_id(id);
  header.set_kind(kind);
  *header.mutable_session() = options.session;
  header.set_replace(options.replace);
  header.set_append(options.append);
  if (options.metadata.has_value()) header.set_metadata(*options.metadata);
  return header;
}

}  // namespace

TextReader ReadFrom(std::string text) {
  return [text = std::move(text)](int64_t offset, int64_t limit) -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(CheckInputReaches(offset, static_cast<int64_t>(text.size()), "bytes"));
    return text.substr(static_cast<size_t>(offset), static_cast<size_t>(limit));
  };
}

absl::StatusOr<v1::Document> Client::IngestText(const std::string& id, const TextReader& reader,
                                                const ProgressFunction& progress,
                                                const IngestOptions& options) {
  const auto next_piece = [&](v1::IngestPiece* piece, int64_t limit) -> absl::StatusOr<int64_t> {
    const int64_t most = std::min(kPieceBytes, limit - piece->offset());
    ASSIGN_OR_RETURN(*piece->mutable_text(), reader(piece->offset(), most));
    return piece->offset() + static_cast<int64_t>(piece->text().size());
  };
  grpc::ClientContext context;
  SetKey(state_->options, &context);
  return Ingest(state_->documents->Ingest(&context), Header(id, v1::INPUT_KIND_TEXT, options),
                next_piece, progress);
}

absl::StatusOr<v1::Document> Client::IngestTokens(const std::string& id,
                                                  const std::vector<int32_t>& tokens,
                                                  const ProgressFunction& progress,
                                                  const IngestOptions& options) {
  const auto next_piece = [&](v1::IngestPiece* piece, int64_t limit) -> absl::StatusOr<int64_t> {
    const int64_t size = static_cast<int64_t>(tokens.size());
    const int64_t begin = piece->offset();
    RETURN_IF_ERROR(CheckInputReaches(begin, size, "tokens"));
    const int64_t end = std::min({begin + kPieceTokens, size, limit});
    piece->mutable_tokens()->Add(tokens.begin() + begin, tokens.begin() + end);
    return end;
  };
  grpc::ClientContext context;
  SetKey(state_->options, &context);
  return Ingest(state_->documents->Ingest(&context), Header(id, v1::INPUT_KIND_TOKENS, options),
                next_piece, progress);
}

}  // namespace recollect::client
