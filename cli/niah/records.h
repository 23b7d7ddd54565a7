// The task records: facts in the shapes in which people and programs write them. One record is
// hidden among others of its shape; the prompt is the record up to its value.
//
// The shapes are for reporting only: training must not read them (record_shapes.cc).
#ifndef RECOLLECT_CLI_NIAH_RECORDS_H_
#define RECOLLECT_CLI_NIAH_RECORDS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/niah/random.h"

namespace recollect::cli::niah {

enum class FieldKind {
  kDigits,      // 48213
  kName,        // Amber Putney
  kPlace,       // Putney
  kWords,       // three to five of them
  kPhrase,      // amber putney
  kDate,        // 14 March 1887
  kIsoDate,     // 1887-03-14
  kTime,        // 07:42
  kMoney,       // 412.50
  kIdentifier,  // QX-4821
  kConstant,    // AMBER_PUTNEY
  kHandle,      // putney42
  kPhone,       // 0482 771 903
  kHex,         // 12 digits
};

struct Shape {
  const char* name;
  FieldKind key, value;
  // With {key}, {value} and fillers: {number}, {word}, {name}, {date}, {time}. Starts with white
  // space.
  const char* record;
  // The prompt if the value precedes the key; empty: the record up to the value.
  const char* question;
};
const std::vector<Shape>& RecordShapes();

struct Record {
  std::string text;
  std::string value;
  int64_t value_offset = 0;  // in the text
  std::string prompt;
};

// Its key and value differ from all in `taken`, to which they are added.
Record MakeRecord(Random& random, const Shape& shape, const std::vector<std::string>& words,
                  std::set<std::string>* taken);

// A field of `count` words if the kind consists of words; other kinds ignore `count`.
std::string MakeField(Random& random, FieldKind kind, const std::vector<std::string>& words,
                      int64_t count);
// A field that is not in `taken`, if the kind has enough to choose from; it is added to `taken`. It
// has more words when too many are taken.
std::string MakeNewField(Random& random, FieldKind kind, const std::vector<std::string>& words,
                         std::set<std::string>* taken);

// Whether the answer, without leading white space, begins with the value and no letter or digit
// follows it.
bool StartsWithValue(std::string_view answer, std::string_view value);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_RECORDS_H_
