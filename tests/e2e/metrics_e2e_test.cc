// GET /metrics and /v1/stats of the program `recollect`: what docs/metrics.md lists, over the real
// engine, store and gRPC server.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/server_testing.h"
#include "tests/http/http_testing.h"
#include "tests/support/metrics_text.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string ReadSource(const std::string& path) {
  std::ifstream file(std::string(RECOLLECT_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Split(const std::string& text, const char* at) {
  return absl::StrSplit(text, absl::ByAnyChar(at), absl::SkipEmpty());
}

// The names of a sample's labels, without le.
std::set<std::string> LabelsOf(const std::string& sample) {
  static const std::regex kLabel(R"re(([a-z_]+)="(?:[^"\\]|\\.)*")re");
  std::set<std::string> names;
  for (std::sregex_iterator at(sample.begin(), sample.end(), kLabel); at != std::sregex_iterator();
       ++at) {
    if ((*at)[1] != "le") names.insert((*at)[1]);
  }
  return names;
}

std::string PathOf(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : Split(path == nullptr ? "" : path, ":")) {
    const std::string candidate = folder + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

class MetricsE2eTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    StartHttp();
  }
  std::string Ask(const std::string& request) const {
    const Socket socket(http_);
    socket.Send(request);
    const std::string answer = socket.ReadAll();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }
  MetricsText Scrape() const {
    MetricsText text = ParseMetrics(Ask(Get("/metrics")));
    EXPECT_THAT(text.problems, IsEmpty());
    return text;
  }
  // A document, an answer from it over each protocol, and a call that fails.
  void Work() {
    ASSERT_EQ(Run({"ingest", "--server", address_, "--id", "d", "-"}, Text(3000)).exit_code, 0);
    v1::GenerateRequest request;
    request.mutable_session()->add_mounts("d");
    request.mutable_prompt()->set_text("under a grey ship");
    request.set_max_tokens(kTokens);
    request.set_ignore_eos(true);
    ASSERT_TRUE(client_->Generate(request).ok());
    Ask(Post("/v1/completions", json{{"model", "model"},
                                     {"prompt", "under a grey ship"},
                                     {"mounts", {"d"}},
                                     {"max_tokens", kTokens},
                                     {"ignore_eos", true}}
                                    .dump()));
    ASSERT_FALSE(client_->GetDocument("e").ok());
  }

  // Two blocks, so that landmarks are placed while decoding.
  static constexpr int64_t kTokens = 130;
};

TEST_F(MetricsE2eTest, WorkIsCounted) {
  const MetricsText before = Scrape();
  EXPECT_EQ(before.value("recollect_generated_tokens_total"), 0);
  EXPECT_EQ(before.value("recollect_time_to_first_token_seconds_count"), 0);
  Work();
  const MetricsText after = Scrape();
  EXPECT_EQ(after.value("recollect_generated_tokens_total"), 2 * kTokens);
  EXPECT_EQ(after.value("recollect_time_to_first_token_seconds_count"), 2);
  EXPECT_GT(after.value("recollect_time_to_first_token_seconds_sum"), 0);
  EXPECT_EQ(after.value("recollect_inter_token_latency_seconds_count"), 2 * (kTokens - 1));
  double landmark_steps = 0;
  for (const char* tier : {"memory", "states", "store"}) {
    landmark_steps +=
        after.value(std::string("recollect_landmark_step_seconds_count{tier=\"") + tier + "\"}");
  }
  EXPECT_GE(landmark_steps, 2);
  EXPECT_GT(after.value("recollect_ingested_tokens_total"), 0);
  EXPECT_GT(after.value("recollect_prompt_tokens_total"), 0);
  EXPECT_GT(after.value("recollect_store_bytes"), 0);
  EXPECT_GT(after.value("recollect_store_free_bytes"), 0);
  EXPECT_GE(after.value(R"(recollect_store_table_bytes{family="chunks"})"), 0);
  EXPECT_EQ(after.value("recollect_store_read_only"), 0);
  EXPECT_EQ(after.value("recollect_ingests"), 0);
  EXPECT_EQ(after.value("recollect_ready"), 1);
  const auto calls = [&](const char* method, const char* code) {
    return after.value(std::string("recollect_grpc_requests_total{method=\"") + method +
                       "\",code=\"" + code + "\"}");
  };
  EXPECT_EQ(calls("Documents/Ingest", "OK"), 1);
  EXPECT_EQ(calls("Generation/Generate", "OK"), 1);
  EXPECT_EQ(calls("Documents/GetDocument", "NOT_FOUND"), 1);
  EXPECT_EQ(after.value("recollect_grpc_connections"), 1);
  EXPECT_EQ(
      after.value(
          R"(recollect_http_requests_total{method="POST",path="/v1/completions",code="200"})"),
      1);
  EXPECT_GT(after.value("process_cpu_seconds_total"), before.value("process_cpu_seconds_total"));
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(MetricsE2eTest, ThePageListsWhatTheProgramHas) {
  Work();
  const MetricsText text = Scrape();
  std::set<std::string> listed;
  static const std::regex kRow(R"(\| `([a-z_]+)` \| ([a-z]+) \|([^|]*)\| .+ \|)");
  for (const std::string& line : Split(ReadSource("docs/metrics.md"), "\n")) {
    std::smatch row;
    if (!std::regex_match(line, row, kRow)) continue;
    const std::string name = row[1];
    EXPECT_TRUE(listed.insert(name).second) << name << " is listed twice";
    const auto family = text.families.find(name);
    if (family == text.families.end()) {
      ADD_FAILURE() << name << " is listed, and the program has none";
      continue;
    }
    EXPECT_EQ(row[2], family->second.type) << name;
    std::set<std::string> labels;
    for (const std::string& label : Split(row[3].str(), "`, ")) labels.insert(label);
    EXPECT_FALSE(family->second.samples.empty()) << name;
    for (const auto& [sample, value] : family->second.samples)
      EXPECT_EQ(LabelsOf(sample), labels) << sample;
  }
  for (const auto& [name, family] : text.families)
    EXPECT_TRUE(listed.contains(name)) << name << " is not listed in docs/metrics.md";
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(MetricsE2eTest, PromtoolFindsNothing) {
  const std::string promtool = PathOf("promtool");
  if (promtool.empty()) {
    GTEST_SKIP() << "promtool (Debian: prometheus) is not there: `promtool check metrics` is NOT "
                    "run; only tests/support/metrics_text.cc has read the metrics";
  }
  Work();
  const ProcessResult checked = RunProcess({promtool, "check", "metrics"}, Ask(Get("/metrics")));
  EXPECT_EQ(checked.exit_code, 0);
  EXPECT_EQ(checked.out + checked.err, "");
  // It does read what it gets.
  EXPECT_NE(RunProcess({promtool, "check", "metrics"}, "a_ms{ 1\n").exit_code, 0);
  EXPECT_EQ(StopServer(), 0);
}

// Every string of a dashboard under one of these names, wherever it is.
void CollectQueries(const json& value, std::vector<std::string>& queries) {
  static const std::set<std::string> kNames = {"expr", "query", "definition"};
  if (value.is_object()) {
    for (const auto& [name, inner] : value.items()) {
      if (inner.is_string() && kNames.contains(name)) queries.push_back(inner);
      CollectQueries(inner, queries);
    }
  } else if (value.is_array()) {
    for (const json& inner : value) CollectQueries(inner, queries);
  }
}

// A word of a query that is neither of the language nor known, or "" if there is none. It must name
// a metric, and no other label than metrics of that name have.
std::string UnknownWord(std::string query, const MetricsText& text) {
  static const std::set<std::string> kLanguage = {
      "by",  "and",  "or",       "le",      "sum",          "min",
      "max", "rate", "increase", "changes", "label_values", "histogram_quantile"};
  // What Prometheus adds: of scrapes, and of where they come from.
  const std::set<std::string> added = {"up", "job", "instance"};
  std::set<std::string> series, labels;
  for (const std::string& name : text.series()) series.insert(name);
  query = std::regex_replace(query, std::regex(R"("[^"]*"|\[[^\]]*\])"), "");
  static const std::regex kWord("[a-zA-Z_:][a-zA-Z0-9_:]*");
  std::vector<std::string> words;
  for (std::sregex_iterator at(query.begin(), query.end(), kWord); at != std::sregex_iterator();
       ++at)
    words.push_back(at->str());
  for (const std::string& word : words) {
    if (!series.contains(word)) continue;
    for (const auto& [name, family] : text.families) {
      if (!absl::StartsWith(word, name)) continue;
      for (const auto& [sample, value] : family.samples) labels.merge(LabelsOf(sample));
    }
  }
  bool names_metric = false;
  for (const std::string& word : words) {
    names_metric = names_metric || series.contains(word);
    if (!series.contains(word) && !labels.contains(word) && !kLanguage.contains(word) &&
        !added.contains(word))
      return word;
  }
  return names_metric ? "" : "no metric";
}

TEST_F(MetricsE2eTest, QueriesOfDashboardAndAlertsNameWhatIsThere) {
  Work();
  const MetricsText text = Scrape();
  std::vector<std::string> queries;
  CollectQueries(json::parse(ReadSource("deploy/grafana/recollect.json")), queries);
  std::erase(queries, "prometheus");  // the kind of data source
  EXPECT_GE(queries.size(), 40u);
  size_t alerts = 0;
  for (const std::string& line : Split(ReadSource("deploy/prometheus/alerts.yaml"), "\n")) {
    const size_t at = line.find("expr: ");
    if (at == std::string::npos) continue;
    queries.push_back(line.substr(at + 6));
    ++alerts;
  }
  EXPECT_GE(alerts, 6u);
  for (const std::string& query : queries) EXPECT_EQ(UnknownWord(query, text), "") << query;
  // What it is to find, it finds.
  EXPECT_EQ(UnknownWord("sum(recollect_sessions)", text), "");
  EXPECT_EQ(UnknownWord("sum(recollect_session)", text), "recollect_session");
  EXPECT_EQ(UnknownWord("sum by (tier) (recollect_sessions)", text), "tier");
  EXPECT_EQ(UnknownWord("rate(recollect_store_read_seconds[1m])", text),
            "recollect_store_read_seconds");
  EXPECT_EQ(UnknownWord("sum(up)", text), "no metric");
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(MetricsE2eTest, TheLogIsJsonAndBeginsWithTheOptions) {
  // Ends at once, since the port is in use.
  const ProcessResult log = Run(
      {"serve", "--model", Path("model"), "--data-dir", ":memory:", "--grpc-listen", "127.0.0.1:0",
       "--http-listen", http_, "--log-format", "json", "--memory-budget", "8MiB"},
      "", {"RECOLLECT_DRAIN_TIMEOUT=7"});
  EXPECT_EQ(log.exit_code, 7);
  json options;
  for (const std::string& line : Split(log.err, "\n")) {
    if (absl::StartsWith(line, "recollect: ")) continue;  // the error, which is no log
    const json object = json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    for (const char* name : {"time", "level", "message"})
      EXPECT_TRUE(object.contains(name)) << line;
    if (options.is_null()) options = object;
  }
  EXPECT_EQ(options["message"], "options");
  EXPECT_EQ(options["drain-timeout"], "7");
  EXPECT_EQ(options["http-listen"], http_);
  EXPECT_EQ(options["memory-budget"], "8388608");
  EXPECT_EQ(options["landmark-budget"], "1GiB");
  EXPECT_EQ(options["accept-data-loss"], "false");
  EXPECT_EQ(options["backup-dir"], "unset");
  EXPECT_EQ(Run({"serve", "--log-format", "xml"}).exit_code, 2);
  EXPECT_EQ(StopServer(), 0);
}

TEST_F(MetricsE2eTest, StatsAreThoseOfTheRpc) {
  Work();
  const json over_http = json::parse(Ask(Get("/v1/stats")));
  const json over_grpc = Json(Run({"stats", "--server", address_, "--json"}));
  for (const auto& [name, value] : over_grpc.items()) {
    if (name == "rpcs") continue;  // they are in /metrics
    ASSERT_TRUE(over_http.contains(name)) << name;
    EXPECT_EQ(over_http[name].type_name(), value.type_name()) << name;
  }
  for (const char* still :
       {"generated_tokens", "ingested_tokens", "chunk_hits_memory", "memory_budget_bytes",
        "memory_bytes", "steps", "backend", "landmark_index", "index", "max_sessions"})
    EXPECT_EQ(over_http[still], over_grpc[still]) << still;
  const json model = Json(Run({"model", "--server", address_, "--json"}));
  for (const auto& [name, value] : over_http["model"].items())
    EXPECT_EQ(model[name], value) << name;
  EXPECT_EQ(over_http["model"]["name"], "model");
  EXPECT_EQ(StopServer(), 0);
}

}  // namespace
}  // namespace recollect
