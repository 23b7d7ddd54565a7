// GET /metrics and /v1/stats over the fake engine.
#include "http/api/metrics.h"

#include <string>

#include "tests/http/http_testing.h"
#include "tests/support/metrics_text.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::array<double, 2> kBounds = {0.5, 2};

class MetricsTest : public HttpTest {
 protected:
  MetricsText Scrape() const {
    const std::string answer = Ask(Get("/metrics"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
    EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    MetricsText text = ParseMetrics(answer.substr(answer.find("\r\n\r\n") + 4));
    EXPECT_THAT(text.problems, IsEmpty());
    return text;
  }
};

TEST_F(MetricsTest, TheEnginesNumbersAreThere) {
  engine::EngineStats stats;
  stats.backend = "cpu";
  stats.landmark_index = "cpu";
  stats.index = "ivf";
  stats.indexed_documents = 16;
  stats.indexes_made = 17;
  stats.generated_tokens = 7;
  stats.memory_bytes = 11;
  stats.memory_budget_bytes = 12;
  stats.chunk_hits_states = 13;
  stats.store_read_only = true;
  stats.store_table_bytes = {{"chunks", 14}, {"text", 15}};
  stats.inter_token_s = HistogramValues(kBounds);
  for (const double seconds : {0.25, 0.25, 1.0, 8.0}) stats.inter_token_s.Add(seconds);
  stats.landmark_step_store_s = stats.inter_token_s;
  engine_.Set({.stats = stats});
  const MetricsText text = Scrape();
  EXPECT_EQ(text.value("recollect_generated_tokens_total"), 7);
  EXPECT_EQ(text.value(R"(recollect_budget_used_bytes{budget="memory"})"), 11);
  EXPECT_EQ(text.value(R"(recollect_budget_limit_bytes{budget="memory"})"), 12);
  EXPECT_EQ(text.value(R"(recollect_retrieved_chunks_total{tier="states"})"), 13);
  EXPECT_EQ(text.value("recollect_store_read_only"), 1);
  EXPECT_EQ(text.value("recollect_indexed_documents"), 16);
  EXPECT_EQ(text.value("recollect_indexes_made_total"), 17);
  EXPECT_EQ(text.value(R"(recollect_store_table_bytes{family="text"})"), 15);
  EXPECT_EQ(text.value(R"(recollect_inter_token_latency_seconds_bucket{le="0.5"})"), 2);
  EXPECT_EQ(text.value(R"(recollect_inter_token_latency_seconds_bucket{le="2"})"), 3);
  EXPECT_EQ(text.value(R"(recollect_inter_token_latency_seconds_bucket{le="+Inf"})"), 4);
  EXPECT_EQ(text.value("recollect_inter_token_latency_seconds_count"), 4);
  EXPECT_EQ(text.value("recollect_inter_token_latency_seconds_sum"), 9.5);
  EXPECT_EQ(text.value(R"(recollect_landmark_step_seconds_count{tier="store"})"), 4);
  EXPECT_EQ(
      text.value(
          R"(recollect_model_info{model="fake",backend="cpu",landmark_index="cpu",index="ivf"})"),
      1);
  EXPECT_GT(text.value("process_resident_memory_bytes"), 0);
}

TEST_F(MetricsTest, RequestsAreCountedByRouteAndStatus) {
  Ask(Get("/livez"));
  Ask(Get("/livez"));
  Ask(Get("/livez?a=%2"));  // of that route, and refused
  Complete({{"max_tokens", 2}});
  Ask(Get("/v1/completions"));
  Ask(Get("/nowhere"));
  Ask(Get("/nowhere/else"));
  Ask("nonsense\r\n\r\n");
  const MetricsText text = Scrape();
  const auto count = [&](const std::string& labels) {
    return text.value("recollect_http_requests_total{" + labels + "}");
  };
  EXPECT_EQ(count(R"(method="GET",path="/livez",code="200")"), 2);
  EXPECT_EQ(count(R"(method="GET",path="/livez",code="400")"), 1);
  EXPECT_EQ(count(R"(method="POST",path="/v1/completions",code="200")"), 1);
  EXPECT_EQ(count(R"(method="other",path="other",code="405")"), 1);
  EXPECT_EQ(count(R"(method="other",path="other",code="404")"), 2);
  EXPECT_EQ(count(R"(method="other",path="other",code="400")"), 1);
  EXPECT_EQ(text.value(R"(recollect_http_request_seconds_count{method="GET",path="/livez"})"), 3);
  EXPECT_GT(
      text.value(R"(recollect_http_request_seconds_sum{method="POST",path="/v1/completions"})"), 0);
  EXPECT_EQ(text.value("recollect_http_requests_running"), 1);  // the scrape
  EXPECT_GE(text.value("recollect_http_connections"), 1);
  EXPECT_EQ(text.value("recollect_http_connections_limit"), http::kMaxConnections);
}

TEST_F(MetricsTest, AClientThatIsGoneIsCountedAsGone) {
  engine_.Set({.generation = {.then_wait = true}});
  {
    const Socket socket(server_->address());
    socket.Send(Post("/v1/completions",
                     R"({"model": "fake", "prompt": "x", "max_tokens": 9, "stream": true})"));
    socket.ReadUntil("Hel");
  }
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.cancelled == 1; });
  // The request ends on the network's thread after that.
  const std::string gone =
      R"(recollect_http_requests_total{method="POST",path="/v1/completions",code="gone"})";
  MetricsText text = Scrape();
  while (text.value("recollect_http_requests_running") > 1) text = Scrape();
  EXPECT_EQ(text.value(gone), 1);
}

