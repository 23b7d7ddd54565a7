#include "engine/memory_encoder.h"

#include <utility>

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

absl::Status MemoryEncoder::Restore(std::string_view bytes) {
  ASSIGN_OR_RETURN(model::LocalState state,
                   model::LocalState::Deserialize(config_, patterns_, layers(), bytes));
  return Begin(std::move(state));
}

}  // namespace recollect::engine
