#include "engine/ingest/ingest_quota.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/status.h"
#include "store/metadata_filter.h"

namespace recollect::engine {

absl::StatusOr<IngestQuota> CheckQuota(std::shared_ptr<access::Account> account,
                                       store::Catalog& catalog, store::IngestWriter& ingests,
                                       const std::vector<std::string>& open,
                                       const std::string& id) {
  std::optional<std::string> prefix;
  if (account != nullptr) prefix = account->counted_prefix();
  if (!prefix.has_value())
    return IngestQuota{std::move(account), std::numeric_limits<int64_t>::max()};
  std::map<std::string, int64_t> bytes;  // of text, by document
  for (const std::string& other : open) bytes[other] = 0;
  ASSIGN_OR_RETURN(const std::vector<store::IngestProgress> unfinished, ingests.ListIngests());
  for (const store::IngestProgress& progress : unfinished) bytes[progress.id] = progress.bytes;
  ASSIGN_OR_RETURN(const std::vector<store::DocumentInfo> documents,
                   store::ListMatching(catalog, "", std::numeric_limits<int64_t>::max(), *prefix,
                                       store::MetadataFilter()));
  for (const store::DocumentInfo& document : documents) bytes[document.id] = document.bytes;
  bytes.erase(id);
  // Others may have open or unfinished ingests.
  std::erase_if(bytes, [&](const auto& entry) { return !entry.first.starts_with(*prefix); });
  int64_t sum = 0;
  for (const auto& [other, size] : bytes) sum += size;
  ASSIGN_OR_RETURN(const int64_t room, account->CheckDocument(std::ssize(bytes), sum));
  return IngestQuota{std::move(account), room};
}

}  // namespace recollect::engine
