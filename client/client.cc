#include "client/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace recollect::client {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // as the server's
constexpr int kListPageSize = 1000;
constexpr int kKeepaliveTimeMs = 30'000;  // the server allows one in 10 s
constexpr int kKeepaliveTimeoutMs = 20'000;

}  // namespace

void Client::State::SetKey(grpc::ClientContext* context) const {
  if (!options.api_key.empty())
    context->AddMetadata("authorization", absl::StrCat("Bearer ", options.api_key));
}

void Client::State::SetKeyAndDeadline(grpc::ClientContext* context) const {
  SetKey(context);
  if (options.timeout < absl::InfiniteDuration()) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  }
}

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ClientOptions& options) {
  // gRPC would end the process for some of them.
  if (!std::all_of(options.api_key.begin(), options.api_key.end(), absl::ascii_isgraph))
    return absl::InvalidArgumentError("the API key has other than visible ASCII characters");
  const bool tls = !options.tls_ca.empty();
  if (tls && !absl::StrContains(options.tls_ca, "-----BEGIN CERTIFICATE-----"))
    return absl::InvalidArgumentError("tls_ca: no certificate in it (PEM)");
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // So that a call without a deadline ends when the server's machine is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Any number of them: by default a connection on which nothing else is sent gets two.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // gRPC would ask the proxy of http_proxy to reach 127.0.0.1, too.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto credentials =
      tls ? grpc::SslCredentials({options.tls_ca, "", ""}) : grpc::InsecureChannelCredentials();
  auto channel = grpc::CreateCustomChannel(address, std::move(credentials), arguments);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + options.connect_timeout))) {
    return absl::UnavailableError(absl::StrCat(
        "no server answers at ", address,
        tls ? " with TLS and a certificate for this name that the trusted ones vouch for" : ""));
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

absl::StatusOr<v1::Document> Client::GetDocument(const std::string& id) {
  v1::GetDocumentRequest request;
  request.set_id(id);
  return state_->Call(*state_->documents, &v1::Documents::Stub::GetDocument, request);
}

absl::StatusOr<v1::ListDocumentsResponse> Client::ListDocuments(int page_size,
                                                                const std::string& page_token) {
  v1::ListDocumentsRequest request;
  request.set_page_size(page_size);
  request.set_page_token(page_token);
  return state_->Call(*state_->documents, &v1::Documents::Stub::ListDocuments, request);
}

absl::StatusOr<std::vector<v1::Document>> Client::ListAllDocuments() {
  std::vector<v1::Document> documents;
  std::string token;
  do {
    ASSIGN_OR_RETURN(const v1::ListDocumentsResponse page, ListDocuments(kListPageSize, token));
    documents.insert(documents.end(), page.documents().begin(), page.documents().end());
    token = page.next_page_token();
  } while (!token.empty());
  return documents;
}

absl::StatusOr<std::vector<v1::UnfinishedIngest>> Client::ListIngests() {
  std::vector<v1::UnfinishedIngest> ingests;
  v1::ListIngestsRequest request;
  request.set_page_size(kListPageSize);
  do {
    ASSIGN_OR_RETURN(const v1::ListIngestsResponse page,
                     state_->Call(*state_->documents, &v1::Documents::Stub::ListIngests, request));
    ingests.insert(ingests.end(), page.ingests().begin(), page.ingests().end());
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

absl::StatusOr<v1::RetrieveResponse> Client::Retrieve(const v1::RetrieveRequest& request) {
  return state_->Call(*state_->documents, &v1::Documents::Stub::Retrieve, request);
}

absl::StatusOr<v1::Session> Client::OpenSession(const v1::SessionOptions& options) {
  v1::OpenSessionRequest request;
  *request.mutable_session() = options;
  return state_->Call(*state_->generation, &v1::Generation::Stub::OpenSession, request);
}

absl::StatusOr<v1::Session> Client::GetSession(uint64_t id) {
  v1::GetSessionRequest request;
  request.set_id(id);
  return state_->Call(*state_->generation, &v1::Generation::Stub::GetSession, request);
}

absl::Status Client::CloseSession(uint64_t id) {
  v1::CloseSessionRequest request;
  request.set_id(id);
  return state_->Call(*state_->generation, &v1::Generation::Stub::CloseSession, request).status();
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request) {
  return state_->Call(*state_->generation, &v1::Generation::Stub::Score, request);
}

absl::StatusOr<v1::ModelInfo> Client::GetModel() {
  return state_->Call(*state_->admin, &v1::Admin::Stub::GetModel, {});
}

absl::StatusOr<v1::Stats> Client::GetStats() {
  return state_->Call(*state_->admin, &v1::Admin::Stub::GetStats, {});
}

absl::StatusOr<v1::Backup> Client::CreateBackup(const v1::CreateBackupRequest& request) {
  return state_->Call(*state_->admin, &v1::Admin::Stub::CreateBackup, request);
}

absl::StatusOr<v1::ListBackupsResponse> Client::ListBackups() {
  return state_->Call(*state_->admin, &v1::Admin::Stub::ListBackups, {});
}

}  // namespace recollect::client
