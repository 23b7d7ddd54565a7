// Starts a cluster of one monitor and one OSD in memory, which takes about 6 s, runs all tests of
// the program on it, and stops it. Where the daemons are not installed it exits with status 77,
// which ctest shows as skipped; with RECOLLECT_REQUIRE_CEPH=1 that is a failure.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "tests/store/rados_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store {

#ifdef RECOLLECT_TEST_HAS_WRITER
namespace rados {
int RunWriter();  // rados_scrub_test.cc
}
#endif

namespace {

std::string* cluster_directory = nullptr;

int Run() {
  constexpr int kMissing = 3, kSkipped = 77;
  const TempDir directory;
  cluster_directory = new std::string(directory.path());
  const int started =
      RunClusterTool("start " + directory.path() + " --mons 1 --osds 1 --memory --until " +
                     std::to_string(getpid()));
  if (started == kMissing && std::getenv("RECOLLECT_REQUIRE_CEPH") == nullptr) {
    std::fprintf(stderr,
                 "SKIPPED: no test of the store over RADOS has run, because no Ceph daemons are "
                 "installed.\nRECOLLECT_REQUIRE_CEPH=1 makes this a failure.\n");
    return kSkipped;
  }
  if (started != 0) return started;
  const int result = RUN_ALL_TESTS();
  RunClusterTool("stop " + directory.path());
  return result;
}

}  // namespace

const std::string& ClusterDirectory() { return *cluster_directory; }

int RunClusterTool(const std::string& arguments) {
  const std::string command =
      std::string(RECOLLECT_SOURCE_DIR) + "/tools/ceph-cluster " + arguments;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

#ifdef RECOLLECT_TEST_HAS_WRITER
int RunWriterOn(const char* directory) {
  cluster_directory = new std::string(directory);
  return rados::RunWriter();
}
#endif

}  // namespace recollect::store

int main(int argc, char** argv) {
#ifdef RECOLLECT_TEST_HAS_WRITER
  if (const char* directory = std::getenv("RECOLLECT_RADOS_WRITER"); directory != nullptr)
    return recollect::store::RunWriterOn(directory);
#endif
  testing::InitGoogleMock(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  return recollect::store::Run();
}
