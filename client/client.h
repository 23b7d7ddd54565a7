// The C++ client: recollect.v1 (proto/recollect/v1, where limits, defaults and meanings are stated)
// as blocking calls on its messages. No gRPC type appears here except a channel's name.
//
//   ASSIGN_OR_RETURN(auto client, Client::Connect("127.0.0.1:50051"));
//   ASSIGN_OR_RETURN(auto document, client->IngestText("moby-dick", ReadFrom(text)));
//   v1::GenerateRequest request;
//   request.mutable_session()->add_mounts("moby-dick");
//   request.mutable_prompt()->set_text("Call me");
//   ASSIGN_OR_RETURN(auto result, client->Generate(request));
//
// Errors are the server's, code and message (UNAUTHENTICATED: the API key); UNAVAILABLE also when
// no server answers.
//
// Several servers (replicas: the same model, the same documents; docs/scale-out.md) are one to this
// client: Connect("a:50051,b:50051"), or a name with several addresses. gRPC sends each call to one
// that it finds healthy. Where that dies, calls that only read are made again, a generation goes on
// at another with the tokens that would have followed, and an ingest may be called again as ever. A
// session lives on one replica; when that is gone the next call opens it at another, where all that
// it had read is read again. For this the client keeps prompts and answers of open sessions. ids of
// sessions are then the client's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "recollect/v1/admin.pb.h"
#include "recollect/v1/documents.pb.h"
#include "recollect/v1/generation.pb.h"

namespace grpc {
class Channel;
}

namespace recollect::client {

struct ClientOptions {
  absl::Duration connect_timeout = absl::Seconds(5);
  // For each call except ingest, export, import and SaveSession; then DEADLINE_EXCEEDED. Connecting
  // takes no longer either.
  absl::Duration timeout = absl::InfiniteDuration();
  // For a server that asks for keys; sent with every call, as it is. Visible ASCII characters.
  std::string api_key = {};
  // Certificates in PEM that are trusted, with which TLS is spoken; empty: no TLS. Those of servers
  // in a list all have to be for the first name of the list, too.
  std::string tls_ca = {};
  // With several servers: for how long a call that gets no further looks for one that answers.
  absl::Duration failover_timeout = absl::Seconds(5);
  // Called with a sentence when a call goes on at another server; on any thread that calls.
  std::function<void(const std::string& what)> on_failover = nullptr;
};

// Returns up to `limit` bytes of the input from byte `offset` on; empty at its end. Offsets ascend
// within one stream.
using TextReader = std::function<absl::StatusOr<std::string>(int64_t offset, int64_t limit)>;
TextReader ReadFrom(std::string text);

// Takes the next bytes of a file; an error ends the call and is its result.
using ByteSink = std::function<absl::Status(const std::string& bytes)>;

using ProgressFunction = std::function<void(const v1::IngestProgress&)>;

// Says what an ingest asks for besides its input; the fields of IngestHeader of these names.
struct IngestOptions {
  v1::SessionOptions session = {};
  bool replace = false, append = false;
  std::optional<std::string> metadata = {};
};

// Each may be null. If on_tokens returns false, or `cancel` becomes true, also before the first
// token, the call is cancelled and returns CANCELLED.
struct GenerateCallbacks {
  std::function<bool(const std::vector<int32_t>& tokens, const std::string& text)> on_tokens;
  std::function<void(const v1::Retrieval&)> on_retrieval;
  const std::atomic<bool>* cancel = nullptr;  // looked at fifty times a second
};

// The events of a generation, put together.
struct GenerateResult {
  std::string text;  // without what it only repeated in the end (GenerateDone.repeats_from)
  std::vector<int32_t> tokens;
  google::protobuf::RepeatedPtrField<v1::Retrieval> retrievals;
  google::protobuf::RepeatedPtrField<v1::TokenLogprobs> logprobs;  // if asked for
  v1::GenerateDone done;
};

// Thread-safe: calls run concurrently on one connection.
class Client {
 public:
  // `address` is "host:port", or several of them with commas between. Waits for a connection to
  // one: UNAVAILABLE naming the address, and whether its name cannot be resolved. INVALID_ARGUMENT:
  // no API key can be like this one; no certificate in `tls_ca`; an address that is empty, without
  // a port, one of HTTP (http://…) or, in a list, there twice.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         const ClientOptions& options = {});
  static std::unique_ptr<Client> OnChannel(std::shared_ptr<grpc::Channel> channel,
                                           const ClientOptions& options = {});
  ~Client();

