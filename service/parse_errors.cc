#include "service/parse_errors.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "google/protobuf/descriptor.h"

namespace recollect::service {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

// Of a method that is not there, "recollect.v1.Documents/NoSuch", gRPC says the same, and rightly
// so.
bool IsThere(const std::string& method) {
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
             absl::StrReplaceAll(method, {{"/", "."}})) != nullptr;
}

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(std::string method) : method_(std::move(method)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      // Only gRPC itself says nothing.
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
          status.error_message().empty() && IsThere(method_)) {
        LogInfo("call {} INVALID_ARGUMENT: the request cannot be parsed", method_);
        methods->ModifySendStatus(
            {grpc::StatusCode::INVALID_ARGUMENT,
             absl::StrCat("the request of ", method_,
                          " cannot be parsed: it is no message of its type, or a string in it is "
                          "not UTF-8")});
      }
    }
    methods->Proceed();
  }

 private:
  const std::string method_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    absl::string_view method = info->method() == nullptr ? "" : info->method();
    absl::ConsumePrefix(&method, "/");
    return new Interceptor(std::string(method));
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
