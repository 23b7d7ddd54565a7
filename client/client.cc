#include "client/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/codec.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace recollect::client {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // as the server's
constexpr int kListPageSize = 1000;
constexpr int kKeepaliveTimeMs = 30'000;  // the server allows one in 10 s
constexpr int kKeepaliveTimeoutMs = 20'000;

// Of a repeated field.
template <typename Messages>
auto DecodeAll(const Messages& messages) {
  std::vector<decltype(Decode(*messages.begin()))> decoded;
  for (const auto& message : messages) decoded.push_back(Decode(message));
  return decoded;
}

}  // namespace

void Client::State::SetDeadline(grpc::ClientContext* context) const {
  if (options.timeout < absl::InfiniteDuration()) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  }
}

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // So that a call without a deadline ends when the server's machine is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Any number of them: by default a connection on which nothing else is sent gets two.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // gRPC would ask the proxy of http_proxy to reach 127.0.0.1, too.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + options.connect_timeout))) {
    return absl::UnavailableError(absl::StrCat("no server answers at ", address));
  }
  return OnChannel(std::move(channel), options);
}

std::unique_ptr<Client> Client::OnChannel(std::shared_ptr<grpc::Channel> channel,
                                          const ClientOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->documents = v1::Documents::NewStub(channel);
  state->generation = v1::Generation::NewStub(channel);
  state->admin = v1::Admin::NewStub(channel);
  state->channel = std::move(channel);
  return std::unique_ptr<Client>(new Client(std::move(state)));
}

absl::StatusOr<Document> Client::GetDocument(const std::string& id) {
  v1::GetDocumentRequest request;
  request.set_id(id);
  ASSIGN_OR_RETURN(const v1::Document document,
                   state_->Call(*state_->documents, &v1::Documents::Stub::GetDocument, request));
  return Decode(document);
}

absl::StatusOr<DocumentPage> Client::ListDocuments(int page_size, const std::string& page_token) {
  v1::ListDocumentsRequest request;
  request.set_page_size(page_size);
  request.set_page_token(page_token);
  ASSIGN_OR_RETURN(const v1::ListDocumentsResponse response,
                   state_->Call(*state_->documents, &v1::Documents::Stub::ListDocuments, request));
  return DocumentPage{DecodeAll(response.documents()), response.next_page_token()};
}

absl::StatusOr<std::vector<Document>> Client::ListAllDocuments() {
  std::vector<Document> documents;
  std::string token;
  do {
    ASSIGN_OR_RETURN(DocumentPage page, ListDocuments(kListPageSize, token));
    documents.insert(documents.end(), page.documents.begin(), page.documents.end());
    token = page.next_page_token;
  } while (!token.empty());
  return documents;
}

absl::StatusOr<std::vector<UnfinishedIngest>> Client::ListIngests() {
  std::vector<UnfinishedIngest> ingests;
  v1::ListIngestsRequest request;
  request.set_page_size(kListPageSize);
  do {
    ASSIGN_OR_RETURN(const v1::ListIngestsResponse page,
                     state_->Call(*state_->documents, &v1::Documents::Stub::ListIngests, request));
    for (const v1::UnfinishedIngest& ingest : page.ingests()) ingests.push_back(Decode(ingest));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return ingests;
}

absl::Status Client::DeleteDocument(const std::string& id) {
  v1::DeleteDocumentRequest request;
  request.set_id(id);
  return state_->Call(*state_->documents, &v1::Documents::Stub::DeleteDocument, request).status();
}

absl::StatusOr<std::string> Client::ReadText(const std::string& id, int64_t begin, int64_t end) {
  v1::ReadTextRequest request;
  request.set_id(id);
  request.set_begin(begin);
  request.set_end(end);
  ASSIGN_OR_RETURN(v1::ReadTextResponse response,
                   state_->Call(*state_->documents, &v1::Documents::Stub::ReadText, request));
  return std::move(*response.mutable_text());
}

absl::StatusOr<std::vector<Retrieval>> Client::Retrieve(const RetrieveRequest& request) {
  ASSIGN_OR_RETURN(
      const v1::RetrieveResponse response,
      state_->Call(*state_->documents, &v1::Documents::Stub::Retrieve, Encode(request)));
  return DecodeAll(response.retrievals());
}

absl::StatusOr<Session> Client::OpenSession(const SessionOptions& options) {
  v1::OpenSessionRequest request;
  *request.mutable_session() = Encode(options);
  ASSIGN_OR_RETURN(const v1::Session session,
                   state_->Call(*state_->generation, &v1::Generation::Stub::OpenSession, request));
  return Decode(session);
}

absl::StatusOr<Session> Client::GetSession(uint64_t id) {
  v1::GetSessionRequest request;
  request.set_id(id);
  ASSIGN_OR_RETURN(const v1::Session session,
                   state_->Call(*state_->generation, &v1::Generation::Stub::GetSession, request));
  return Decode(session);
}

absl::Status Client::CloseSession(uint64_t id) {
  v1::CloseSessionRequest request;
  request.set_id(id);
  return state_->Call(*state_->generation, &v1::Generation::Stub::CloseSession, request).status();
}

absl::StatusOr<ScoreResult> Client::Score(const ScoreRequest& request) {
  ASSIGN_OR_RETURN(
      const v1::ScoreResponse response,
      state_->Call(*state_->generation, &v1::Generation::Stub::Score, Encode(request)));
  return Decode(response);
}

absl::StatusOr<ModelInfo> Client::GetModel() {
  ASSIGN_OR_RETURN(const v1::ModelInfo info,
                   state_->Call(*state_->admin, &v1::Admin::Stub::GetModel, {}));
  return Decode(info);
}

absl::StatusOr<Stats> Client::GetStats() {
  ASSIGN_OR_RETURN(const v1::Stats stats,
                   state_->Call(*state_->admin, &v1::Admin::Stub::GetStats, {}));
  return Decode(stats);
}

}  // namespace recollect::client
