#include "engine/session/landmark_indexes.h"

#include <future>
#include <limits>
#include <utility>
#include <vector>

#include "base/io/log.h"
#include "base/large_vector.h"
#include "base/memory.h"
#include "base/status.h"

namespace recollect::engine {

LandmarkIndexes::LandmarkIndexes(store::DocumentStore& store, Mounts& mounts,
                                 std::shared_ptr<ListMaker> maker, std::string fingerprint,
                                 int64_t d_k, int64_t least_chunks, Counters& counters)
    : store_(store),
      mounts_(mounts),
      maker_(std::move(maker)),
      fingerprint_(std::move(fingerprint)),
      d_k_(d_k),
      least_chunks_(least_chunks),
      counters_(counters),
      thread_(maker_ == nullptr ? nullptr : std::make_unique<Executor>(1)) {}

void LandmarkIndexes::Post(std::function<void()> work) {
  if (thread_ != nullptr) thread_->Post(std::move(work));
}

bool LandmarkIndexes::Wants(const store::DocumentInfo& info) const {
  return maker_ != nullptr && info.fingerprint == fingerprint_ && info.chunks >= least_chunks_ &&
         info.chunks <= std::numeric_limits<int32_t>::max();
}

absl::StatusOr<LandmarkLists> LandmarkIndexes::Read(const store::DocumentInfo& info) {
  const absl::StatusOr<std::string> bytes = store_.ReadIndex(info.owner);
  absl::StatusOr<LandmarkLists> lists =
      bytes.ok() ? DecodeLists(*bytes, info.chunks, d_k_) : bytes.status();
  if (!lists.ok() && !absl::IsNotFound(lists.status())) {
    counters_.CountError(lists.status());
    LogWarning("document \"{}\": {}", info.id, std::string(lists.status().message()));
  }
  return lists;
}

std::shared_ptr<const LandmarkLists> LandmarkIndexes::Find(const store::DocumentInfo& info) {
  if (!Wants(info)) return nullptr;
  absl::StatusOr<LandmarkLists> lists = Read(info);
  if (lists.ok()) return std::make_shared<const LandmarkLists>(*std::move(lists));
  Add(info.id);
  return nullptr;
}

void LandmarkIndexes::Start() {
  Post([this] { AddAll(); });
}

void LandmarkIndexes::Add(const std::string& id) {
  Post([this, id] { Make(id); });
}

void LandmarkIndexes::Stop() {
  stopping_ = true;
  if (thread_ != nullptr) thread_->Stop();
}

void LandmarkIndexes::AwaitForTest() {
  if (thread_ == nullptr) return;
  std::promise<void> reached;
  Post([&] { reached.set_value(); });
  reached.get_future().wait();
}

void LandmarkIndexes::AddAll() {
  constexpr int64_t kPage = 1000;
  std::string last;
  while (!stopping_) {
    const absl::StatusOr<std::vector<store::DocumentInfo>> page = store_.List(last, kPage);
    if (!page.ok()) {
      LogWarning("indexes over landmark keys: {}", std::string(page.status().message()));
      return;
    }
    for (const store::DocumentInfo& info : *page) {
      if (info.damage.empty() && Wants(info)) Make(info.id);
    }
    if (static_cast<int64_t>(page->size()) < kPage) return;
    last = page->back().id;
  }
}

void LandmarkIndexes::Make(const std::string& id) {
  if (stopping_) return;
  const absl::Status status = OrExhausted("an index", [&] { return MakeNow(id); });
  if (status.ok() || absl::IsNotFound(status) || absl::IsCancelled(status)) return;
  counters_.CountError(status);
  LogWarning("no index over landmark keys of \"{}\": {}", id, std::string(status.message()));
}

absl::Status LandmarkIndexes::MakeNow(const std::string& id) {
  ASSIGN_OR_RETURN(const Pin pin, mounts_.PinDocument(id));
  const store::DocumentInfo& info = pin->info();
  if (!Wants(info) || Read(info).ok()) return absl::OkStatus();
  // What is made is the keys once more, in another order.
  ASSIGN_OR_RETURN(const std::shared_ptr<void> room, mounts_.Reserve(info));
  LargeVector<Bf16> keys(static_cast<size_t>(info.chunks * d_k_));
  RETURN_IF_ERROR(store_.FillLandmarkKeys(info.owner, info.chunks, d_k_, keys.data()));
  const auto cancelled = [&] {
    const absl::StatusOr<store::DocumentInfo> now = store_.Get(id);
    return stopping_ || !now.ok() || now->owner != info.owner;
  };
  ASSIGN_OR_RETURN(LandmarkLists made, maker_->Make(keys, d_k_, cancelled));
  RETURN_IF_ERROR(store_.PutIndex(info.owner, EncodeLists(made)));
  ++counters_.indexes_made;
  LogInfo("document \"{}\": {} chunks in {} lists", id, info.chunks, made.lists());
  const auto lists = std::make_shared<const LandmarkLists>(std::move(made));
  OrderKeys(*lists, keys);
  return mounts_.UseLists(info.owner, {std::move(keys), lists});
}

}  // namespace recollect::engine
