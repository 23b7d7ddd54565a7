// Measures an installation: ingest, and the time per token by what is mounted.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/progress.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

struct BenchOptions {
  std::string text;
  std::vector<std::string> tokens = {"16k", "64k"};
  int64_t max_tokens = 128;
  int repeats = 5;
};

constexpr double kBytesPerToken = 3;  // roughly; what was read is reported
constexpr char kPrompt[] = "What is said about this? It is";

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What the benchmark put into the store goes, however it ends.
class Documents {
 public:
  explicit Documents(client::Client& client) : client_(client) {}
  ~Documents() {
    for (const v1::Document& document : all_) (void)client_.DeleteDocument(document.id());
  }

  // Reads about `tokens` tokens of `text`, again from its beginning where it is shorter.
  absl::StatusOr<Json> Ingest(const std::string& text, int64_t tokens) {
    std::string input;
    const auto bytes = static_cast<size_t>(kBytesPerToken * static_cast<double>(tokens));
    while (input.size() < bytes) input += text;
    size_t end = bytes;
    while (end < input.size() && (static_cast<unsigned char>(input[end]) & 0xc0) == 0x80) ++end;
    input.resize(end);
    const std::string id = absl::StrCat("bench-", getpid(), "-", all_.size());
    const int64_t size = static_cast<int64_t>(input.size());
    ProgressBar bar(absl::StrCat("ingest ", tokens), size);
    const absl::Time begin = SteadyNow();
    ASSIGN_OR_RETURN(v1::Document document,
                     client_.IngestText(id, client::ReadFrom(std::move(input)),
                                        [&](const v1::IngestProgress& progress) {
                                          bar.Update(progress.accepted_offset(), "");
                                        }));
    const double seconds = absl::ToDoubleSeconds(SteadyNow() - begin);
    all_.push_back(document);
    return Json{{"tokens", document.tokens()},
                {"seconds", seconds},
                {"tokens_per_s", static_cast<double>(document.tokens()) / seconds}};
  }

  const std::vector<v1::Document>& all() const { return all_; }

 private:
  client::Client& client_;
  std::vector<v1::Document> all_;
};

// Of nothing mounted, then of each document. They take turns, so that whatever else the machine
// does falls on all of them; the first turn only warms up.
absl::StatusOr<Json> Generate(client::Client& client, const BenchOptions& options,
                              const std::vector<v1::Document>& documents) {
  struct Case {
    int64_t tokens = 0;
    v1::GenerateRequest request;
    std::vector<double> first_token_ms = {}, token_ms = {};
  };
  std::vector<Case> cases(1 + documents.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    v1::GenerateRequest& request = cases[i].request;
    if (i > 0) {
      cases[i].tokens = documents[i - 1].tokens();
      request.mutable_session()->add_mounts(documents[i - 1].id());
    }
    request.mutable_prompt()->set_text(kPrompt);
    request.set_max_tokens(options.max_tokens);
    request.set_ignore_eos(true);
  }
  ProgressBar bar("generate", options.repeats + 1);
  for (int repeat = 0; repeat <= options.repeats; ++repeat) {
    for (Case& of : cases) {
      ASSIGN_OR_RETURN(const client::GenerateResult result, client.Generate(of.request));
      if (repeat == 0) continue;
      const v1::Usage& usage = result.done.usage();
      of.first_token_ms.push_back(usage.time_to_first_token_ms());
      of.token_ms.push_back(usage.generation_ms() /
                            static_cast<double>(usage.generated_tokens() - 1));
    }
    bar.Update(repeat + 1, "");
  }
  Json rows = Json::array();
  const double nothing = Median(cases[0].token_ms);
  for (const Case& of : cases) {
    const double ms = Median(of.token_ms);
    rows.push_back({{"mounted_tokens", of.tokens},
                    {"first_token_ms", Median(of.first_token_ms)},
                    {"token_ms", ms},
                    {"ratio", ms / nothing}});
  }
  return rows;
}