TEST_F(MetricsTest, AServerThatIsNotReadySaysSo) {
  EXPECT_EQ(Scrape().value("recollect_ready"), 1);
  engine_.Set({.health = absl::UnavailableError("the device is lost")});
  EXPECT_EQ(Scrape().value("recollect_ready"), 0);
}

TEST_F(MetricsTest, WhatTheProcessHasBesidesIsThere) {
  Start({.listen = "127.0.0.1:0",
         .model_name = "a \"quoted\" \\ name",
         .version = "1.2.3",
         .more_metrics = [] { return MetricFamilies{MakeGauge("recollect_more", "More.", 5)}; }});
  const MetricsText text = Scrape();
  EXPECT_EQ(text.value("recollect_more"), 5);
  EXPECT_EQ(text.value(R"(recollect_build_info{version="1.2.3"})"), 1);
  EXPECT_EQ(
      text.value(
          R"(recollect_model_info{model="a \"quoted\" \\ name",backend="",landmark_index="",index=""})"),
      1);
}

TEST_F(MetricsTest, StatsAreJson) {
  engine::EngineStats stats;
  stats.backend = "cpu";
  stats.memory_budget_bytes = 12;
  stats.landmark_step_p99_ms = 1.5;
  stats.index = "ivf";
  stats.indexed_documents = 2;
  stats.indexes_made = 3;
  engine_.Set({.stats = stats});
  const json body = Body(Ask(Get("/v1/stats")));
  EXPECT_EQ(body["object"], "stats");
  EXPECT_EQ(body["backend"], "cpu");
  EXPECT_EQ(body["memory_budget_bytes"], 12);
  EXPECT_EQ(body["landmark_step_p99_ms"], 1.5);
  EXPECT_EQ(body["index"], "ivf");
  EXPECT_EQ(body["indexed_documents"], 2);
  EXPECT_EQ(body["indexes_made"], 3);
  EXPECT_EQ(body["model"]["name"], "fake");
  EXPECT_EQ(body["model"]["index"], "ivf");
  EXPECT_GT(body["resident_bytes"], 0);
  EXPECT_GE(body["uptime_s"], 0);
  EXPECT_THAT(Ask(Post("/v1/stats", "{}")),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET")));
}

// The reader above finds what it is to find.
TEST(MetricsTextTest, BrokenRulesAreFound) {
  const auto problems = [](const std::string& text) { return ParseMetrics(text).problems.size(); };
  const std::string head = "# HELP a_total A.\n# TYPE a_total counter\n";
  EXPECT_EQ(problems(head + "a_total 1\n"), 0u);
  EXPECT_EQ(problems(head + "a_total{x=\"1\"} 1\na_total{x=\"2\"} 1e3\n"), 0u);
  EXPECT_GT(problems(head + "a_total 1"), 0u);
  EXPECT_GT(problems(head + "a_total -1\n"), 0u);
  EXPECT_GT(problems(head + "a_total one\n"), 0u);
  EXPECT_GT(problems(head + "a_total 1\na_total 2\n"), 0u);
  EXPECT_GT(problems(head + "b_total 1\n"), 0u);
  EXPECT_GT(problems("# HELP a A.\n# TYPE a counter\na 1\n"), 0u);
  EXPECT_GT(problems("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n"), 0u);
  EXPECT_GT(problems("# HELP a_ms A.\n# TYPE a_ms gauge\na_ms 1\n"), 0u);
  EXPECT_GT(problems("# TYPE a gauge\na 1\n"), 0u);
  const std::string histogram = "# HELP h H.\n# TYPE h histogram\n";
  EXPECT_EQ(
      problems(histogram + "h_count 2\nh_sum 1\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\n"),
      0u);
  EXPECT_GT(
      problems(histogram + "h_count 2\nh_sum 1\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 3\n"),
      0u);
  EXPECT_GT(problems(histogram + "h_count 2\nh_sum 1\nh_bucket{le=\"1\"} 2\n"), 0u);
  EXPECT_GT(problems(histogram + "h_count 2\nh_sum 1\nh_bucket{le=\"2\"} 2\nh_bucket{le=\"1\"} "
                                 "2\nh_bucket{le=\"+Inf\"} 2\n"),
            0u);
  EXPECT_GT(problems(histogram + "h_count 2\nh_sum 1\n"), 0u);
}

}  // namespace
}  // namespace recollect
