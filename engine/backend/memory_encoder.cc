#include "engine/backend/memory_encoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::engine {

absl::StatusOr<std::string> MemoryEncoder::Serialize() const {
  std::string bytes = model::LocalState::SerializeHead(patterns_, layers());
  for (int layer = 0; layer < layers(); ++layer) {
    ASSIGN_OR_RETURN(const std::string section, SerializeLayer(layer));
    bytes += section;
  }
  return bytes;
}

absl::Status MemoryEncoder::Restore(std::string_view bytes, int64_t length) {
  ASSIGN_OR_RETURN(model::LocalState state,
                   model::LocalState::Deserialize(config_, patterns_, layers(), bytes));
  if (state.length() != length) {
    return absl::DataLossError(
        absl::StrCat("stored local state has ", state.length(), " positions, expected ", length));
  }
  return Begin(std::move(state));
}

MemoryEncoder::Rows MemoryEncoder::RowsOf(std::span<const Block> blocks) const {
  const bool at_end = config_.landmark_at == model::LandmarkAt::kEnd;
  Rows rows;
  for (const Block block : blocks) {
    rows.begins.push_back(std::ssize(rows.ids));
    if (config_.landmarks() && !at_end) rows.ids.push_back(config_.lmk_id);
    rows.ids.insert(rows.ids.end(), block.begin(), block.end());
    if (config_.landmarks() && at_end) rows.ids.push_back(config_.lmk_id);
  }
  rows.begins.push_back(std::ssize(rows.ids));
  return rows;
}

}  // namespace recollect::engine
