// Running programs from tests.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace recollect {

struct ProcessResult {
  int exit_code = -1;  // 128 + n when signal n ended it
  std::string out, err;
};

// Runs to the end. `environment` entries ("NAME=value") are added to this process's.
ProcessResult RunProcess(const std::vector<std::string>& arguments, const std::string& input = "",
                         const std::vector<std::string>& environment = {});

// A program that runs beside the test. Killed on destruction.
class BackgroundProcess {
 public:
  explicit BackgroundProcess(const std::vector<std::string>& arguments);
  ~BackgroundProcess();
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  // The next line of its standard output without the line end; empty when it has ended. Standard
  // error is the test's.
  std::string ReadLine();
  void Signal(int signal);
  int Wait();  // the exit code, as above
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

}  // namespace recollect
