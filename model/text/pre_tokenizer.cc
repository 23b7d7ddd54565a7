#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/text/pre_tokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "model/text/printable.h"

namespace recollect::model {
namespace {

// What the published expressions call \s, \p{L} and \p{N}, to stand inside brackets. Spaces are
// listed, because PCRE2 counts U+180E among them, and the library does not. Letters and numbers are
// PCRE2's (Unicode 14 in Debian 12) and what Unicode 15 to 16 added, which the library knows.
constexpr char kLineEnds[] = R"(\r\n)";
constexpr char kBlanks[] =
    R"(\t\x0b\x0c \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr char kLetters[] =
    R"(\p{L}\x{1c89}\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3})"
    R"(\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f}\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3})"
    R"(\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff})"
    R"(\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb})"
    R"(\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr char kNumbers[] =
    R"(\p{N}\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59})"
    R"(\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3})"
    R"(\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";
// What the library's division into digits counts as well: Unicode 17.
constexpr char kNewerNumbers[] = R"(\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6})";

// The published expressions, with B for blanks, E for line ends, L and N. Repetitions do not give
// back what they took ("++") wherever giving back cannot help, so that a run of any length takes
// linear time and no stack. `[BE]+(?![^BE])` gives back one character at most.
//
// The published `\s*[\r\n]+` is a run of spaces up to its last line end: here `(?:[B]*+[E]++)++`.
constexpr char kGpt2[] =
    "'(?:[sdmt]|ll|ve|re)| ?+[L]++| ?+[N]++| ?+[^BELN]++|[BE]+(?![^BE])|[BE]++";
// Each digit is parted from the text before the expression above sees it: spaces before a digit
// stand at the end of what it sees.
constexpr char kSmollm[] =
    "'(?:[sdmt]|ll|ve|re)| ?+[L]++|[ND]| ?+[^BELND]++|[BE]+(?![^BEND])|[BE]++";
// With {1,3} or nothing after [N].
constexpr char kLlama3[] =
    "'(?i:[sdmt]|ll|ve|re)|[^ELN]?+[L]++|[N]Q| ?+[^BELN]++[E]*+|(?:[B]*+[E]++)++|[BE]+(?![^BE])|"
    "[BE]++";

std::string Expression(PreTokenizer rule) {
  const auto filled = [](absl::string_view expression, absl::string_view quantity) {
    // One pass: what is put in is not looked at again.
    return absl::StrReplaceAll(expression, {{"B", kBlanks},
                                            {"E", kLineEnds},
                                            {"L", kLetters},
                                            {"N", kNumbers},
                                            {"D", kNewerNumbers},
                                            {"Q", quantity}});
  };
  switch (rule) {
    case PreTokenizer::kGpt2:
      return filled(kGpt2, "");
    case PreTokenizer::kSmollm:
      return filled(kSmollm, "");
    case PreTokenizer::kLlamaBpe:
      return filled(kLlama3, "{1,3}+");
    case PreTokenizer::kQwen2:
      return filled(kLlama3, "");
  }
  return "";
}

std::string ErrorText(int code) {
  std::array<PCRE2_UCHAR, 128> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return std::string(reinterpret_cast<const char*>(text.data()));
}

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

// The number of bytes of `text` that are whole characters: all but a last one that is arriving.
size_t WholeCharacters(std::string_view text) {
  size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 3 && IsContinuation(text[lead - 1])) --lead;
  if (lead == 0) return 0;
  const uint8_t byte = static_cast<uint8_t>(text[lead - 1]);
  const size_t width = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
  return lead - 1 + width > text.size() ? lead - 1 : text.size();
}

constexpr struct {
  PreTokenizer rule;
  std::string_view name;
} kKnownRules[] = {{PreTokenizer::kGpt2, "gpt-2"},         {PreTokenizer::kSmollm, "smollm"},
                   {PreTokenizer::kLlamaBpe, "llama-bpe"}, {PreTokenizer::kQwen2, "qwen2"},
                   {PreTokenizer::kGpt2, "gpt2"},          {PreTokenizer::kLlamaBpe, "llama3"},
                   {PreTokenizer::kLlamaBpe, "llama-v3"}};

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizerNamed(std::string_view name) {
  for (const auto& known : kKnownRules) {
    if (known.name == name) return known.rule;
  }
  constexpr size_t kMaxShown = 64;  // bytes
  return absl::InvalidArgumentError(absl::StrCat("pre-tokenizer ", Quoted(name, kMaxShown),
                                                 ", expected gpt-2, smollm, llama-bpe or qwen2"));
}

std::string_view PreTokenizerName(PreTokenizer rule) {
  return std::find_if(std::begin(kKnownRules), std::end(kKnownRules),
                      [&](const auto& known) { return known.rule == rule; })
      ->name;
}

void FreePcre2::operator()(pcre2_code* expression) const { pcre2_code_free(expression); }
void FreePcre2::operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }

PreTokenSplitter::PreTokenSplitter(pcre2_code* expression) : expression_(expression) {}

absl::StatusOr<PreTokenSplitter> PreTokenSplitter::Create(PreTokenizer rule) {
  const std::string pattern = Expression(rule);
  int error = 0;
  size_t offset = 0;
  pcre2_code* const expression = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr);
  if (expression == nullptr) {
    return absl::InternalError(absl::StrCat("pre-tokenizer ", std::string(PreTokenizerName(rule)),
                                            ", byte ", offset,
                                            " of its expression: ", ErrorText(error)));
  }
  PreTokenSplitter splitter(expression);
  // Where memory may not be executable, PCRE2 interprets the expression: the same, more slowly.
  pcre2_jit_compile(expression, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return splitter;
}

PreTokenSplitter::Walk::Walk(const PreTokenSplitter& splitter, std::string_view text, bool final)
    : expression_(splitter.expression_.get()),
      text_(text),
      final_(final),
      complete_(final ? text.size() : WholeCharacters(text)),
      match_(pcre2_match_data_create(1, nullptr)) {}

absl::StatusOr<std::string_view> PreTokenSplitter::Walk::Next() {
  constexpr auto kMax = static_cast<size_t>(kMaxPreTokenBytes);
  if (at_ == complete_) return std::string_view();
  size_t size = complete_ - at_;
  // Whether more text could make the rule see more than it does now.
  const bool open = !final_ && text_.size() - at_ < kMax;
  if (size > kMax) {
    size = kMax;
    while (IsContinuation(text_[at_ + size])) --size;
  }
  // A match that did not look at the end of what there is cannot change with what follows: hard
  // partial matching reports the others.
  const int found = pcre2_match(
      expression_, reinterpret_cast<PCRE2_SPTR>(text_.data() + at_), size, /*startoffset=*/0,
      PCRE2_NO_UTF_CHECK | (open ? PCRE2_PARTIAL_HARD : 0), match_.get(), /*mcontext=*/nullptr);
  if (open && found == PCRE2_ERROR_PARTIAL) return std::string_view();
  const size_t end = found > 0 ? pcre2_get_ovector_pointer(match_.get())[1] : 0;
  if (end == 0) {
    return absl::InternalError(absl::StrCat("pre-tokenizer at byte ", at_, ": ", ErrorText(found)));
  }
  at_ += end;
  return text_.substr(at_ - end, end);
}

}  // namespace recollect::model
