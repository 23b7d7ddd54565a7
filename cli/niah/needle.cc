#include "cli/niah/needle.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace recollect::cli::niah {
namespace {

constexpr int kMinWordCount = 3;
constexpr int kTriesApart = 200;  // to find a key of words that no other has

// The forms of training's keys: words in lower case, in capitals, with a hyphen.
std::string MakeKey(Random& random, const std::vector<std::string>& words) {
  const int64_t count = 1 + random.Below(3);
  const int64_t style = random.Below(3);
  std::string key;
  for (int64_t i = 0; i < count; ++i) {
    std::string word = random.Pick(words);
    if (style == 1) word = Capitalised(word);
    absl::StrAppend(&key, i == 0 ? "" : style == 2 ? "-" : " ", word);
  }
  return key;
}

std::string Fill(const std::string& phrase, const Form& form, const Needle& needle) {
  return absl::StrReplaceAll(
      phrase, {{"{noun}", form.noun}, {"{key}", needle.key}, {"{value}", needle.value}});
}

std::vector<absl::string_view> KeyWords(const std::string& key) {
  return absl::StrSplit(key, absl::ByAnyChar(" -"), absl::SkipEmpty());
}

// Of keys in lower case.
bool SharesAWord(const std::string& key, const std::vector<std::string>& others) {
  const std::vector<absl::string_view> words = KeyWords(key);
  return std::any_of(others.begin(), others.end(), [&](const std::string& other) {
    const std::vector<absl::string_view> theirs = KeyWords(other);
    return std::find_first_of(words.begin(), words.end(), theirs.begin(), theirs.end()) !=
           words.end();
  });
}

}  // namespace

std::string Capitalised(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

Form MakeForm(Random& random, const PhraseList& phrases, ValueKind kind, int hex_digits) {
  return {random.Pick(phrases.nouns), random.Pick(phrases.needles), random.Pick(phrases.questions),
          kind, hex_digits};
}

Needle MakeNeedle(Random& random, const Form& form, const std::vector<std::string>& words,
                  std::vector<std::string>* taken, bool apart) {
  Needle needle;
  int tries = 0;
  const auto refused = [&](const std::string& key) {
    return std::find(taken->begin(), taken->end(), key) != taken->end() ||
           (apart && tries++ < kTriesApart && SharesAWord(key, *taken));
  };
  do {
    needle.key = MakeKey(random, words);
  } while (refused(absl::AsciiStrToLower(needle.key)));
  taken->push_back(absl::AsciiStrToLower(needle.key));
  needle.value = form.kind == ValueKind::kHex
                     ? random.Characters(form.hex_digits, "0123456789abcdef")
                     : random.Characters(5 + random.Below(3), "0123456789");
  needle.sentence = Fill(form.needle, form, needle);
  if (needle.sentence.front() != '\n')
    needle.sentence = absl::StrCat(" ", Capitalised(needle.sentence));
  needle.value_offset = static_cast<int64_t>(needle.sentence.find(needle.value));
  needle.question = Capitalised(Fill(form.question, form, needle));
  return needle;
}

std::vector<std::string> TestWords(const std::string& text) {
  std::map<std::string, int> counts;
  std::string word;
  bool clean = true;  // letters only so far
  for (size_t i = 0; i <= text.size(); ++i) {
    const unsigned char c = i < text.size() ? static_cast<unsigned char>(text[i]) : ' ';
    if (!absl::ascii_isspace(c)) {
      word += static_cast<char>(absl::ascii_tolower(c));
      clean = clean && absl::ascii_isalpha(c);
      continue;
    }
    if (clean && word.size() >= 3 && word.size() <= 10 && Crc32(word) % 10 == 0) ++counts[word];
    word.clear();
    clean = true;
  }
  std::vector<std::string> words;
  for (const auto& [candidate, count] : counts) {
    if (count >= kMinWordCount) words.push_back(candidate);
  }
  return words;
}

uint32_t Crc32(const std::string& text) {
  uint32_t crc = 0xffffffffu;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

bool IsRight(const std::string& answer, const std::string& value) {
  const size_t begin = answer.find_first_not_of(" \n");
  if (begin == std::string::npos) return false;
  size_t end = begin;
  while (end < answer.size() && absl::ascii_isalnum(static_cast<unsigned char>(answer[end]))) ++end;
  return answer.substr(begin, end - begin) == value;
}

}  // namespace recollect::cli::niah
