#include "engine/block_texts.h"

#include <map>
#include <optional>

#include "absl/status/status.h"
#include "base/status.h"
#include "engine/engine.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

absl::StatusOr<std::string> ReadOne(Engine& engine, const Hit& hit) {
  if (hit.document.empty()) return std::string();
  absl::StatusOr<std::string> text = engine.ReadText(hit.document, hit.text_begin, hit.text_end);
  if (absl::IsNotFound(text.status()) || absl::IsOutOfRange(text.status())) return std::string();
  RETURN_IF_ERROR(text.status());
  return model::WholeCharacters(*std::move(text));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadBlockTexts(Engine& engine,
                                                        const std::vector<Hit>& hits) {
  std::vector<std::string> texts;
  for (const Hit& hit : hits) {
    ASSIGN_OR_RETURN(texts.emplace_back(), ReadOne(engine, hit));
  }
  // Text is read by name. Where the document of that name is another one by now, what was read is
  // not what was found: so owners are looked up behind the reading.
  std::map<std::string, std::optional<OwnerId>> owners;
  for (size_t i = 0; i < hits.size(); ++i) {
    if (texts[i].empty()) continue;
    const auto [known, first] = owners.try_emplace(hits[i].document);
    if (first) {
      const absl::StatusOr<store::DocumentInfo> now = engine.GetDocument(hits[i].document);
      if (!absl::IsNotFound(now.status())) RETURN_IF_ERROR(now.status());
      if (now.ok()) known->second = now->owner;
    }
    if (known->second != hits[i].owner) texts[i].clear();
  }
  return texts;
}

}  // namespace recollect::engine
