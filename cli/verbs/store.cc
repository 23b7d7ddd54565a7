// Verb store: check, repair. For a store that several servers share.
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/common/json.h"
#include "cli/verbs/verbs.h"
#ifdef RECOLLECT_WITH_RADOS
#include "store/rados/rados_store.h"
#endif

namespace recollect::cli {

#ifndef RECOLLECT_WITH_RADOS
void AddStore(CLI::App&, Command&) {}  // there is no store that is shared
#else
namespace {

absl::Status Check(const Options& common, bool repair) {
  if (common.host.store.empty()) {
    return absl::InvalidArgumentError("name the store: --store rados:POOL[/NAMESPACE]");
  }
  ASSIGN_OR_RETURN(store::RadosOptions options, store::ParseRadosName(common.host.store));
  options.conf_file = common.host.ceph_conf;
  options.user = common.host.ceph_user;
  ASSIGN_OR_RETURN(const store::RadosCheck check, store::CheckRadosStore(options, repair));
  if (common.json) {
    PrintJson({{"objects", check.objects},
               {"documents", check.documents},
               {"orphans", check.orphans},
               {"repaired", repair},
               {"problems", check.problems}});
  } else {
    for (const std::string& problem : check.problems) absl::PrintF("%s\n", problem);
    absl::PrintF("%s: %d documents, %d objects, %d of nobody%s\n", common.host.store,
                 check.documents, check.objects, check.orphans.size(), repair ? ", freed" : "");
  }
  if (check.problems.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(check.problems.size(), " problems, the first: ", check.problems.front()));
}

}  // namespace

void AddStore(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand("store", "Check and repair a store that servers share");
  verb->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, bool repair) {
    CLI::App* sub = verb->add_subcommand(name, what);
    sub->footer(absl::StrCat("\nExample:\n  recollect store ", name,
                             " --store rados:recollect/main --ceph-conf /etc/ceph/ceph.conf\n",
                             kCommonHelp));
    sub->callback([&command, repair] {
      command.run = [&command, repair] { return Check(command.options, repair); };
    });
  };
  add("check", "Find objects that nobody owns, and documents that lack some", false);
  add("repair", "The same, and free what nobody owns; servers may run meanwhile", true);
  verb->footer(
      "\nExamples:\n"
      "  recollect store check --store rados:recollect/main\n"
      "  recollect store repair --store rados:recollect/main --json\n" +
      std::string(kCommonHelp));
}
#endif

}  // namespace recollect::cli
