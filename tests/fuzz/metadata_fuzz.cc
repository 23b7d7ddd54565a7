// The input is a filter, a zero byte, metadata, a zero byte and a patch of it. What is kept of
// metadata is read as the same, and a filter matches what it matches twice.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "store/metadata.h"
#include "store/metadata_filter.h"
#include "tests/fuzz/fuzzing.h"

namespace {

using namespace recollect;         // NOLINT
using namespace recollect::store;  // NOLINT

// Metadata that is kept: as ReadMetadata has made it, or none.
std::string Kept(const absl::StatusOr<std::string>& made) {
  if (!made.ok()) return "";
  RECOLLECT_CHECK(std::ssize(*made) <= kMaxMetadataBytes);
  if (!made->empty()) RECOLLECT_CHECK(ReadMetadata(*made).value() == *made);
  return *made;
}

void CheckFilter(const std::string& text, const std::string& metadata) {
  const auto filter = MetadataFilter::Parse(text, "filter");
  if (!filter.ok() || text.empty()) return;
  const bool matches = filter->Matches(metadata);
  for (const char* type : {"and", "or"}) {
    const std::string both =
        absl::StrCat("{\"type\":\"", type, "\",\"filters\":[", text, ",", text, "]}");
    const auto twice = MetadataFilter::Parse(both, "filter");
    if (twice.ok()) RECOLLECT_CHECK(twice->Matches(metadata) == matches);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(fuzz::AsText(data, size));
  std::vector<std::string> parts = absl::StrSplit(input, absl::MaxSplits('\0', 2));
  parts.resize(3);
  const std::string metadata = Kept(ReadMetadata(parts[1]));
  const std::string patched = Kept(PatchMetadata(metadata, parts[2]));
  CheckFilter(parts[0], metadata);
  CheckFilter(parts[0], patched);
  return 0;
}
