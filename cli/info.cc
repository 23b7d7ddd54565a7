// Verbs model and stats.
#include <cstdio>
#include <string>

#include "base/status.h"
#include "cli/connection.h"
#include "cli/json.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

absl::Status Model(const Options& common) {
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  ASSIGN_OR_RETURN(const v1::ModelInfo info, connection->client().GetModel());
  common.json ? PrintJson(ToJson(info)) : PrintTable(ToJson(info));
  return absl::OkStatus();
}

absl::Status Stats(const Options& common) {
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  ASSIGN_OR_RETURN(const v1::Stats stats, connection->client().GetStats());
  Json json = ToJson(stats);
  if (common.json) {
    PrintJson(json);
    return absl::OkStatus();
  }
  const Json rpcs = json["rpcs"];
  json.erase("rpcs");
  for (const std::string timed : {"landmark_step", "store_read"}) {
    if (json[timed + "_p50_ms"] != 0) continue;
    for (const char* percentile : {"_p50_ms", "_p99_ms"}) json[timed + percentile] = "none";
  }
  PrintTable(json);
  for (int i = 0; i < stats.rpcs_size(); ++i) {
    const v1::RpcStats& rpc = stats.rpcs(i);
    std::printf("%-24s %lld calls, %lld running", rpc.method().c_str(),
                static_cast<long long>(rpc.started()), static_cast<long long>(rpc.running()));
    for (const auto& [code, count] : rpcs[i]["codes"].items())
      std::printf(", %s %lld", code.c_str(), count.get<long long>());
    const int64_t finished = rpc.started() - rpc.running();
    std::printf(", mean %.1f ms, longest %.1f ms\n",
                finished > 0 ? rpc.total_ms() / static_cast<double>(finished) : 0.0, rpc.max_ms());
  }
  return absl::OkStatus();
}

}  // namespace

void AddModel(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand(
      "model", "Show the loaded model: sizes, pattern, number format, fingerprint");
  verb->footer("\nExample:\n  recollect model --model models/recollect-7m --json\n" +
               std::string(kCommonHelp));
  verb->callback([&command] { command.run = [&command] { return Model(command.options); }; });
}

void AddStats(CLI::App& app, Command& command) {
  CLI::App* verb =
      app.add_subcommand("stats", "Counters of a server: tiers, budgets, latencies, calls");
  verb->footer("\nExample:\n  recollect stats --server 127.0.0.1:50051 --json\n" +
               std::string(kCommonHelp));
  verb->callback([&command] { command.run = [&command] { return Stats(command.options); }; });
}

}  // namespace recollect::cli
