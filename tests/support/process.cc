#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace recollect {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

Pipe MakePipe() {
  int ends[2];
  RECOLLECT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  return {ends[0], ends[1]};
}

// -1 keeps the test's own stream.
pid_t Start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            int in, int out, int err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  RECOLLECT_CHECK(pid >= 0);
  if (pid > 0) return pid;
  if (in >= 0) dup2(in, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
  execvp(argv[0], argv.data());
  _exit(127);
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& arguments, const std::string& input,
                         const std::vector<std::string>& environment) {
  signal(SIGPIPE, SIG_IGN);  // a program may end without reading its input
  const Pipe in = MakePipe(), out = MakePipe(), err = MakePipe();
  const pid_t pid = Start(arguments, environment, in.read, out.write, err.write);
  close(in.read);
  close(out.write);
  close(err.write);
  ProcessResult result;
  size_t sent = 0;
  pollfd fds[3] = {{in.write, POLLOUT, 0}, {out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
  std::string* texts[3] = {nullptr, &result.out, &result.err};
  fcntl(in.write, F_SETFL, O_NONBLOCK);
  while (fds[1].fd >= 0 || fds[2].fd >= 0) {
    if (fds[0].fd >= 0 && sent == input.size()) {
      close(fds[0].fd);
      fds[0].fd = -1;
    }
    poll(fds, 3, -1);
    if (fds[0].fd >= 0 && fds[0].revents != 0) {
      const ssize_t n = write(fds[0].fd, input.data() + sent, input.size() - sent);
      sent = n < 0 ? input.size() : sent + static_cast<size_t>(n);
    }
    for (int i = 1; i < 3; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = read(fds[i].fd, buffer, sizeof(buffer));
      if (n > 0) {
        texts[i]->append(buffer, static_cast<size_t>(n));
      } else {
        close(fds[i].fd);
        fds[i].fd = -1;
      }
    }
  }
  if (fds[0].fd >= 0) close(fds[0].fd);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = ExitCode(status);
  return result;
}

BackgroundProcess::BackgroundProcess(const std::vector<std::string>& arguments) {
  const Pipe out = MakePipe();
  pid_ = Start(arguments, {}, -1, out.write, -1);
  close(out.write);
  out_ = out.read;
}

BackgroundProcess::~BackgroundProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  close(out_);
}

std::string BackgroundProcess::ReadLine() {
  std::string line;
  char c = 0;
  while (read(out_, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

void BackgroundProcess::Signal(int signal) { kill(pid_, signal); }

int BackgroundProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return ExitCode(status);
}

}  // namespace recollect
