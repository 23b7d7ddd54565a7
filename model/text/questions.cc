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

// Adds the questions of a part of a message that ends with a question mark.
void AddQuestions(absl::string_view message, absl::string_view part,
                  std::vector<MessageQuestion>& questions) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(part, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
  const auto add = [&](size_t first, size_t last, absl::string_view mark) {
    const auto begin = static_cast<size_t>(words[first].data() - message.data());
    const auto end = static_cast<size_t>(words[last].data() - message.data()) + words[last].size();
    const absl::string_view text = message.substr(begin, end - begin);
    questions.push_back({absl::StrCat(absl::StripSuffix(text, ","), mark), {begin, end}});
  };
  size_t first = 0;
  for (size_t i = kFewestWords; i + kFewestWords < words.size(); ++i) {
    const bool joins =
        absl::EqualsIgnoreCase(words[i], "and") || absl::EqualsIgnoreCase(words[i], "or");
    if (!joins || !Asks(words[i + 1]) || i < first + kFewestWords) continue;
    add(first, i - 1, "?");
    first = i + 1;
  }
  add(first, words.size() - 1, "");
}

}  // namespace

std::vector<MessageQuestion> QuestionsIn(absl::string_view message) {
  std::vector<MessageQuestion> whole = {{std::string(message), {0, message.size()}}};
  if (message.size() > kMostBytes || !absl::StrContains(message, '?')) return whole;
  std::vector<MessageQuestion> questions;
  size_t begin = 0;
  for (const TextRange& sentence :
       SentencesIn({message.data(), message.size()}, {0, message.size()})) {
    const absl::string_view part = message.substr(begin, sentence.end - begin);
    const absl::string_view text = absl::StripTrailingAsciiWhitespace(part);
    // A question mark within a word, as in an address, ends no question.
    const bool ends_word = text.size() < part.size() || sentence.end == message.size();
    if (!absl::EndsWith(text, "?") || !ends_word) continue;
    AddQuestions(message, text, questions);
    begin = sentence.end;
  }
  if (questions.size() < 2 || questions.size() > kMostQuestions) return whole;
  const absl::string_view rest = absl::StripAsciiWhitespace(message.substr(begin));
  if (!rest.empty()) absl::StrAppend(&questions.back().text, " ", rest);
  questions.back().range.end = message.size();
  return questions;
}

}  // namespace recollect::model
