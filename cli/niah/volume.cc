#include "cli/niah/volume.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/niah/haystack.h"

namespace recollect::cli::niah {
namespace {

constexpr int64_t kMaxHits = 1024;       // that Retrieve gives
constexpr int64_t kMaxDeviceHits = 256;  // where landmark keys are on a GPU
constexpr int64_t kQueryBytes = 160;     // about a chunk
constexpr int kMaxQueries = 16;          // later ones show little that is new
constexpr int64_t kUnseen = -1;

// Two chunks whose begins are known, and no begin between them.
struct Stretch {
  int64_t begin = 0, end = 0;
};

Stretch LongestUnseen(const std::vector<int64_t>& begins) {
  Stretch longest;
  int64_t last = 0;
  for (int64_t c = 1; c < std::ssize(begins); ++c) {
    if (begins[c] == kUnseen) continue;
    if (c - last > longest.end - longest.begin) longest = {last, c};
    last = c;
  }
  return longest;
}

}  // namespace

Volume::Volume(client::Client& client, std::string id, std::string text)
    : client_(client), id_(std::move(id)), text_(std::move(text)) {}

Volume::~Volume() { (void)client_.DeleteDocument(id_); }

absl::StatusOr<std::shared_ptr<const Volume>> Volume::Ingest(client::Client& client, uint64_t seed,
                                                             const std::string& text) {
  static std::atomic<int64_t> next = 0;
  // Made before the ingest so that a document is deleted also when that fails half way.
  std::shared_ptr<Volume> volume(
      new Volume(client, absl::StrCat("niah-", seed, "-", getpid(), "-", next++), text));
  ASSIGN_OR_RETURN(const v1::Document document,
                   client.IngestText(volume->id_, client::ReadFrom(text)));
  volume->tokens_ = document.tokens();
  RETURN_IF_ERROR(volume->FindChunks(document.chunks()));
  for (int64_t c = 0; c < document.chunks(); ++c) {
    volume->words_.Add(
        std::string_view(volume->text_)
            .substr(volume->begins_[c], volume->begins_[c + 1] - volume->begins_[c]));
  }
  return volume;
}

// No call lists a document's chunks, but every hit tells where one lies: asks for as many hits as
// there may be; while some chunks stay unseen, for the text where most of those must be. Some are
// among the best for no query. A stretch of such is cut evenly.
absl::Status Volume::FindChunks(int64_t chunks) {
  begins_.assign(chunks + 1, kUnseen);
  begins_.front() = 0;
  begins_.back() = bytes();
  v1::RetrieveRequest request;
  request.mutable_session()->add_mounts(id_);
  request.set_k(kMaxHits);
  Stretch stretch = LongestUnseen(begins_);
  for (int query = 0; query < kMaxQueries && stretch.end > stretch.begin + 1; ++query) {
    const int64_t at = begins_[stretch.begin];
    request.mutable_query()->set_text(
        Haystack::Cut(text_, at, std::min(kQueryBytes, bytes() - at), 1).shards().front());
    auto response = client_.Retrieve(request);
    if (absl::IsInvalidArgument(response.status()) && request.k() == kMaxHits) {
      request.set_k(kMaxDeviceHits);
      response = client_.Retrieve(request);
    }
    RETURN_IF_ERROR(response.status());
    for (const v1::Retrieval& retrieval : response->retrievals()) {
      for (const v1::Hit& hit : retrieval.hits()) {
        if (hit.document() != id_) continue;  // the query's own blocks
        begins_[hit.chunk()] = hit.text_begin();
        begins_[hit.chunk() + 1] = hit.text_end();
      }
    }
    const Stretch left = LongestUnseen(begins_);
    if (left.begin == stretch.begin && left.end == stretch.end) break;
    stretch = left;
  }
  for (; stretch.end > stretch.begin + 1; stretch = LongestUnseen(begins_)) {
    const int64_t from = begins_[stretch.begin], to = begins_[stretch.end];
    for (int64_t c = stretch.begin + 1; c < stretch.end; ++c) {
      begins_[c] = from + (to - from) * (c - stretch.begin) / (stretch.end - stretch.begin);
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::cli::niah
