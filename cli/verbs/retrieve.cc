#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/retrievals.h"
#include "cli/common/session_options.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

struct RetrieveOptions {
  SessionFlags session;
  PromptFlags query;
  v1::RetrieveRequest request;  // the rest
};

bool HasHits(const v1::RetrieveResponse& response) {
  return std::any_of(response.retrievals().begin(), response.retrievals().end(),
                     [](const v1::Retrieval& retrieval) { return retrieval.hits_size() > 0; });
}

absl::Status Retrieve(const Options& common, const RetrieveOptions& options) {
  v1::RetrieveRequest request = options.request;
  ASSIGN_OR_RETURN(*request.mutable_session(), ToSessionOptions(options.session));
  ASSIGN_OR_RETURN(*request.mutable_query(), ToPrompt(options.query));
  request.set_with_text(true);
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(const auto response, connection->client().Retrieve(request));
  if (common.json) {
    PrintJson(ToJson(response));
  } else {
    PrintRetrievals(connection->client(), response.retrievals(), stdout);
    if (!HasHits(response)) {
      const bool mounted = !request.session().mounts().empty();
      std::fprintf(stderr, "(nothing was retrieved%s)\n",
                   mounted ? "" : ": no document is mounted, --mount NAME does");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddRetrieve(CLI::App& app, Command& command) {
  CLI::App* verb =
      app.add_subcommand("retrieve", "Show which chunks the model recalls for a query");
  auto options = std::make_shared<RetrieveOptions>();
  AddPromptFlags(*verb, "--query", options->query);
  AddSessionFlags(*verb, options->session);
  AddOption(*verb, "--k", options->request, &v1::RetrieveRequest::set_k,
            "Hits per group (default: as many as the model uses)");
  verb->footer(
      "\nExamples:\n"
      "  recollect retrieve --mount moby --query 'the whiteness of the whale'\n"
      "  recollect retrieve --mount moby,emma --query 'a ball at the inn' --k 20 --json\n"
      "\n"
      "Each group of layers retrieves separately; weight is the chunk's share in attention.\n"
      "generate with the same prompt starts with these chunks.\n" +
      std::string(kCommonHelp));
  RunWith(*verb, command, options, &Retrieve);
}

}  // namespace recollect::cli
