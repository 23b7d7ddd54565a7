// Needles: a sentence that gives a key a value, a question for it, and the answer. Keys and values
// are generated from a seed; words of keys are among the tenth that training never uses for keys
// (CRC-32 divisible by 10).
#ifndef RECOLLECT_CLI_NIAH_NEEDLE_H_
#define RECOLLECT_CLI_NIAH_NEEDLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/niah/phrases.h"
#include "cli/niah/random.h"

namespace recollect::cli::niah {

enum class ValueKind { kDigits, kHex };  // 5 to 7 digits; `hex_digits` hex digits

// The common parts of needles of one form; distractors differ from the needle in key and value
// only.
struct Form {
  std::string noun;
  std::string needle;    // template
  std::string question;  // template
  ValueKind kind = ValueKind::kDigits;
  int hex_digits = 32;
};

struct Needle {
  std::string key;
  std::string value;
  std::string sentence;      // starts with white space
  std::string question;      // the prompt
  int64_t value_offset = 0;  // of the value in the sentence
};

Form MakeForm(Random& random, const PhraseList& phrases, ValueKind kind, int hex_digits);
// `words` are candidates for keys (TestWords). The key differs from all in `taken` and is added to
// it. `apart`: where there are words enough, it has not even a word in common with any of them.
Needle MakeNeedle(Random& random, const Form& form, const std::vector<std::string>& words,
                  std::vector<std::string>* taken, bool apart = false);

// `text` with its first letter as a capital.
std::string Capitalised(std::string text);

// Words of the text that training never drew: 3 to 10 letters only, frequent enough to be words.
// Sorted.
std::vector<std::string> TestWords(const std::string& text);
uint32_t Crc32(const std::string& text);

// Whether the first run of letters and digits in the answer is exactly the value; what follows it
// (a full stop, a bracket) belongs to the wording.
bool IsRight(const std::string& answer, const std::string& value);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_NEEDLE_H_
