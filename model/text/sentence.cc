#include "model/text/sentence.h"

#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/ascii.h"

namespace recollect::model {
namespace {

constexpr size_t kLongLine = 60;   // bytes; text that was broken by hand has such lines
constexpr size_t kListNumber = 4;  // the most bytes of a list's number with its stop
constexpr size_t kLabel = 24;      // the most bytes of a line's label

// Abbreviations before names and numbers that ICU's list lacks, or finds in some places only.
constexpr std::array<std::string_view, 9> kAbbreviations = {"Mr.", "Mrs.", "Ms.", "Dr.", "St.",
                                                            "No.", "Nos.", "p.",  "pp."};
constexpr std::array<std::string_view, 5> kClauseMarks = {",", ";", ":", "–", "—"};
constexpr std::array<std::string_view, 4> kLabelMarks = {": ", " - ", " – ", " — "};
constexpr std::array<std::string_view, 7> kListMarks = {"-", "*", "•", "–", "—", ">", "#"};

bool IsBlankByte(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }
bool IsDigitByte(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

std::string_view FromFirstWord(std::string_view text) {
  return {std::ranges::find_if_not(text, IsBlankByte), text.end()};
}

// Removes one mark of a list and the blanks around it; returns whether there was one.
bool ConsumeListMark(std::string_view& text) {
  const std::string_view line = FromFirstWord(text);
  for (const std::string_view mark : kListMarks) {
    if (!line.starts_with(mark) || line.size() == mark.size() || !IsBlankByte(line[mark.size()]))
      continue;
    text = FromFirstWord(line.substr(mark.size()));
    return true;
  }
  return false;
}

// Whether a text ends a sentence, perhaps with closing quotes or brackets behind its stop.
bool EndsSentence(std::string_view text) {
  constexpr std::array<std::string_view, 6> kClosing = {"\"", "'", ")", "]", "”", "’"};
  const auto consume = [&](std::string_view mark) {
    const bool closes = text.ends_with(mark);
    if (closes) text.remove_suffix(mark.size());
    return closes;
  };
  while (std::ranges::any_of(kClosing, consume)) continue;
  return !text.empty() && (std::string_view(".?!").find(text.back()) != std::string_view::npos ||
                           text.ends_with("…"));
}

// Whether a line begins with what it is about, as "E2 - The drain is blocked" does: with a few
// words without a stop, the first of which has a capital or a number, in front of a colon or a
// dash.
bool HasLabel(std::string_view line) {
  line = FromFirstWord(line.substr(0, line.find('\n')));
  const auto first = line.empty() ? ' ' : line[0];
  if (!absl::ascii_isupper(static_cast<unsigned char>(first)) && !IsDigitByte(first)) return false;
  return std::ranges::any_of(kLabelMarks, [&](std::string_view mark) {
    const std::string_view label = line.substr(0, line.find(mark));
    return label.size() < line.size() && label.size() <= kLabel &&
           label.find_first_of(".?!,;") == std::string_view::npos;
  });
}

// Whether `text` begins with two lines that have labels.
bool BeginsWithLabels(std::string_view text) {
  const size_t end = text.find('\n');
  return HasLabel(text) && end != std::string_view::npos && HasLabel(text.substr(end + 1));
}

// Whether a line that ends no sentence, and is no item itself, stands over a list, which `text`
// begins with.
bool IsHeadingOf(std::string_view line, std::string_view text) {
  if (std::string_view(".?!,;").find(line.back()) != std::string_view::npos) return false;
  const bool is_item = !line.starts_with('#') && ConsumeListMark(line);
  if (is_item || text.starts_with('#')) return false;
  return ConsumeListMark(text) || (!HasLabel(line) && BeginsWithLabels(text));
}

// Of any alphabet, or another character beyond ASCII.
bool IsLetterByte(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || (c & 0x80) != 0;
}

// Whether a sentence that ends with the line `before` may go on with this one, which is no item of
// a list.
bool GoesOn(std::string_view before, std::string_view line) {
  std::string_view item = line;
  if (ConsumeListMark(item) || (HasLabel(before) && HasLabel(line))) return false;
  if (line.starts_with('(')) line.remove_prefix(1);
  return line.size() > 1 && IsLetterByte(line[0]) && line[1] != ')' && line[1] != '.';
}

// Whether the sentence seems to end before `at` only because of an abbreviation.
bool FollowsAbbreviation(std::string_view text, size_t at) {
  text = text.substr(0, at);
  const auto last = std::find_if_not(text.rbegin(), text.rend(), IsBlankByte);
  const auto before = std::find_if(last, text.rend(), IsBlankByte);
  const std::string_view word(before.base(), last.base());
  const bool number = word.size() > 1 && word.size() <= kListNumber && word.back() == '.' &&
                      std::ranges::all_of(word.substr(0, word.size() - 1), IsDigitByte) &&
                      (before == text.rend() || *before == '\n');
  const bool initial = word.size() == 2 && word[1] == '.' &&
                       absl::ascii_isupper(static_cast<unsigned char>(word[0])) && word[0] != 'I';
  return number || initial || std::ranges::find(kAbbreviations, word) != kAbbreviations.end();
}

// Where the sentences of a text begin and end.
class Boundaries {
 public:
  explicit Boundaries(std::string_view text)
      : joined_(Unbroken(std::string(text))), breaks_(New()) {
    UErrorCode error = U_ZERO_ERROR;
    utf8_.reset(utext_openUTF8(nullptr, joined_.data(), std::ssize(joined_), &error));
    if (breaks_ != nullptr) breaks_->setText(utf8_.get(), error);
    if (U_FAILURE(error)) breaks_.reset();
  }

  // Returns the last boundary that is not behind the byte `place`. REQUIRES: it is in the text.
  size_t NotBehind(size_t place) {
    if (breaks_ == nullptr) return 0;
    auto at = static_cast<int32_t>(place);
    if (breaks_->isBoundary(at) == 0) at = breaks_->preceding(at);
    while (at > 0 && FollowsAbbreviation(joined_, static_cast<size_t>(at)))
      at = breaks_->previous();
    return at == icu::BreakIterator::DONE ? 0 : static_cast<size_t>(at);
  }

  // Returns the first boundary behind it. REQUIRES: as above.
  size_t Behind(size_t place) {
    if (breaks_ == nullptr) return joined_.size();
    int32_t at = breaks_->following(static_cast<int32_t>(place));
    while (at != icu::BreakIterator::DONE && FollowsAbbreviation(joined_, static_cast<size_t>(at)))
      at = breaks_->next();
    return at == icu::BreakIterator::DONE ? joined_.size() : static_cast<size_t>(at);
  }

 private:
  // Null if ICU lacks its data.
  static std::unique_ptr<icu::BreakIterator> New() {
    static const icu::BreakIterator* const made = [] {
      UErrorCode error = U_ZERO_ERROR;
      const icu::Locale english("en", "US", nullptr, "ss=standard");
      auto* const breaks = icu::BreakIterator::createSentenceInstance(english, error);
      return U_SUCCESS(error) ? breaks : nullptr;
    }();
    return std::unique_ptr<icu::BreakIterator>(made == nullptr ? nullptr : made->clone());
  }

  const std::string joined_;
  std::unique_ptr<UText, decltype(&utext_close)> utf8_ = {nullptr, &utext_close};
  std::unique_ptr<icu::BreakIterator> breaks_;  // null: the text has one sentence
};

}  // namespace

std::string Unbroken(std::string text) {
  size_t line = 0;  // where it begins
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', line)) {
    const size_t last = end > line && text[end - 1] == '\r' ? end - 1 : end;
    const size_t next = std::min(text.find_first_not_of(" \t", end + 1), text.size());
    const bool is_long = last - line >= kLongLine &&
                         std::string_view(".?!").find(text[last - 1]) == std::string_view::npos;
    const std::string_view all = text;
    if (is_long && GoesOn(all.substr(line, last - line), all.substr(next)))
      std::fill(text.begin() + int64_t(last), text.begin() + int64_t(next), ' ');
    line = end + 1;
  }
  return text;
}

TextRange SentenceAround(std::string_view text, TextRange part) {
  while (part.begin + 1 < part.end && IsBlankByte(text[part.begin])) ++part.begin;
  while (part.begin + 1 < part.end && IsBlankByte(text[part.end - 1])) --part.end;
  Boundaries boundaries(text);
  const size_t begin = boundaries.NotBehind(part.begin);
  return {begin, boundaries.Behind(part.end - 1)};
}

std::vector<TextRange> SentencesIn(std::string_view text, TextRange part) {
  std::vector<TextRange> sentences;
  Boundaries boundaries(text);
  for (size_t begin = boundaries.NotBehind(part.begin); begin < part.end;) {
    const size_t end = boundaries.Behind(begin), from = std::max(begin, part.begin);
    const size_t to = std::max(from, std::min(end, part.end));
    if (!std::ranges::all_of(text.substr(from, to - from), IsBlankByte))
      sentences.push_back({begin, end});
    begin = end;
  }
  return sentences;
}

bool IsListItem(std::string_view sentence) {
  sentence = FromFirstWord(sentence);
  const size_t number = std::min(sentence.find_first_not_of("0123456789"), sentence.size());
  return ConsumeListMark(sentence) || (number > 0 && (sentence.substr(number).starts_with('.') ||
                                                      sentence.substr(number).starts_with(')')));
}

TextRange WithList(std::string_view text, TextRange sentence) {
  const size_t last = text.substr(0, sentence.end).find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || last < sentence.begin) return sentence;
  const size_t first = text.find_first_not_of(" \t\r\n", last + 1);
  const std::string_view between = text.substr(last, std::min(first, text.size()) - last);
  const auto ends = std::ranges::count(between, '\n');
  if (first == std::string_view::npos || ends == 0 || ends > 2) return sentence;
  const std::string_view line = text.substr(sentence.begin, last + 1 - sentence.begin);
  if (!line.ends_with(':') && !IsHeadingOf(line, text.substr(first))) return sentence;
  const std::string lines = Unbroken(std::string(text));
  const bool is_list = IsListItem(text.substr(first));
  const bool has_labels = !is_list && BeginsWithLabels(text.substr(first));
  size_t end = lines.find('\n', first);
  while (end != std::string::npos) {
    const size_t next = lines.find_first_not_of(" \t\r", end + 1);
    if (next == std::string::npos || lines[next] == '\n') break;
    // An item's further lines are indented, or go on with a small letter behind a label's.
    const bool goes_on =
        next > end + 1 ||
        (has_labels && absl::ascii_islower(static_cast<unsigned char>(lines[next])));
    if (is_list && !goes_on && !IsListItem(text.substr(next))) break;
    if (has_labels && !goes_on && !HasLabel(text.substr(next))) break;
    end = lines.find('\n', next);
  }
  return {sentence.begin, std::min(end, text.size())};
}

