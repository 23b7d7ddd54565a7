// Verb docs refresh.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/flags.h"
#include "cli/common/json.h"
#include "cli/common/progress.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

struct RefreshOptions {
  std::vector<std::string> ids;
  bool all = false;
};

// The documents to read again: those that are named, or all of other models.
absl::StatusOr<std::vector<v1::Document>> Wanted(client::Client& client,
                                                 const RefreshOptions& options) {
  std::vector<v1::Document> wanted;
  if (options.all) {
    ASSIGN_OR_RETURN(const v1::ModelInfo model, client.GetModel());
    ASSIGN_OR_RETURN(const auto documents, client.ListAllDocuments());
    for (const v1::Document& document : documents) {
      if (!document.has_damage() && document.fingerprint() != model.fingerprint())
        wanted.push_back(document);
    }
    return wanted;
  }
  ASSIGN_OR_RETURN(const auto ids, GivenIds(options.ids));
  for (const std::string& id : ids) {
    ASSIGN_OR_RETURN(wanted.emplace_back(), client.GetDocument(id));
  }
  return wanted;
}

absl::StatusOr<v1::Document> RefreshOne(client::Client& client, const v1::Document& document) {
  ProgressBar bar(document.id(), document.bytes());
  return client.RefreshDocument(document.id(), [&](const v1::IngestProgress& progress) {
    bar.Update(progress.bytes(), absl::StrFormat("%.0f tokens/s", progress.tokens_per_s()));
  });
}

// One that cannot be read again does not keep the others from it.
absl::Status RefreshAll(const Options& common, const RefreshOptions& options) {
  const bool named = !options.ids.front().empty();
  if (named == options.all) {
    return absl::InvalidArgumentError("docs refresh: expected document ids, or --all");
  }
  Options embedded = common;
  embedded.host.keeps_model = true;  // documents are read again for the model that is to come
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(embedded));
  ASSIGN_OR_RETURN(const auto wanted, Wanted(connection->client(), options));
  if (wanted.empty() && !common.json) std::printf("no document is of another model\n");
  std::vector<v1::Document> refreshed;
  std::vector<std::string> failed;
  absl::Status first;
  for (const v1::Document& document : wanted) {
    auto info = RefreshOne(connection->client(), document);
    if (absl::IsUnavailable(info.status())) return info.status();
    if (!info.ok()) {
      first.Update(info.status());
      failed.emplace_back(info.status().message());
      continue;
    }
    if (!common.json) absl::PrintF("%s: %s\n", info->id(), info->fingerprint());
    refreshed.push_back(*std::move(info));
  }
  if (common.json) PrintJson({{"documents", ToJsonArray(refreshed)}, {"failed", failed}});
  if (failed.empty()) return absl::OkStatus();
  return {first.code(), absl::StrJoin(failed, "; ")};
}

}  // namespace

void AddDocsRefresh(VerbGroup& docs) {
  auto options = std::make_shared<RefreshOptions>();
  CLI::App* verb =
      docs.Add("refresh", "Read documents of another model again, from their text, under this one",
               {"docs refresh moby emma", "docs refresh --all"}, options, &RefreshAll);
  AddIds(*verb, options->ids);
  verb->add_flag("--all", options->all, "All documents of other models");
  verb->footer(
      "\nA document stays as it is until it is read to its end. A refresh that is broken off goes\n"
      "on with the next one. Documents that were ingested as token ids cannot be read again.\n" +
      verb->get_footer());
}

}  // namespace recollect::cli
