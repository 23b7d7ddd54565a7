#include "base/io/paths.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace recollect {

std::string WithoutPaths(absl::string_view message) {
  std::vector<std::string> words;
  char quote = 0;  // of the quoted text that a word stands in
  for (const absl::string_view word : absl::StrSplit(message, ' ')) {
    const bool opens = quote == 0 && (absl::StartsWith(word, "'") || absl::StartsWith(word, "\""));
    if (opens) quote = word.front();
    const bool quoted = quote != 0;
    const absl::string_view rest = opens ? word.substr(1) : word;
    if (quoted && absl::StrContains(rest, quote)) quote = 0;
    if (quoted || !absl::StrContains(word, '/')) {
      words.emplace_back(word);
    } else {
      const bool stops = absl::StrContains(".,;:", word.substr(word.size() - 1));
      words.push_back(absl::StrCat("a file", stops ? word.substr(word.size() - 1) : ""));
    }
  }
  return absl::StrJoin(words, " ");
}

}  // namespace recollect
