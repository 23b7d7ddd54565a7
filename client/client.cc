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
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::GetDocumentRequest request;
  request.set_id(id);
  v1::Document response;
  RETURN_IF_ERROR(FromGrpc(state_->documents->GetDocument(&context, request, &response)));
  return Decode(response);
}

absl::StatusOr<DocumentPage> Client::ListDocuments(int page_size, const std::string& page_token) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::ListDocumentsRequest request;
  request.set_page_size(page_size);
  request.set_page_token(page_token);
  v1::ListDocumentsResponse response;
  RETURN_IF_ERROR(FromGrpc(state_->documents->ListDocuments(&context, request, &response)));
  DocumentPage page;
  for (const v1::Document& document : response.documents())
    page.documents.push_back(Decode(document));
  page.next_page_token = response.next_page_token();
  return page;
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
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::ListIngestsResponse response;
  RETURN_IF_ERROR(FromGrpc(state_->documents->ListIngests(&context, {}, &response)));
  std::vector<UnfinishedIngest> ingests;
  for (const v1::UnfinishedIngest& ingest : response.ingests()) ingests.push_back(Decode(ingest));
  return ingests;
}

absl::Status Client::DeleteDocument(const std::string& id) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::DeleteDocumentRequest request;
  request.set_id(id);
  v1::DeleteDocumentResponse response;
  return FromGrpc(state_->documents->DeleteDocument(&context, request, &response));
}

absl::StatusOr<std::string> Client::ReadText(const std::string& id, int64_t begin, int64_t end) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::ReadTextRequest request;
  request.set_id(id);
  request.set_begin(begin);
  request.set_end(end);
  v1::ReadTextResponse response;
  RETURN_IF_ERROR(FromGrpc(state_->documents->ReadText(&context, request, &response)));
  return std::move(*response.mutable_text());
}

absl::StatusOr<std::vector<Retrieval>> Client::Retrieve(const RetrieveRequest& request) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::RetrieveResponse response;
  RETURN_IF_ERROR(FromGrpc(state_->documents->Retrieve(&context, Encode(request), &response)));
  std::vector<Retrieval> retrievals;
  for (const v1::Retrieval& retrieval : response.retrievals())
    retrievals.push_back(Decode(retrieval));
  return retrievals;
}

absl::StatusOr<Session> Client::OpenSession(const SessionOptions& options) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::OpenSessionRequest request;
  *request.mutable_session() = Encode(options);
  v1::Session response;
  RETURN_IF_ERROR(FromGrpc(state_->generation->OpenSession(&context, request, &response)));
  return Decode(response);
}

absl::StatusOr<Session> Client::GetSession(uint64_t id) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::GetSessionRequest request;
  request.set_id(id);
  v1::Session response;
  RETURN_IF_ERROR(FromGrpc(state_->generation->GetSession(&context, request, &response)));
  return Decode(response);
}

absl::Status Client::CloseSession(uint64_t id) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::CloseSessionRequest request;
  request.set_id(id);
  v1::CloseSessionResponse response;
  return FromGrpc(state_->generation->CloseSession(&context, request, &response));
}

absl::StatusOr<ScoreResult> Client::Score(const ScoreRequest& request) {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::ScoreResponse response;
  RETURN_IF_ERROR(FromGrpc(state_->generation->Score(&context, Encode(request), &response)));
  return Decode(response);
}

absl::StatusOr<ModelInfo> Client::GetModel() {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::ModelInfo response;
  RETURN_IF_ERROR(FromGrpc(state_->admin->GetModel(&context, {}, &response)));
  return Decode(response);
}

absl::StatusOr<Stats> Client::GetStats() {
  grpc::ClientContext context;
  state_->SetDeadline(&context);
  v1::Stats response;
  RETURN_IF_ERROR(FromGrpc(state_->admin->GetStats(&context, {}, &response)));
  return Decode(response);
}

}  // namespace recollect::client
