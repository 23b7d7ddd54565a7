// Stubs and deadlines of a Client. Internal to the library.
#ifndef RECOLLECT_CLIENT_STATE_H_
#define RECOLLECT_CLIENT_STATE_H_

#include <memory>

#include "client/client.h"
#include "grpcpp/client_context.h"
#include "recollect/v1/admin.grpc.pb.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "recollect/v1/generation.grpc.pb.h"

namespace recollect::client {

struct Client::State {
  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Documents::Stub> documents;
  std::unique_ptr<v1::Generation::Stub> generation;
  std::unique_ptr<v1::Admin::Stub> admin;

  void SetDeadline(grpc::ClientContext* context) const;
};

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_STATE_H_
