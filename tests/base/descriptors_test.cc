#include "base/io/descriptors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <set>

namespace recollect {
namespace {

// Of a process that is started without `closed`: which of the three it has after the call, as bits,
// and 8 where what was opened next got one of their numbers.
int After(const std::set<int>& closed) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : closed) close(number);
    OpenStandardDescriptors();
    const int next = open("/", O_RDONLY);
    int found = next <= STDERR_FILENO ? 8 : 0;
    char byte = 0;
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      if (fcntl(number, F_GETFD) != -1) found |= 1 << number;
      // Who uses it all the same hears that it is not there.
      const ssize_t used =
          number == STDIN_FILENO ? read(number, &byte, 1) : write(number, &byte, 1);
      if (closed.contains(number) && (used != -1 || errno != EBADF)) found |= 16;
    }
    _exit(found);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

TEST(DescriptorsTest, StandardOnesAreTaken) {
  for (const std::set<int>& closed :
       {std::set<int>{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}})
    EXPECT_EQ(After(closed), 7) << closed.size();
}

}  // namespace
}  // namespace recollect
