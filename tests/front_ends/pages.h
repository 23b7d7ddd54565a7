// Reads what pages of the documentation promise of errors.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/io/file.h"

namespace recollect {

// The cells of the rows of a page's tables whose header begins with `columns`.
inline std::vector<std::vector<std::string>> Rows(const std::string& page,
                                                  const std::string& columns) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  const std::string text =
      ReadWholeFile(absl::StrCat(RECOLLECT_SOURCE_DIR, "/docs/", page)).value();
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, columns)) inside = true;
    if (!absl::StartsWith(line, "|")) inside = false;
    if (!inside || absl::StartsWith(line, columns) || absl::StartsWith(line, "|---")) continue;
    std::vector<std::string> cells;
    for (const absl::string_view cell : absl::StrSplit(line.substr(1), '|'))
      cells.emplace_back(absl::StripAsciiWhitespace(cell));
    rows.push_back(std::move(cells));
  }
  return rows;
}

// The first status code in a cell: "FAILED_PRECONDITION".
inline std::string CodeIn(const std::string& cell) {
  for (const absl::string_view word : absl::StrSplit(cell, absl::ByAnyChar(" ,;:."))) {
    for (int code = 1; code <= 16; ++code) {
      const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
      if (word == name) return name;
    }
  }
  return "";
}

// By the first cell of a row that promises a code, what it says.
inline std::map<std::string, std::string> Promises() {
  std::map<std::string, std::string> promises;
  const std::pair<const char*, size_t> tables[] = {
      {"| what went wrong with a document | says |", 1},
      {"| what went wrong | says |", 1},
      {"| fault | says | test |", 1},
      {"| bound | counts | when it is reached |", 2},
      {"| during a refresh | says | test |", 1},
      {"| of | at most | what is more |", 2}};
  for (const auto& [columns, says] : tables) {
    for (const std::vector<std::string>& row : Rows("operations.md", columns)) {
      if (!CodeIn(row[says]).empty())
        promises[absl::StrReplaceAll(row[0], {{"`", ""}})] = row[says];
    }
  }
  return promises;
}

}  // namespace recollect
