#include "engine/session/loaded_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::engine {

absl::Status LoadedKeys::Load(const Mounts::Keys& from, const store::DocumentInfo& info,
                              Mounts::Need need) {
  MutexLock lock(mutex_);
  absl::Status status = need.keys ? LoadKeys(from, info) : absl::OkStatus();
  if (status.ok() && need.words && !sparse_.has_value()) status = LoadSparse(from, info);
  return Annotate(status, absl::StrCat("document \"", info.id, "\""));
}

absl::Status LoadedKeys::LoadKeys(const Mounts::Keys& from, const store::DocumentInfo& info) {
  if (from.hybrid ? hybrid_.has_value() : any()) return absl::OkStatus();
  if (from.text == nullptr) return LoadLandmarks(from, info);
  if (!from.hybrid) return LoadSparse(from, info);
  ASSIGN_OR_RETURN(hybrid_, from.text->ReadHybrid(info));
  return absl::OkStatus();
}

absl::Status LoadedKeys::LoadSparse(const Mounts::Keys& from, const store::DocumentInfo& info) {
  ASSIGN_OR_RETURN(sparse_, from.text->Read(info));
  return absl::OkStatus();
}

absl::Status LoadedKeys::LoadLandmarks(const Mounts::Keys& from, const store::DocumentInfo& info) {
  LargeVector<Bf16> read(static_cast<size_t>(info.chunks * from.d_k));
  RETURN_IF_ERROR(from.reader.FillLandmarkKeys(info.owner, info.chunks, from.d_k, read.data()));
  const std::shared_ptr<const LandmarkLists> lists =
      from.find_lists == nullptr ? nullptr : from.find_lists(info);
  if (lists == nullptr) {
    ASSIGN_OR_RETURN(landmarks_, from.device.Keep(std::move(read)));
    return absl::OkStatus();
  }
  OrderKeys(*lists, read);
  ASSIGN_OR_RETURN(std::unique_ptr<LandmarkKeys> kept, from.device.Keep({}));
  RETURN_IF_ERROR(kept->UseLists({std::move(read), lists}));
  landmarks_ = std::move(kept);
  listed_ = true;
  return absl::OkStatus();
}

absl::Status LoadedKeys::UseLists(ListedKeys listed) {
  MutexLock lock(mutex_);
  if (landmarks_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(landmarks_->UseLists(std::move(listed)));
  listed_ = true;
  return absl::OkStatus();
}

bool LoadedKeys::loaded() const {
  MutexLock lock(mutex_);
  return any();
}

LoadedKeys::Bytes LoadedKeys::bytes_by_words(const Mounts::Keys& from) const {
  MutexLock lock(mutex_);
  Bytes bytes;
  if (hybrid_.has_value()) bytes.keys = hybrid_->bytes();
  if (sparse_.has_value()) (from.hybrid ? bytes.words : bytes.keys) = sparse_->bytes();
  return bytes;
}

}  // namespace recollect::engine