  // Reads the input from the point up to which an earlier stream of this id was committed;
  // ALREADY_EXISTS if that stream had read other input up to this point. `progress` is called once
  // this point is known, and from time to time. `session`: for a prefix, the pattern under which it
  // is made. `replace`: the document takes the place of the one of this id, if there is one, when
  // it is whole; the input is read from its beginning. `append`: the document goes on with the
  // input, which is read from its beginning, too. UNAVAILABLE once the input has been read to its
  // end: the document may have been appended to.
  absl::StatusOr<v1::Document> IngestText(const std::string& id, const TextReader& reader,
                                          const ProgressFunction& progress = nullptr,
                                          const IngestOptions& options = {});
  absl::StatusOr<v1::Document> IngestTokens(const std::string& id,
                                            const std::vector<int32_t>& tokens,
                                            const ProgressFunction& progress = nullptr,
                                            const IngestOptions& options = {});

  absl::StatusOr<v1::Document> GetDocument(const std::string& id);
  absl::StatusOr<v1::ListDocumentsResponse> ListDocuments(int page_size,
                                                          const std::string& page_token,
                                                          const std::string& filter = "");
  absl::StatusOr<std::vector<v1::Document>> ListAllDocuments(const std::string& filter = "");
  absl::StatusOr<v1::Document> SetMetadata(const v1::SetMetadataRequest& request);
  absl::StatusOr<std::vector<v1::UnfinishedIngest>> ListIngests();  // all
  absl::Status DeleteDocument(const std::string& id);
  absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin, int64_t end);
  // Has the server read the document again under its model. `progress` is called from time to time.
  // Without the deadline of other calls, like the next two.
  absl::StatusOr<v1::Document> RefreshDocument(
      const std::string& id,
      const std::function<void(const v1::IngestProgress&)>& progress = nullptr);
  // The document as a file, whose bytes `sink` takes in order; it is whole only if this is OK.
  absl::StatusOr<v1::Document> ExportDocument(const std::string& id, const ByteSink& sink);
  // `id`: the document's new name; empty: the one in the file. `progress` is called with the bytes
  // that the server has taken.
  absl::StatusOr<v1::Document> ImportDocument(
      const std::string& id, const TextReader& file,
      const std::function<void(int64_t accepted_bytes)>& progress = nullptr);
  absl::StatusOr<v1::RetrieveResponse> Retrieve(const v1::RetrieveRequest& request);

  absl::StatusOr<GenerateResult> Generate(const v1::GenerateRequest& request,
                                          const GenerateCallbacks& callbacks = {});
  absl::StatusOr<v1::Session> OpenSession(const v1::SessionOptions& options);
  absl::StatusOr<v1::Session> GetSession(uint64_t id);
  absl::Status CloseSession(uint64_t id);
  // Makes a document of the session's text. Without the deadline of other calls.
  absl::StatusOr<v1::Document> SaveSession(const v1::SaveSessionRequest& request);
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request);

  absl::StatusOr<v1::ModelInfo> GetModel();
  absl::StatusOr<v1::Stats> GetStats();
  absl::StatusOr<v1::Backup> CreateBackup(const v1::CreateBackupRequest& request);
  absl::StatusOr<v1::ListBackupsResponse> ListBackups();

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace recollect::client