std::vector<size_t> ClauseBegins(std::string_view text, TextRange sentence, size_t place) {
  std::vector<size_t> begins = {sentence.begin};
  for (size_t i = sentence.begin + 1; i < std::min(sentence.end, place); ++i) {
    const std::string_view before = text.substr(sentence.begin, i - sentence.begin);
    const auto ends = [&](std::string_view mark) { return before.ends_with(mark); };
    if (std::ranges::any_of(kClauseMarks, ends) && IsBlankByte(text[i])) begins.push_back(i + 1);
  }
  return begins;
}

char JointOf(std::string_view text, TextRange before, TextRange sentence) {
  const size_t last = text.substr(0, sentence.begin).find_last_not_of(" \t\r\n");
  if (sentence.begin < before.end || last == std::string_view::npos || last >= before.end) return 0;
  const auto ends = std::ranges::count(text.substr(last, sentence.begin - last), '\n');
  return ends > 1 ||
                 (ends == 1 && !EndsSentence(text.substr(before.begin, last + 1 - before.begin)))
             ? '\n'
             : ' ';
}

std::string InOneLine(std::string_view sentence) {
  while (ConsumeListMark(sentence)) continue;
  std::string line(sentence);
  std::ranges::replace_if(line, IsBlankByte, ' ');
  absl::RemoveExtraAsciiWhitespace(&line);
  return line;
}

}  // namespace recollect::model
