// A document file, as somebody may have made it: taken into a store in memory. The first byte says
// how many bytes come at a time, and whether the file is signed anew first, so that what has a
// right checksum is tried, too.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "model/text/tokenizer.h"
#include "store/document_file.h"
#include "store/document_transfer.h"
#include "store/record.h"
#include "tests/fuzz/fuzzing.h"

namespace {

using namespace recollect;         // NOLINT
using namespace recollect::store;  // NOLINT

constexpr size_t kStartBytes = 16;

// The frames of the file with the checksums of their places, and an end of their own.
std::string SignedAnew(absl::string_view file) {
  FrameWriter out{DocumentInfo()};
  file.remove_prefix(std::min(file.size(), kStartBytes));
  while (file.size() > sizeof(uint32_t) + kRecordHeaderBytes) {
    uint32_t size;
    std::memcpy(&size, file.data(), sizeof(size));
    file.remove_prefix(sizeof(size));
    const absl::string_view record = file.substr(0, size);
    if (record.size() < kRecordHeaderBytes) break;
    if (static_cast<RecordType>(record[1]) == RecordType::kFileEnd) break;
    RecordWriter signed_anew(static_cast<RecordType>(record[1]), record.size(),
                             static_cast<uint8_t>(record[0]));
    signed_anew.Raw(record.data() + kRecordHeaderBytes, record.size() - kRecordHeaderBytes);
    out.Add(std::move(signed_anew).Finish(out.NextKey()));
    file.remove_prefix(record.size());
  }
  out.AddEnd();
  return out.Take();
}

absl::StatusOr<DocumentInfo> Import(DocumentStore& store, absl::string_view file, size_t at_once) {
  DocumentImport in(store,
                    {.fingerprint = "fingerprint",
                     .width = 4,
                     .key_width = 2,
                     .vocab_size = 100,
                     .chunk_tokens = 63,
                     .find_invalid_utf8 = model::FindInvalidUtf8},
                    "", [](const DocumentInfo&) { return absl::OkStatus(); });
  for (; !file.empty(); file.remove_prefix(std::min(at_once, file.size()))) {
    if (absl::Status taken = in.Append(file.substr(0, at_once)); !taken.ok()) return taken;
  }
  return in.Finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string file = (data[0] & 1) != 0 ? SignedAnew(input) : std::string(input);
  const auto store = CreateMemoryStore();
  const auto document = Import(*store, file, 1 + (data[0] >> 1) * size_t{40});
  if (!document.ok()) {
    using enum absl::StatusCode;
    fuzz::CheckRefusal(document.status(), {kInvalidArgument, kFailedPrecondition, kDataLoss});
    RECOLLECT_CHECK(store->List("", 1)->empty() && store->state().bytes == 0);
    return 0;
  }
  // What was taken goes out as it was, and in again.
  std::string again;
  DocumentExport out(*store, *document, 2);
  while (true) {
    const auto bytes = out.Next();
    RECOLLECT_CHECK(bytes.ok());
    if (bytes->empty()) break;
    again += *bytes;
  }
  const auto other = CreateMemoryStore();
  const auto copy = Import(*other, again, 1 << 20);
  RECOLLECT_CHECK(copy.ok() && copy->sha256 == document->sha256 &&
                  copy->chunks == document->chunks);
  return 0;
}
