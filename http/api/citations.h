// Collects what an answer came from: the blocks of mounted documents that it was given.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

class Citations {
 public:
  // In the order of the engine's events.
  void Add(const engine::Retrieval& retrieval);
  // The answer has begun: of what was retrieved before, it reads what was put in front of the
  // prompt as text, and the chunks of the last position; those of earlier ones were for the prompt.
  void AnswerBegins() { answering_ = true; }

  // The weight of nothing in what the answer reads (engine::Retrieval::nothing).
  std::optional<float> nothing() const { return nothing_; }

  // [{"document", "begin", "end", "weight", "quote", "text"}], up to 32, first blocks that the
  // answer quotes, then those of the largest weight: of each block its byte range, the largest
  // share in attention that it had, the words that the answer begins with or null, and its text up
  // to 4096 bytes, which is null where the document is gone. Blocks on the disk; its errors are
  // returned.
  absl::StatusOr<nlohmann::json> Encode(engine::Engine& engine) const;

 private:
  using Block = std::pair<std::string, int64_t>;  // document and chunk

  int64_t position_ = -1;
  bool answering_ = false;
  std::optional<float> nothing_;
  std::map<Block, engine::Hit> text_, chunks_;
};

}  // namespace recollect::http
