// Start, stop, health, reflection, limits of messages.
#include "service/server.h"

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "client/state.h"
#include "grpcpp/create_channel.h"
#include "recollect/v1/documents.grpc.pb.h"
#include "recollect/v1/generation.grpc.pb.h"
#include "tests/service/raw_call.h"
#include "tests/service/service_testing.h"

namespace recollect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kServing[] = {0x08, 0x01};     // HealthCheckResponse{status: SERVING}
constexpr char kNotServing[] = {0x08, 0x02};  // NOT_SERVING

absl::StatusOr<std::string> Health(const std::string& address, const std::string& service) {
  std::string request;
  if (!service.empty()) request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  return RawCall(address, "/grpc.health.v1.Health/Check", request);
}

TEST_F(ServiceTest, HealthServesTheServerAndEachService) {
  for (const char* name :
       {"", "recollect.v1.Documents", "recollect.v1.Generation", "recollect.v1.Admin"}) {
    EXPECT_EQ(Health(server_->address(), name).value(), std::string(kServing, 2)) << name;
  }
  EXPECT_EQ(Health(server_->address(), "nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServiceTest, ALostDeviceTurnsHealthAndNothingElseOff) {
  engine_.AddDocument("d", "text");
  engine_.Set({.error = absl::UnavailableError("busy")});
  EXPECT_EQ(client_->GetDocument("d").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Health(server_->address(), "").value(), std::string(kServing, 2));

  const absl::Status lost = absl::UnavailableError("the device is lost");
  engine_.Set({.error = lost, .health = lost});
  EXPECT_EQ(client_->GetDocument("d").status().code(), absl::StatusCode::kUnavailable);
  for (const char* name : {"", "recollect.v1.Generation"}) {
    EXPECT_EQ(Health(server_->address(), name).value(), std::string(kNotServing, 2)) << name;
  }
  engine_.Set({.health = lost});
  EXPECT_EQ(client_->GetDocument("d").value().bytes(), 4);
}

TEST_F(ServiceTest, ReflectionListsTheServices) {
  const std::string list_services("\x3a\x01*", 3);
  const auto response =
      RawCall(server_->address(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              list_services);
  ASSERT_TRUE(response.ok()) << response.status();
  for (const char* name : {"recollect.v1.Documents", "recollect.v1.Generation",
                           "recollect.v1.Admin", "grpc.health.v1.Health"}) {
    EXPECT_THAT(*response, HasSubstr(name));
  }
  // And describes them: file_containing_symbol.
  const std::string symbol = "recollect.v1.Generation";
  const auto file =
      RawCall(server_->address(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x22") + static_cast<char>(symbol.size()) + symbol);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file, HasSubstr("GenerateRequest"));
}

TEST_F(ServiceTest, ASecondServerOnThePortIsRefused) {
  FakeEngine other;
  const auto second = service::Server::Start({server_->address(), "fake"}, other);
  EXPECT_THAT(second.status(), Fails(absl::StatusCode::kFailedPrecondition, server_->address()));
}

TEST_F(ServiceTest, NonsenseAddressesAreRefused) {
  FakeEngine other;
  EXPECT_EQ(service::Server::Start({"no address", "fake"}, other).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ServiceTest, NobodyListeningIsUnavailable) {
  const auto client =
      client::Client::Connect("127.0.0.1:1", {.connect_timeout = absl::Milliseconds(200)});
  EXPECT_THAT(client.status(), Fails(absl::StatusCode::kUnavailable, "127.0.0.1:1"));
}

TEST_F(ServiceTest, ANameThatCannotBeResolvedIsCalledThat) {
  const auto client =
      client::Client::Connect("no such host:1", {.connect_timeout = absl::Milliseconds(200)});
  EXPECT_THAT(client.status(), Fails(absl::StatusCode::kUnavailable,
                                     "server 'no such host:1': the name cannot be resolved: "));
}

TEST_F(ServiceTest, ConnectingTakesNoLongerThanACall) {
  const auto client = client::Client::Connect(
      "127.0.0.1:1",
      {.connect_timeout = absl::InfiniteDuration(), .timeout = absl::Milliseconds(200)});
  EXPECT_THAT(client.status(), Fails(absl::StatusCode::kUnavailable, "127.0.0.1:1"));
}

TEST_F(ServiceTest, TheInProcessChannelIsTheSameService) {
  engine_.AddDocument("d", "text");
  const auto client = client::Client::OnChannel(server_->InProcessChannel());
  EXPECT_EQ(client->GetDocument("d").value().bytes(), 4);
  EXPECT_THAT(client->GetDocument("e").status(), Fails(absl::StatusCode::kNotFound, "'e'"));
}

TEST_F(ServiceTest, PlacesAreCountedForTheAddressOfThePeer) {
  ASSERT_TRUE(client_->OpenSession({}).ok());
  EXPECT_EQ(engine_.seen().peer, "127.0.0.1");
  const auto inside = client::Client::OnChannel(server_->InProcessChannel());
  ASSERT_TRUE(inside->OpenSession({}).ok());
  EXPECT_EQ(engine_.seen().peer, "");
  ASSERT_TRUE(client_->IngestText("d", client::ReadFrom("text")).ok());
  EXPECT_EQ(engine_.seen().peer, "127.0.0.1");

  FakeEngine other;
  const auto server = service::Server::Start({.listen = "[::1]:0", .model_name = "fake"}, other);
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: " << server.status();
  ASSERT_TRUE((*client::Client::Connect((*server)->address()))->OpenSession({}).ok());
  EXPECT_EQ(other.seen().peer, "[::1]");
}

TEST_F(ServiceTest, MessagesBeyondFourMebibytesAreRefused) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text(std::string(5 << 20, 'x'));
  EXPECT_EQ(client_->Generate(request).status().code(), absl::StatusCode::kResourceExhausted);
  request.mutable_prompt()->set_text(std::string(3 << 20, 'x'));
  EXPECT_THAT(client_->Generate(request).status(),
              Fails(absl::StatusCode::kInvalidArgument, "prompt.text: bytes"));
}

TEST_F(ServiceTest, CompressedMessagesAreRefused) {
  const auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::GetDocumentRequest request;
  request.set_id(std::string(1 << 20, 'x'));
  v1::Document document;
  EXPECT_THAT(client::FromGrpc(stub->GetDocument(&context, request, &document)),
              Fails(absl::StatusCode::kUnimplemented, "gzip"));
}

TEST_F(ServiceTest, DrainLetsRunningCallsFinishAndRefusesNewOnes) {
  engine_.Set({.generation = {.then_wait = true}});  // until Shutdown
  absl::Status status;
  bool started = false;
  std::mutex mutex;
  std::condition_variable wake;
  std::thread running([&] {
    client::GenerateCallbacks callbacks;
    callbacks.on_tokens = [&](const auto&, const auto&) {
      std::lock_guard lock(mutex);
      started = true;
      wake.notify_one();
      return true;
    };
    status = client_->Generate({}, callbacks).status();
  });
  {
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return started; });
  }
  server_->Drain(SteadyNow() + absl::Seconds(5));
  running.join();
  EXPECT_TRUE(engine_.seen().shut_down);
  EXPECT_TRUE(status.ok()) << status;  // what the engine said, not a broken pipe
  EXPECT_EQ(client_->GetStats().status().code(), absl::StatusCode::kUnavailable);
  server_->Drain(SteadyNow());  // harmless
}

TEST_F(ServiceTest, DrainWaitsForSlowReadersOfFinishedAnswers) {
  // More than gRPC buffers, less than we do.
  engine_.Set({.generation = {.pieces = {std::string(60 << 10, 'x')}, .repeat = 16}});
  auto stub = v1::Generation::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->Generate(&context, {});
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  std::thread drain([&] { server_->Drain(SteadyNow() + absl::Seconds(60)); });
  absl::SleepFor(absl::Milliseconds(1500));  // what does not wait for readers goes on meanwhile
  size_t bytes = response.tokens().text().size();
  while (stream->Read(&response)) bytes += response.tokens().text().size();
  EXPECT_THAT(client::FromGrpc(stream->Finish()), Fails(absl::StatusCode::kOk, ""));
  EXPECT_EQ(bytes, size_t{16 * 60} << 10);
  drain.join();
}

TEST_F(ServiceTest, WhileDrainingHealthSaysSoAndNewCallsGetUnavailable) {
  std::promise<void> checked;
  engine_.on_shutdown = [&] { checked.get_future().wait(); };
  std::thread drain([&] { server_->Drain(SteadyNow() + absl::Seconds(5)); });
  engine_.Await([](const auto& seen) { return seen.shut_down; });
  EXPECT_EQ(Health(server_->address(), "").value(), std::string(kNotServing, 2));
  EXPECT_EQ(Health(server_->address(), "recollect.v1.Generation").value(),
            std::string(kNotServing, 2));
  EXPECT_THAT(client_->GetDocument("d").status(),
              Fails(absl::StatusCode::kUnavailable, "draining"));
  EXPECT_THAT(client_->Generate({}).status(), Fails(absl::StatusCode::kUnavailable, "draining"));
  EXPECT_THAT(client_->IngestText("d", client::ReadFrom("x")).status(),
              Fails(absl::StatusCode::kUnavailable, "draining"));
  checked.set_value();
  drain.join();
}

TEST_F(ServiceTest, CallersLearnTheNumberThatTheLogHas) {
  const auto stub = v1::Documents::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  ::testing::internal::CaptureStderr();
  SetLogLevel(LogLevel::kInfo);
  std::string number;
  {
    grpc::ClientContext context;
    v1::GetDocumentRequest request;
    request.set_id("e");
    v1::Document response;
    EXPECT_EQ(stub->GetDocument(&context, request, &response).error_code(),
              grpc::StatusCode::NOT_FOUND);
    const auto& metadata = context.GetServerTrailingMetadata();
    ASSERT_EQ(metadata.count("x-request-id"), 1u);
    const grpc::string_ref value = metadata.find("x-request-id")->second;
    number = std::string(value.data(), value.size());
  }
  SetLogLevel(LogLevel::kOff);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("info call " + number + " Documents/GetDocument NOT_FOUND "));
}

TEST_F(ServiceTest, MetricsCountCallsAndConnections) {
  engine_.AddDocument("d", "text");
  ASSERT_TRUE(client_->GetDocument("d").ok());
  EXPECT_FALSE(client_->GetDocument("e").ok());
  AwaitNoneRunning("Documents/GetDocument");
  std::map<std::string, MetricFamily> families;
  for (MetricFamily& family : server_->metrics()) families[family.name] = std::move(family);
  const auto of_method = [&](const std::string& family) {
    std::vector<Metric> found;
    for (const Metric& metric : families[family].metrics) {
      if (metric.labels.front() ==
          std::pair<std::string, std::string>("method", "Documents/GetDocument"))
        found.push_back(metric);
    }
    return found;
  };
  std::map<std::string, double> codes;
  for (const Metric& metric : of_method("recollect_grpc_requests_total"))
    codes[metric.labels.at(1).second] = metric.value;
  EXPECT_THAT(codes, ElementsAre(Pair("NOT_FOUND", 1), Pair("OK", 1)));
  const auto running = of_method("recollect_grpc_requests_running");
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].value, 0);
  const auto seconds = of_method("recollect_grpc_request_seconds");
  ASSERT_EQ(seconds.size(), 1u);
  EXPECT_EQ(seconds[0].histogram.count(), 2);
  EXPECT_GT(seconds[0].histogram.sum, 0);
  EXPECT_EQ(families["recollect_grpc_connections"].metrics.at(0).value, 1);
  EXPECT_EQ(families["recollect_grpc_connections_limit"].metrics.at(0).value,
            service::kMaxConnections);
  server_->Drain(absl::InfinitePast());
  EXPECT_EQ(server_->metrics().size(), families.size());
}

