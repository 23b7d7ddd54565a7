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

absl::Status Check(const Options& common, const bool& repair) {
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
  VerbGroup store(app, command, "store", "Check and repair a store that servers share");
  store.Add("check", "Find objects that nobody owns, and documents that lack some",
            {"store check --store rados:recollect/main --ceph-conf /etc/ceph/ceph.conf"},
            std::make_shared<bool>(false), &Check);
  store.Add("repair", "The same, and free what nobody owns; servers may run meanwhile",
            {"store repair --store rados:recollect/main --json"}, std::make_shared<bool>(true),
            &Check);
}
#endif

}  // namespace recollect::cli
