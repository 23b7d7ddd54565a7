// The input is the text of a file of API keys.
#include "access/keys_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;  // NOLINT
  const auto keys = access::ParseKeys({reinterpret_cast<const char*>(data), size});
  if (!keys.ok()) {
    fuzz::CheckRefusal(keys.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  std::string written;
  for (const access::Key& key : *keys) absl::StrAppend(&written, access::EncodeKey(key), "\n");
  const auto again = access::ParseKeys(written);
  RECOLLECT_CHECK(again.ok() && *again == *keys);
  return 0;
}
