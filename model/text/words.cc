#include "model/text/words.h"

#include <utf8proc.h>

#include <algorithm>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "model/text/idf_table.h"

namespace recollect::model {
namespace {

constexpr std::string_view kEndings[] = {"ing", "ed", "es", "s", "ly"};
constexpr int64_t kLeastCharacters = 4;  // that an ending leaves
constexpr int32_t kReplacement = 0xfffd;
constexpr size_t kMaxBytes = 4;  // of a character

// How many bytes of malformed UTF-8 become one U+FFFD: what could still begin a character.
size_t MalformedBytes(std::string_view text) {
  for (size_t bytes = std::min(text.size(), kMaxBytes - 1); bytes > 1; --bytes) {
    if (FindInvalidUtf8(text.substr(0, bytes), /*allow_partial_end=*/true) < 0) return bytes;
  }
  return 1;
}

std::vector<int32_t> Characters(std::string_view text) {
  std::vector<int32_t> characters;
  while (!text.empty()) {
    utf8proc_int32_t character = kReplacement;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const utf8proc_ssize_t size =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &character);
    characters.push_back(size > 0 ? character : kReplacement);
    text.remove_prefix(size > 0 ? static_cast<size_t>(size) : MalformedBytes(text));
  }
  return characters;
}

// Blanks of every kind, and the controls that divide lines, paragraphs and fields.
bool IsBlank(int32_t character) {
  const utf8proc_property_t& property = *utf8proc_get_property(character);
  return property.category == UTF8PROC_CATEGORY_ZS ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_B ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_S;
}

bool IsLetterOrDigit(int32_t character) {
  const utf8proc_category_t category = utf8proc_category(character);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

bool EndsWith(std::span<const int32_t> characters, std::string_view ending) {
  return characters.size() >= ending.size() + kLeastCharacters &&
         std::equal(ending.rbegin(), ending.rend(), characters.rbegin());
}

// The table of the library, read once.
struct Idfs {
  std::unordered_map<std::string_view, float> of;
  float absent = 0;  // of a word that no block has
  float least = 0;   // of all words
};

Idfs ReadIdfs() {
  Idfs idfs;
  const std::string_view table = IdfTable();
  const auto hundredths = [](absl::string_view text) {
    int32_t number = 0;
    return absl::SimpleAtoi(text, &number) ? static_cast<float>(number) / 100 : 0.0f;
  };
  const std::vector<absl::string_view> lines =
      absl::StrSplit(absl::string_view(table.data(), table.size()), '\n', absl::SkipEmpty());
  const std::vector<absl::string_view> head = absl::StrSplit(lines.front(), ' ');
  idfs.absent = hundredths(head.back());
  idfs.least = idfs.absent;
  for (size_t line = 1; line < lines.size(); ++line) {
    const std::vector<absl::string_view> parts = absl::StrSplit(lines[line], ' ');
    const float idf = hundredths(parts.front());
    idfs.least = std::min(idfs.least, idf);
    for (size_t i = 1; i < parts.size(); ++i) {
      idfs.of.emplace(std::string_view(parts[i].data(), parts[i].size()), idf);
    }
  }
  return idfs;
}

}  // namespace

std::string WordText(std::string_view token_text) {
  const std::vector<int32_t> characters = Characters(token_text);
  std::span<const int32_t> rest = characters;
  while (!rest.empty() && IsBlank(rest.front())) rest = rest.subspan(1);
  while (!rest.empty() && IsBlank(rest.back())) rest = rest.first(rest.size() - 1);
  std::vector<int32_t> lower;
  for (const int32_t character : rest) lower.push_back(utf8proc_tolower(character));
  for (const std::string_view ending : kEndings) {
    if (!EndsWith(lower, ending)) continue;
    lower.resize(lower.size() - ending.size());
    break;
  }
  std::string word;
  for (const int32_t character : lower) {
    utf8proc_uint8_t bytes[kMaxBytes];
    const utf8proc_ssize_t size = utf8proc_encode_char(character, bytes);
    word.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
  return word;
}

float WordIdf(std::string_view word_text) {
  static const Idfs* const idfs = new Idfs(ReadIdfs());  // never destroyed
  if (const auto found = idfs->of.find(word_text); found != idfs->of.end()) return found->second;
  const std::vector<int32_t> characters = Characters(word_text);
  const bool says = std::any_of(characters.begin(), characters.end(), IsLetterOrDigit);
  return says ? idfs->absent : idfs->least;
}

Words Words::Make(std::span<const std::string> token_texts) {
  Words words;
  std::unordered_map<std::string, int32_t> numbers;
  for (const std::string& text : token_texts) {
    std::string word = WordText(text);
    const auto [number, added] = numbers.emplace(word, words.count());
    words.words_.push_back(number->second);
    if (!added) continue;
    words.idf_.push_back(WordIdf(word));
    words.texts_.push_back(std::move(word));
  }
  return words;
}

Words Words::Make(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    // A control token has no text: its name is its word.
    const std::string_view name = tokenizer.ControlName(id);
    texts.emplace_back(name.empty() ? tokenizer.TokenBytes(id) : name);
  }
  return Make(texts);
}

int64_t Words::bytes() const {
  size_t bytes = words_.capacity() * sizeof(words_[0]) + idf_.capacity() * sizeof(idf_[0]) +
                 texts_.capacity() * sizeof(texts_[0]);
  for (const std::string& text : texts_) {
    bytes += text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0;
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace recollect::model
