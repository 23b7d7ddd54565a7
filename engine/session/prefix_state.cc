#include "engine/session/prefix_state.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr auto kPartBytes = static_cast<size_t>(store::kStatePartBytes);

class PartWriter {
 public:
  PartWriter(store::IngestWriter& store, OwnerId owner) : store_(store), owner_(owner) {}

  absl::Status Section(std::string_view section) {
    const uint64_t length = section.size();
    RETURN_IF_ERROR(Write({reinterpret_cast<const char*>(&length), sizeof(length)}));
    return Write(section);
  }
  absl::StatusOr<int64_t> Finish() {
    RETURN_IF_ERROR(Put());
    return bytes_;
  }

 private:
  absl::Status Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kPartBytes - part_.size());
      part_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (part_.size() == kPartBytes) RETURN_IF_ERROR(Put());
    }
    return absl::OkStatus();
  }
  absl::Status Put() {
    if (part_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(store_.PutStatePart(owner_, parts_++, part_));
    bytes_ += static_cast<int64_t>(part_.size());
    part_.clear();
    return absl::OkStatus();
  }

  store::IngestWriter& store_;
  const OwnerId owner_;
  std::string part_;
  int64_t parts_ = 0, bytes_ = 0;
};

class PartReader {
 public:
  PartReader(store::DocumentReader& store, const StoredState& stored)
      : store_(store), owner_(stored.owner), left_(static_cast<uint64_t>(stored.bytes)) {}

  absl::StatusOr<std::string> Section() {
    uint64_t length = 0;
    ASSIGN_OR_RETURN(const std::string prefix, Read(sizeof(length)));
    std::memcpy(&length, prefix.data(), sizeof(length));
    return Read(length);
  }
  absl::Status CheckEnd() const {
    return left_ == 0 ? absl::OkStatus() : Malformed(absl::StrCat(left_, " bytes too many"));
  }
  absl::Status Malformed(std::string_view why) const {
    return absl::DataLossError(
        absl::StrCat("state of owner ", static_cast<uint64_t>(owner_), ": ", std::string(why)));
  }

 private:
  // Sizes are compared with what is there, so that damage cannot ask for memory.
  absl::StatusOr<std::string> Read(uint64_t count) {
    if (count > left_) {
      return Malformed(absl::StrCat("a section of ", count, " bytes where ", left_, " are left"));
    }
    left_ -= count;
    std::string out;
    out.reserve(count);
    while (out.size() < count) {
      if (at_ == part_.size()) {
        ASSIGN_OR_RETURN(part_, store_.ReadStatePart(owner_, parts_++));
        at_ = 0;
      }
      const size_t taken = std::min(static_cast<size_t>(count) - out.size(), part_.size() - at_);
      out.append(part_, at_, taken);
      at_ += taken;
    }
    return out;
  }

  store::DocumentReader& store_;
  const OwnerId owner_;
  uint64_t left_;
  std::string part_;
  size_t at_ = 0;  // of part_
  int64_t parts_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> PutState(const MemoryEncoder& encoder, store::IngestWriter& store,
                                 OwnerId owner) {
  PartWriter writer(store, owner);
  RETURN_IF_ERROR(
      writer.Section(model::LocalState::SerializeHead(encoder.patterns(), encoder.layers())));
  for (int layer = 0; layer < encoder.layers(); ++layer) {
    ASSIGN_OR_RETURN(const std::string section, encoder.SerializeLayer(layer));
    RETURN_IF_ERROR(writer.Section(section));
  }
  return writer.Finish();
}

absl::StatusOr<model::LocalState> RestoreState(const model::Model& model,
                                               const model::LocalPatterns& pattern,
                                               store::DocumentReader& store,
                                               const StoredState& stored, StateBudget& budget,
                                               StateCharge& charge) {
  // What vectors reserve beyond the stored bytes is an eighth.
  RETURN_IF_ERROR(budget.Reserve(charge, stored.bytes + stored.bytes / 8));
  PartReader reader(store, stored);
  ASSIGN_OR_RETURN(const std::string head, reader.Section());
  std::string_view rest = head;
  ASSIGN_OR_RETURN(model::LocalState state, model::LocalState::DeserializeHead(
                                                model.config(), pattern, model.config().layers(),
                                                rest, model.cache_dtype()));
  if (!rest.empty()) return reader.Malformed("its head is too long");
  for (model::LayerState& layer : state.layers) {
    ASSIGN_OR_RETURN(const std::string section, reader.Section());
    rest = section;
    RETURN_IF_ERROR(layer.Deserialize(rest));
    if (!rest.empty()) return reader.Malformed("a layer is too long");
  }
  RETURN_IF_ERROR(reader.CheckEnd());
  RETURN_IF_ERROR(state.CheckLengths());
  if (state.length() != stored.length) {
    return reader.Malformed(absl::StrCat(state.length(), " positions, expected ", stored.length));
  }
  budget.Set(charge, state.bytes());
  return state;
}

}  // namespace recollect::engine