TEST_F(ServiceTest, StatsCountCallsByStatusFailuresIncluded) {
  engine::EngineStats known;
  known.landmark_bytes = 11;
  known.index = "auto";
  known.store_bytes = 14;
  known.device_free_bytes = 15;
  known.device_total_bytes = 16;
  known.graph_launches = 17;
  known.landmark_step_p50_ms = 1.5;
  engine_.Set({.stats = known});
  engine_.AddDocument("d", "text");
  ASSERT_TRUE(client_->GetDocument("d").ok());
  EXPECT_FALSE(client_->GetDocument("e").ok());
  EXPECT_FALSE(client_->GetDocument("").ok());
  const v1::Stats stats = client_->GetStats().value();
  EXPECT_EQ(stats.landmark_bytes(), 11);
  EXPECT_EQ(stats.index(), "auto");
  EXPECT_EQ(stats.store_bytes(), 14);
  EXPECT_EQ(stats.device_free_bytes(), 15);
  EXPECT_EQ(stats.device_total_bytes(), 16);
  EXPECT_EQ(stats.graph_launches(), 17);
  EXPECT_EQ(stats.landmark_step_p50_ms(), 1.5);
  EXPECT_GT(stats.resident_bytes(), 0);
  for (const v1::RpcStats& rpc : stats.rpcs()) {
    if (rpc.method() != "Documents/GetDocument") continue;
    EXPECT_EQ(rpc.started(), 3);
    EXPECT_EQ(rpc.running(), 0);
    std::map<std::string, int64_t> codes;
    for (const v1::CodeCount& entry : rpc.codes()) codes[entry.code()] = entry.count();
    EXPECT_THAT(codes,
                ElementsAre(Pair("INVALID_ARGUMENT", 1), Pair("NOT_FOUND", 1), Pair("OK", 1)));
    return;
  }
  FAIL() << "no metrics of GetDocument";
}

}  // namespace
}  // namespace recollect
