// Stubs, deadlines and statuses of a Client. Internal to the library.
#pragma once

#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "client/client.h"
#include "client/replicas.h"
#include "client/sessions.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "recollect/v1/admin.grpc.pb.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "recollect/v1/generation.grpc.pb.h"

namespace recollect::client {

inline absl::Status FromGrpc(const grpc::Status& status) {
  // The two enums have the same numbers by definition of both.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

struct Client::State {
  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Documents::Stub> documents;
  std::unique_ptr<v1::Generation::Stub> generation;
  std::unique_ptr<v1::Admin::Stub> admin;
  // Both are null with one server.
  std::unique_ptr<Replicas> replicas;
  std::unique_ptr<Sessions> sessions;
};

// Adds the API key, if there is one, which every call has. Ingests, exports and imports have no
// deadline.
void SetKey(const ClientOptions& options, grpc::ClientContext* context);
// Adds the key and the deadline. `begun`: when the operation began that the call is part of.
void SetKeyAndDeadline(const ClientOptions& options, grpc::ClientContext* context,
                       absl::Time begun = absl::Now());

// Reads to the end of a stream, and returns its status.
template <typename Response, typename Stream>
absl::Status ReadToEnd(Stream& stream) {
  Response ignored;
  while (stream.Read(&ignored)) {
  }
  return FromGrpc(stream.Finish());
}

// Makes one unary call, with the client's key and deadline.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(const ClientOptions& options, Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const std::type_identity_t<Request>& request) {
  grpc::ClientContext context;
  SetKeyAndDeadline(options, &context);
  Response response;
  RETURN_IF_ERROR(FromGrpc((stub.*method)(&context, request, &response)));
  return response;
}

// Calls at the server where a session lives.
inline absl::StatusOr<v1::Session> OpenAt(const ClientOptions& options, v1::Generation::Stub& stub,
                                          const v1::SessionOptions& session) {
  v1::OpenSessionRequest request;
  *request.mutable_session() = session;
  return Call(options, stub, &v1::Generation::Stub::OpenSession, request);
}
inline absl::StatusOr<v1::Session> GetAt(const ClientOptions& options, v1::Generation::Stub& stub,
                                         uint64_t id) {
  v1::GetSessionRequest request;
  request.set_id(id);
  return Call(options, stub, &v1::Generation::Stub::GetSession, request);
}
inline absl::Status CloseAt(const ClientOptions& options, v1::Generation::Stub& stub, uint64_t id) {
  v1::CloseSessionRequest request;
  request.set_id(id);
  return Call(options, stub, &v1::Generation::Stub::CloseSession, request).status();
}
// Without a deadline: it reads all of the text.
inline absl::StatusOr<v1::Document> SaveAt(const ClientOptions& options, v1::Generation::Stub& stub,
                                           const v1::SaveSessionRequest& request) {
  grpc::ClientContext context;
  SetKey(options, &context);
  v1::Document document;
  RETURN_IF_ERROR(FromGrpc(stub.SaveSession(&context, request, &document)));
  return document;
}

}  // namespace recollect::client
