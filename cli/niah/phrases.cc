#include "cli/niah/phrases.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status.h"

namespace recollect::cli::niah {
namespace {

absl::StatusOr<std::vector<std::string>> Strings(const nlohmann::json& json, const char* split,
                                                 const char* name) {
  const auto pointer = nlohmann::json::json_pointer(absl::StrCat("/", split, "/", name));
  std::vector<std::string> strings;
  if (json.contains(pointer) && json.at(pointer).is_array()) {
    for (const auto& item : json.at(pointer)) {
      if (item.is_string()) strings.push_back(item.get<std::string>());
    }
  }
  if (strings.empty())
    return absl::InvalidArgumentError(absl::StrCat("phrases: no strings at ", split, ".", name));
  return strings;
}

absl::StatusOr<PhraseList> List(const nlohmann::json& json, const char* split) {
  PhraseList list;
  ASSIGN_OR_RETURN(list.needles, Strings(json, split, "needles"));
  ASSIGN_OR_RETURN(list.questions, Strings(json, split, "questions"));
  ASSIGN_OR_RETURN(list.nouns, Strings(json, split, "nouns"));
  return list;
}

}  // namespace

absl::StatusOr<Phrases> ParsePhrases(const std::string& text) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(text);
  if (!parsed.ok()) return Annotate(parsed.status(), "phrases");
  const nlohmann::json& json = *parsed;
  Phrases phrases;
  ASSIGN_OR_RETURN(phrases.trained, List(json, "train"));
  ASSIGN_OR_RETURN(phrases.held_out, List(json, "test"));
  for (const char* name : {"needles", "questions"}) {
    if (!json.contains("more")) break;  // not every list has them
    ASSIGN_OR_RETURN(const std::vector<std::string> more, Strings(json, "more", name));
    phrases.more.insert(phrases.more.end(), more.begin(), more.end());
  }
  return phrases;
}

}  // namespace recollect::cli::niah
