#include "cli/common/line_reader.h"

#include <editline/readline.h>
#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

namespace recollect::cli {
namespace {

constexpr int kHistoryLines = 1000;

void OnInterrupt(int) { LineReader::interrupted() = true; }

// Without SA_RESTART, so that the read of a line ends.
void CatchInterrupt(bool caught) {
  struct sigaction action = {};
  action.sa_handler = caught ? OnInterrupt : SIG_DFL;
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

std::string HistoryFile(absl::string_view name) {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  if (state == nullptr && home == nullptr) return "";
  const std::filesystem::path folder =
      (state != nullptr ? std::filesystem::path(state)
                        : std::filesystem::path(home) / ".local/state") /
      "recollect";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  return failed ? "" : (folder / std::string(name)).string();
}

std::atomic<bool>& LineReader::interrupted() {
  static std::atomic<bool> pressed{false};
  return pressed;
}

LineReader::LineReader(std::string history_file)
    : interactive_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1),
      history_file_(std::move(history_file)) {
  if (!interactive_) return;
  std::setlocale(LC_CTYPE, "");  // libedit edits characters of the terminal's encoding
  rl_readline_name = const_cast<char*>("recollect");
  rl_catch_signals = 0;
  using_history();
  stifle_history(kHistoryLines);
  if (!history_file_.empty()) read_history(history_file_.c_str());
  CatchInterrupt(true);
}

LineReader::~LineReader() {
  if (!interactive_) return;
  CatchInterrupt(false);
  if (!history_file_.empty()) write_history(history_file_.c_str());
}

std::string LineReader::ReadUntil(absl::string_view end) {
  std::vector<std::string> lines;
  while (std::optional<std::string> line = Read("")) {
    if (absl::StripAsciiWhitespace(*line) == end) break;
    lines.push_back(*std::move(line));
  }
  return absl::StrJoin(lines, "\n");
}

std::optional<std::string> LineReader::Read(const std::string& prompt) {
  std::string line;
  if (!interactive_) {
    if (!std::getline(std::cin, line)) return std::nullopt;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }
  while (true) {
    interrupted() = false;
    char* const typed = readline(prompt.c_str());
    if (interrupted()) {
      std::free(typed);
      std::fputc('\n', stdout);
      continue;
    }
    if (typed == nullptr) return std::nullopt;
    line = typed;
    std::free(typed);
    if (!line.empty()) add_history(line.c_str());
    return line;
  }
}

}  // namespace recollect::cli
