#include "cli/niah/volume.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cli/niah/haystack.h"

namespace recollect::cli::niah {
namespace {

constexpr int64_t kMaxHits = 1024;       // that Retrieve gives
constexpr int64_t kMaxDeviceHits = 256;  // where landmark keys are on a GPU
constexpr int64_t kQueryBytes = 160;     // about a chunk
constexpr int kMaxQueries = 16;          // later ones show little that is new
constexpr int64_t kUnseen = -1;
constexpr size_t kHashDigits = 16;  // of a document's name

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

Volume::Volume(client::Client& client, std::string id, std::string text, bool keep)
    : client_(client), id_(std::move(id)), text_(std::move(text)), keep_(keep) {}

Volume::~Volume() {
  if (!keep_) (void)client_.DeleteDocument(id_);
}

absl::StatusOr<std::shared_ptr<const Volume>> Volume::Ingest(client::Client& client, uint64_t seed,
                                                             const std::string& text) {
  static std::atomic<int64_t> next = 0;
  // Made before the ingest so that a document is deleted also when that fails half way.
  std::shared_ptr<Volume> volume(new Volume(
      client, absl::StrCat("niah-", seed, "-", getpid(), "-", next++), text, /*keep=*/false));
  RETURN_IF_ERROR(volume->Ingest(0, nullptr));
  return volume;
}

absl::StatusOr<std::shared_ptr<const Volume>> Volume::IngestOnce(
    client::Client& client, uint64_t seed, const std::string& text,
    const client::ProgressFunction& progress) {
  std::shared_ptr<Volume> volume(new Volume(client, NameOf(seed, text), text, /*keep=*/true));
  const auto there = client.GetDocument(volume->id_);
  if (there.ok() && there->sha256() == Sha256Hex(text)) {
    RETURN_IF_ERROR(volume->Adopt(*there));
  } else {
    ASSIGN_OR_RETURN(const std::vector<v1::UnfinishedIngest> unfinished, client.ListIngests());
    int64_t committed = 0;
    for (const v1::UnfinishedIngest& ingest : unfinished) {
      if (ingest.id() == volume->id_) committed = ingest.tokens();
    }
    RETURN_IF_ERROR(volume->Ingest(committed, progress));
  }
  return volume;
}

std::string Volume::NameOf(uint64_t seed, const std::string& text) {
  return absl::StrCat("niah-", seed, "-", Sha256Hex(text).substr(0, kHashDigits));
}

// `committed`: tokens that an earlier call has read.
absl::Status Volume::Ingest(int64_t committed, const client::ProgressFunction& progress) {
  ASSIGN_OR_RETURN(const v1::Document document,
                   client_.IngestText(id_, client::ReadFrom(text_), progress));
  ingested_tokens_ = document.tokens() - committed;
  return Adopt(document);
}

absl::Status Volume::Adopt(const v1::Document& document) {
  tokens_ = document.tokens();
  stored_bytes_ = document.stored_bytes();
  RETURN_IF_ERROR(FindChunks(document.chunks()));
  for (int64_t c = 0; c < document.chunks(); ++c) {
    words_.Add(std::string_view(text_).substr(begins_[c], begins_[c + 1] - begins_[c]));
  }
  return absl::OkStatus();
}

int64_t Volume::ChunkAt(int64_t at) const {
  return std::upper_bound(begins_.begin(), begins_.end() - 1, at) - begins_.begin() - 1;
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
  for (const int64_t begin : begins_) exact_.push_back(begin != kUnseen);
  int64_t last = 0;
  for (int64_t seen = 1; seen < std::ssize(begins_); ++seen) {
    if (!exact_[seen]) continue;
    const int64_t from = begins_[last], to = begins_[seen];
    for (int64_t c = last + 1; c < seen; ++c) {
      begins_[c] = from + (to - from) * (c - last) / (seen - last);
    }
    last = seen;
  }
  return absl::OkStatus();
}

}  // namespace recollect::cli::niah
