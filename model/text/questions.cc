#include "model/text/questions.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "model/text/sentence.h"

namespace recollect::model {
namespace {

constexpr size_t kMostBytes = 500, kMostQuestions = 4;
constexpr size_t kFewestWords = 3;  // of either side of an "and": "When and where is it?" is one
constexpr std::array<absl::string_view, 9> kAskingWords = {"who",   "whom", "whose", "what", "when",
                                                           "where", "why",  "which", "how"};

bool Asks(absl::string_view word) {
  return std::ranges::any_of(
      kAskingWords, [&](absl::string_view one) { return absl::EqualsIgnoreCase(word, one); });
}

// Adds the questions of a part that ends with a question mark.
void AddQuestions(absl::string_view part, std::vector<std::string>& questions) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(part, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
  const auto text_of = [&](size_t first, size_t last) {
    const char* const end = words[last - 1].data() + words[last - 1].size();
    return absl::string_view(words[first].data(), static_cast<size_t>(end - words[first].data()));
  };
  size_t first = 0;
  for (size_t i = kFewestWords; i + kFewestWords < words.size(); ++i) {
    const bool joins =
        absl::EqualsIgnoreCase(words[i], "and") || absl::EqualsIgnoreCase(words[i], "or");
    if (!joins || !Asks(words[i + 1]) || i < first + kFewestWords) continue;
    questions.push_back(absl::StrCat(absl::StripSuffix(text_of(first, i), ","), "?"));
    first = i + 1;
  }
  questions.emplace_back(text_of(first, words.size()));
}

}  // namespace

std::vector<std::string> QuestionsIn(absl::string_view message) {
  std::vector<std::string> questions;
  if (message.size() > kMostBytes || !absl::StrContains(message, '?'))
    return {std::string(message)};
  size_t begin = 0;
  for (const TextRange& sentence :
       SentencesIn({message.data(), message.size()}, {0, message.size()})) {
    const absl::string_view part =
        absl::StripAsciiWhitespace(message.substr(begin, sentence.end - begin));
    if (!absl::EndsWith(part, "?")) continue;
    AddQuestions(part, questions);
    begin = sentence.end;
  }
  const absl::string_view rest = absl::StripAsciiWhitespace(message.substr(begin));
  if (questions.size() < 2 || questions.size() > kMostQuestions) return {std::string(message)};
  if (!rest.empty()) absl::StrAppend(&questions.back(), " ", rest);
  return questions;
}

}  // namespace recollect::model
