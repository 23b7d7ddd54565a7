// For reporting only: training must never see these shapes, or their numbers say nothing.
#include "cli/niah/records.h"

namespace recollect::cli::niah {

using enum FieldKind;

const std::vector<Shape>& RecordShapes() {
  static const auto* const shapes = new std::vector<Shape>{
      {"address", kName, kPlace, "\n{key}, {number} {word} Street, {value}\n", ""},
      {"birth", kName, kDate, " {key} was born on {value}, the youngest of {number}.", ""},
      {"bug tracker", kIdentifier, kName, "\n[{key}] {word} {word} fails; assigned to {value}\n",
       ""},
      {"chess", kName, kPlace, "\n{key} - {name} 1-0 ({number}), {value}\n", ""},
      {"constant", kConstant, kDigits, "\n{key} = {value}\n", ""},
      {"csv", kName, kDigits, "\n{number},{key},{value},{word}\n", ""},
      {"dictionary", kPhrase, kWords, "\n{key}, n. {value}; see {word}.\n", ""},
      {"email", kName, kHandle, "\nFrom: {key} <{value}@{word}.org>\n", ""},
      {"export", kConstant, kWords, "\nexport {key}=\"{value}\"\n", ""},
      {"ini", kPhrase, kDigits, "\n[{key}]\nport={value}\n", ""},
      {"invoice", kIdentifier, kMoney, " Invoice {key} over {value} was settled by {name}.", ""},
      {"json", kName, kIdentifier, "\n{\"owner\": \"{key}\", \"badge\": \"{value}\", \"age\": 4}\n",
       ""},
      {"letter", kName, kName, " Do tell {key} that the {word} is now with {value}.", ""},
      {"log", kHandle, kHex, "\n{time} INFO session of {key} opened, id {value}\n", ""},
      {"markdown", kPhrase, kIsoDate, "\n| {key} | {value} | {word} |\n", ""},
      {"moved", kName, kPlace, " In the spring {key} moved to {value} with {name}.", ""},
      {"phone list", kName, kPhone, "\n{key} ....... {value}\n", ""},
      {"price first", kName, kMoney, " {value} was the price that {key} asked.",
       "The price that {key} asked was"},
      {"receipt", kPhrase, kMoney, "\n2 x {key}      {value}\n", ""},
      {"recipe", kPhrase, kDigits, "\n- {value} g of {key}\n", "Of {key} it takes, in g:"},
      {"record holder", kPhrase, kName, "\n{value} holds the {key} record.\n",
       "The {key} record is held by"},
      {"ship's log", kName, kPlace, "\n{date}. Spoke the {key}, bound for {value}.\n", ""},
      {"sql", kHandle, kHex, "\nINSERT INTO seals VALUES ('{key}', '{value}');\n", ""},
      {"tabs", kIdentifier, kIsoDate, "\n{key}\t{number}\t{value}\n", ""},
      {"timetable", kName, kTime, "\n{key}   dep. {value}   platform {number}\n", ""},
      {"xml", kPhrase, kIdentifier, "\n<part name=\"{key}\" serial=\"{value}\"/>\n", ""},
      {"yaml", kHandle, kPlace, "\n- user: {key}\n  region: {value}\n", ""},
  };
  return *shapes;
}

}  // namespace recollect::cli::niah
