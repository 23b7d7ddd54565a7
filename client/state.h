// Stubs, deadlines and statuses of a Client. Internal to the library.
#ifndef RECOLLECT_CLIENT_STATE_H_
#define RECOLLECT_CLIENT_STATE_H_

#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "client/client.h"
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

  // What every call has. Ingests, exports and imports have no deadline.
  void SetKey(grpc::ClientContext* context) const;
  void SetKeyAndDeadline(grpc::ClientContext* context) const;

  // One unary call, with the client's deadline.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const std::type_identity_t<Request>& request) const {
    grpc::ClientContext context;
    SetKeyAndDeadline(&context);
    Response response;
    RETURN_IF_ERROR(FromGrpc((stub.*method)(&context, request, &response)));
    return response;
  }
};

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_STATE_H_
