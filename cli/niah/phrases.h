// Phrasings of needles and questions: trained ones and held-out ones (train/phrases.json, compiled
// in).
#ifndef RECOLLECT_CLI_NIAH_PHRASES_H_
#define RECOLLECT_CLI_NIAH_PHRASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect::cli::niah {

// Placeholders: {noun}, {key}, {value}. A question ends where the answer begins; the answer is a
// space and the value.
struct PhraseList {
  std::vector<std::string> needles;
  std::vector<std::string> questions;
  std::vector<std::string> nouns;
};

struct Phrases {
  PhraseList trained;
  PhraseList held_out;
  std::vector<std::string> more;  // wordings that training draws as well; niah asks in none of them
};

// INVALID_ARGUMENT if `json` lacks a list or a list is empty.
absl::StatusOr<Phrases> ParsePhrases(const std::string& json);

// The text of train/phrases.json.
const char* BuiltInPhrases();

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_PHRASES_H_
