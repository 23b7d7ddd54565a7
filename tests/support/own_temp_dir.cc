// Linked into every test program: gives each process a ::testing::TempDir() of its own, which is
// removed when the process exits. ctest runs tests of one program side by side, so that equal names
// would meet in a shared one.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace recollect {
namespace {

class OwnTempDir {
 public:
  OwnTempDir() {
    const char* const shared = getenv("TEST_TMPDIR");
    path_ = shared != nullptr ? shared : std::filesystem::temp_directory_path().string();
    path_ += "/recollect-test.XXXXXX";
    if (mkdtemp(path_.data()) == nullptr || setenv("TEST_TMPDIR", path_.c_str(), 1) != 0) abort();
  }
  ~OwnTempDir() {
    if (getpid() != owner_) return;  // a forked child leaves it to its parent
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnTempDir(const OwnTempDir&) = delete;
  OwnTempDir& operator=(const OwnTempDir&) = delete;

 private:
  const pid_t owner_ = getpid();
  std::string path_;
};

const OwnTempDir own_temp_dir;

}  // namespace
}  // namespace recollect
