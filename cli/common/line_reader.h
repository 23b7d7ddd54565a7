// Reads lines that a person types, with editing and a history (libedit), or lines of a file.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace recollect::cli {

// Returns the path of a file where shells keep their histories, whose folder is made; empty: there
// is no home.
std::string HistoryFile(absl::string_view name);

// A process has at most one LineReader at a time, since the terminal's state is global. While one
// exists on a terminal, ctrl-C sets interrupted() and does not end the program.
class LineReader {
 public:
  // Keeps the history of terminal sessions in `history_file`, if that is not empty.
  explicit LineReader(std::string history_file);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Returns the next line without its end; nothing at the end of the input (ctrl-D). On a terminal
  // it shows `prompt`, and ctrl-C drops the line that is being typed.
  std::optional<std::string> Read(const std::string& prompt);
  // Returns the lines before one that is `end`, blanks around it aside, or before the end of input.
  std::string ReadUntil(absl::string_view end);

  bool interactive() const { return interactive_; }
  // Is true if ctrl-C was pressed since it was last set to false.
  static std::atomic<bool>& interrupted();

 private:
  const bool interactive_;
  const std::string history_file_;
};

}  // namespace recollect::cli
