// The input is the file of a checkpoint: a zip file.
#include "convert/zip_archive.h"
#include "tests/fuzz/checkpoint_checks.h"
#include "tests/fuzz/pickle_values.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  static constexpr auto kBroken = {absl::StatusCode::kInvalidArgument, absl::StatusCode::kDataLoss};
  const fuzz::InputFile input(fuzz::AsText(data, size));
  const auto archive = convert::ZipArchive::Open(input.path());
  if (archive.ok()) {
    // What is read into memory is bounded by what is there.
    for (const convert::ZipEntryInfo& entry : (*archive)->entries()) {
      RECOLLECT_CHECK(entry.bytes >= 0 && entry.bytes <= static_cast<int64_t>(size));
    }
  }
  const auto checkpoint = convert::TorchCheckpoint::Open(input.path());
  if (!checkpoint.ok()) {
    fuzz::CheckRefusal(checkpoint.status(), kBroken);
    return 0;
  }
  fuzz::CheckPlans(**checkpoint);
  fuzz::VisitValues((*checkpoint)->tree(), [&](const convert::Value& value) {
    const auto* tensor = std::get_if<convert::TensorRef>(&value);
    if (tensor != nullptr && tensor->contiguous()) fuzz::ReadTensor(**checkpoint, *tensor);
  });
  return 0;
}
