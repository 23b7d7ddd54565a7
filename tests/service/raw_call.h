// Sends one message to any method and returns the first of the answer, as bytes: for services whose
// generated code Debian does not ship.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace recollect {

// Calls `method`, for example "/grpc.health.v1.Health/Check".
inline absl::StatusOr<std::string> RawCall(
    const std::string& address, const std::string& method, const std::string& request,
    const std::map<std::string, std::string>& metadata = {}) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] {
    queue.Next(&tag, &ok);
    return ok;
  };
  auto stream = stub.PrepareCall(&context, method, &queue);
  stream->StartCall(nullptr);
  next();
  grpc::Slice slice(request);
  stream->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  next();
  grpc::ByteBuffer response, further;
  stream->Read(&response, nullptr);
  const bool read = next();
  // The status comes once all has been read.
  for (bool more = read; more; more = next()) stream->Read(&further, nullptr);
  grpc::Status status;
  stream->Finish(&status, nullptr);
  next();
  if (!status.ok()) return client::FromGrpc(status);
  if (!read) return absl::InternalError("no response");
  std::vector<grpc::Slice> slices;
  response.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& part : slices)
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return bytes;
}

}  // namespace recollect
