#include "client/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/probe.h"
#include "client/state.h"

namespace recollect::client {
namespace {

constexpr int kListPageSize = 1000;

}  // namespace

void SetKey(const ClientOptions& options, grpc::ClientContext* context) {
  if (!options.api_key.empty())
    context->AddMetadata("authorization", absl::StrCat("Bearer ", options.api_key));
}

void SetKeyAndDeadline(const ClientOptions& options, grpc::ClientContext* context,
                       absl::Time begun) {
  SetKey(options, context);
  if (options.timeout < absl::InfiniteDuration()) {
    context->set_deadline(absl::ToChronoTime(begun + options.timeout));
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
  ASSIGN_OR_RETURN(std::unique_ptr<Replicas> replicas, Replicas::Find(address, options));
  auto channel =
      replicas != nullptr ? replicas->Balanced() : MakeChannel(address, options, CommonArguments());
  const absl::Time deadline = absl::Now() + std::min(options.connect_timeout, options.timeout);
  if (!channel->WaitForConnected(absl::ToChronoTime(deadline))) {
    RETURN_IF_ERROR(CheckNames(address));
    RETURN_IF_ERROR(CheckNotHttp(address));
    return absl::UnavailableError(absl::StrCat(
        "no server answers at ", address,
        tls ? " with TLS and a certificate for this name that the trusted ones vouch for"
            : " without TLS"));
  }
  auto client = OnChannel(std::move(channel), options);
  if (replicas != nullptr) {
    client->state_->sessions = std::make_unique<Sessions>(*replicas, options);
    client->state_->replicas = std::move(replicas);
  }
  return client;
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
  return Call(state_->options, *state_->documents, &v1::Documents::Stub::GetDocument, request);
}

absl::StatusOr<v1::ListDocumentsResponse> Client::ListDocuments(int page_size,
                                                                const std::string& page_token,
                                                                const std::string& filter) {
  v1::ListDocumentsRequest request;
  request.set_filter(filter);
  request.set_page_size(page_size);
  request.set_page_token(page_token);
  return Call(state_->options, *state_->documents, &v1::Documents::Stub::ListDocuments, request);
}

absl::StatusOr<std::vector<v1::Document>> Client::ListAllDocuments(const std::string& filter) {
  std::vector<v1::Document> documents;
  std::string token;
  do {
    ASSIGN_OR_RETURN(const v1::ListDocumentsResponse page,
                     ListDocuments(kListPageSize, token, filter));
    documents.insert(documents.end(), page.documents().begin(), page.documents().end());
    token = page.next_page_token();
  } while (!token.empty());
  return documents;
}

absl::StatusOr<v1::Document> Client::SetMetadata(const v1::SetMetadataRequest& request) {
  return Call(state_->options, *state_->documents, &v1::Documents::Stub::SetMetadata, request);
}

absl::StatusOr<std::vector<v1::UnfinishedIngest>> Client::ListIngests() {
  std::vector<v1::UnfinishedIngest> ingests;
  v1::ListIngestsRequest request;
  request.set_page_size(kListPageSize);
  do {
    ASSIGN_OR_RETURN(
        const v1::ListIngestsResponse page,
        Call(state_->options, *state_->documents, &v1::Documents::Stub::ListIngests, request));
    ingests.insert(ingests.end(), page.ingests().begin(), page.ingests().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return ingests;
}

absl::Status Client::DeleteDocument(const std::string& id) {
  v1::DeleteDocumentRequest request;
  request.set_id(id);
  return Call(state_->options, *state_->documents, &v1::Documents::Stub::DeleteDocument, request)
      .status();
}

absl::StatusOr<std::string> Client::ReadText(const std::string& id, int64_t begin, int64_t end) {
  v1::ReadTextRequest request;
  request.set_id(id);
  request.set_begin(begin);
  request.set_end(end);
  ASSIGN_OR_RETURN(v1::ReadTextResponse response, Call(state_->options, *state_->documents,
                                                       &v1::Documents::Stub::ReadText, request));
  return std::move(*response.mutable_text());
}

absl::StatusOr<v1::RetrieveResponse> Client::Retrieve(const v1::RetrieveRequest& request) {
  return Call(state_->options, *state_->documents, &v1::Documents::Stub::Retrieve, request);
}

absl::StatusOr<v1::Session> Client::OpenSession(const v1::SessionOptions& options) {
  if (state_->sessions != nullptr) return state_->sessions->Open(options);
  return OpenAt(state_->options, *state_->generation, options);
}

absl::StatusOr<v1::Session> Client::GetSession(uint64_t id) {
  if (state_->sessions != nullptr) return state_->sessions->Get(id);
  return GetAt(state_->options, *state_->generation, id);
}

absl::Status Client::CloseSession(uint64_t id) {
  if (state_->sessions != nullptr) return state_->sessions->Close(id);
  return CloseAt(state_->options, *state_->generation, id);
}

absl::StatusOr<v1::Document> Client::SaveSession(const v1::SaveSessionRequest& request) {
  if (state_->sessions != nullptr) return state_->sessions->Save(request);
  return SaveAt(state_->options, *state_->generation, request);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request) {
  if (request.session_id() != 0 && state_->sessions != nullptr) {
    return absl::FailedPreconditionError(
        "session_id: a client of several servers could not open a session again that was scored "
        "in; connect to one server");
  }
  return Call(state_->options, *state_->generation, &v1::Generation::Stub::Score, request);
}

absl::StatusOr<v1::ModelInfo> Client::GetModel() {
  return Call(state_->options, *state_->admin, &v1::Admin::Stub::GetModel, {});
}

absl::StatusOr<v1::Stats> Client::GetStats() {
  return Call(state_->options, *state_->admin, &v1::Admin::Stub::GetStats, {});
}

absl::StatusOr<v1::Backup> Client::CreateBackup(const v1::CreateBackupRequest& request) {
  return Call(state_->options, *state_->admin, &v1::Admin::Stub::CreateBackup, request);
}

absl::StatusOr<v1::ListBackupsResponse> Client::ListBackups() {
  return Call(state_->options, *state_->admin, &v1::Admin::Stub::ListBackups, {});
}

}  // namespace recollect::client
