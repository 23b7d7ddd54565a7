#include "service/net/parse_errors.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/io/log.h"
#include "google/protobuf/descriptor.h"
#include "model/text/printable.h"

namespace recollect::service {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

constexpr size_t kMaxShown = 100;

// `path`: "/recollect.v1.Documents/Ingest".
bool IsThere(absl::string_view path) {
  return absl::ConsumePrefix(&path, "/") &&
         google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
             absl::StrReplaceAll(path, {{"/", "."}})) != nullptr;
}

grpc::Status Explain(const std::string& path) {
  if (!IsThere(path)) {
    const std::string shown = model::Shortened(model::EscapeInvisible(path), kMaxShown);
    LogInfo("call {} UNIMPLEMENTED: there is no such method", shown);
    return {grpc::StatusCode::UNIMPLEMENTED,
            absl::StrCat("there is no method '", shown,
                         "'; reflection lists those that there are, such as "
                         "/recollect.v1.Admin/GetModel")};
  }
  const std::string method = path.substr(1);
  LogInfo("call {} INVALID_ARGUMENT: the request cannot be parsed", method);
  return {grpc::StatusCode::INVALID_ARGUMENT,
          absl::StrCat("the request of ", method,
                       " cannot be parsed: there is none, it is no message of its type, or a "
                       "string in it is not UTF-8")};
}

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(std::string path) : path_(std::move(path)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      // Only gRPC itself says nothing.
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
          status.error_message().empty()) {
        methods->ModifySendStatus(Explain(path_));
      }
    }
    methods->Proceed();
  }

 private:
  const std::string path_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new Interceptor(info->method() == nullptr ? "" : info->method());
  }
};

}  // namespace

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
ParseErrorInterceptors() {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>());
  return factories;
}

}  // namespace recollect::service