absl::Status Bench(const Options& common, const BenchOptions& options) {
  std::vector<int64_t> sizes;
  for (const std::string& tokens : options.tokens) {
    ASSIGN_OR_RETURN(sizes.emplace_back(), ParseTokenCount("--tokens", tokens));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadInput(options.text));
  RETURN_IF_ERROR(CheckUtf8(options.text, text));
  if (text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.text, ": empty, expected some text"));
  }
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  client::Client& client = connection->client();
  ASSIGN_OR_RETURN(const v1::ModelInfo model, client.GetModel());
  Documents documents(client);
  Json ingest = Json::array();
  for (const int64_t size : sizes) {
    ASSIGN_OR_RETURN(ingest.emplace_back(), documents.Ingest(text, size));
  }
  ASSIGN_OR_RETURN(const Json generate, Generate(client, options, documents.all()));
  ASSIGN_OR_RETURN(const v1::Stats stats, client.GetStats());
  const Json result = {{"model", model.name()},
                       {"dtype", model.dtype()},
                       {"backend", stats.backend()},
                       {"landmark_index", stats.landmark_index()},
                       {"index", stats.index()},
                       {"ingest", ingest},
                       {"generate", generate},
                       {"landmark_step_p50_ms", stats.landmark_step_p50_ms()},
                       {"landmark_step_p99_ms", stats.landmark_step_p99_ms()},
                       {"resident_bytes", stats.resident_bytes()}};
  if (common.json) {
    PrintJson(result);
    return absl::OkStatus();
  }
  absl::PrintF("%s %s, layers on %s, landmark keys on %s\n", model.name(), model.dtype(),
               stats.backend(), stats.landmark_index());
  for (const Json& row : ingest) {
    absl::PrintF("ingest of %9d tokens: %8.0f tokens/s\n", row["tokens"].get<int64_t>(),
                 row["tokens_per_s"].get<double>());
  }
  for (const Json& row : generate) {
    absl::PrintF(
        "%9d tokens mounted: first token %8.2f ms, then %7.3f ms a token, %.2f times that of "
        "nothing mounted\n",
        row["mounted_tokens"].get<int64_t>(), row["first_token_ms"].get<double>(),
        row["token_ms"].get<double>(), row["ratio"].get<double>());
  }
  const double p50 = stats.landmark_step_p50_ms(), p99 = stats.landmark_step_p99_ms();
  const std::string steps =
      p50 > 0 ? absl::StrFormat("p50 %.2f ms, p99 %.2f ms", p50, p99) : "none";
  absl::PrintF("landmark steps: %s; resident %.0f MiB\n", steps,
               static_cast<double>(stats.resident_bytes()) / (1 << 20));
  return absl::OkStatus();
}

}  // namespace

void AddBench(CLI::App& app, Command& command) {
  CLI::App* verb =
      app.add_subcommand("bench", "Measure ingest, and time per token by what is mounted");
  auto options = std::make_shared<BenchOptions>();
  verb->add_option("--text", options->text, "UTF-8 text to ingest, repeated if it is too short")
      ->required()
      ->type_name("FILE");
  verb->add_option("--tokens", options->tokens, "Approximate sizes; k and m are 2^10 and 2^20")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--max-tokens", options->max_tokens, "Tokens of each generation")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  verb->add_option("--repeats", options->repeats,
                   "Generations for each size; the median is reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->footer(
      "\nExamples:\n"
      "  recollect bench --text moby-dick.txt --tokens 4k,16k --data-dir /tmp/bench\n"
      "  recollect bench --text moby-dick.txt --server 127.0.0.1:50051 --json\n"
      "\n"
      "Its documents (bench-…) are deleted at the end. On a server that others use it measures "
      "the capacity that they leave.\n" +
      std::string(kCommonHelp));
  RunWith(*verb, command, options, &Bench);
}

}  // namespace recollect::cli
