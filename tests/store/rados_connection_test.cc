// A cluster that does not answer, or does not answer this client.
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <list>
#include <rados/librados.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/rados/pool.h"
#include "store/rados/records.h"
#include "tests/store/rados_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rados {
namespace {

using ::absl::StatusCode;

void Connect(librados::Rados* cluster) {
  ASSERT_EQ(cluster->init2("client.admin", "ceph", 0), 0);
  ASSERT_EQ(cluster->conf_read_file((ClusterDirectory() + "/ceph.conf").c_str()), 0);
  ASSERT_EQ(cluster->connect(), 0);
}

// The OSD stands still, as a cluster below min_size does: nothing hangs.
TEST(RadosConnectionTest, ReadsAndWritesEndWithTheirDeadline) {
  RadosOptions options = InNamespace("deadline");
  options.timeout_s = 2;
  const auto store = Open(options);
  ASSERT_NE(store, nullptr);
  Content content{.seed = 9};
  const auto info = Ingest(*store, "book", &content, 1, 3, 50, 70);
  const auto begun = store->BeginIngest("next", "f", false, "");
  ASSERT_THAT(begun, IsOk());
  pid_t osd = 0;
  std::ifstream(ClusterDirectory() + "/osd.0.pid") >> osd;
  ASSERT_GT(osd, 0);
  ASSERT_EQ(kill(osd, SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // its threads stop one after another
  const auto from = std::chrono::steady_clock::now();
  EXPECT_THAT(store->Get("book"), StatusIs(StatusCode::kUnavailable, "within 2 s"));
  EXPECT_THAT(store->CommitIngest(begun->owner, NextBatch(content, 1, 1, 1)),
              StatusIs(StatusCode::kUnavailable, "next"));
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(20));
  ASSERT_EQ(kill(osd, SIGCONT), 0);
  ASSERT_EQ(RunClusterTool("wait " + ClusterDirectory()), 0);
  // Whether the commit was made is not known, so that nothing may follow it before it is looked at.
  EXPECT_THAT(store->CommitIngest(begun->owner, IngestBatch()),
              StatusIs(StatusCode::kAborted, "begin it again"));
  EXPECT_THAT(store->BeginIngest("next", "f", false, ""), IsOk());
  ExpectContent(*store, info->owner, content);
}

// The cluster answers others and this client no more, as it does when somebody breaks its locks, or
// a monitor forgot that it waits for a map: it becomes another client.
TEST(RadosConnectionTest, AServerThatTheClusterNoLongerAnswersConnectsAnew) {
  RadosOptions options = InNamespace("anew");
  options.timeout_s = 2;
  options.lease_ms = 2000;
  const auto store = Open(options);
  ASSERT_NE(store, nullptr);
  Content content{.seed = 12}, unfinished{.seed = 13};
  const auto info = Ingest(*store, "book", &content, 1, 3, 50, 70);
  ASSERT_THAT(store->Pin(info->owner), IsOk());
  const auto begun = store->BeginIngest("next", "f", false, "");
  ASSERT_THAT(begun, IsOk());
  const IngestBatch first = NextBatch(unfinished, 5, 100, 1000);
  ASSERT_THAT(store->CommitIngest(begun->owner, first), IsOk());
  Append(&unfinished, first);

  librados::Rados cluster;
  ASSERT_NO_FATAL_FAILURE(Connect(&cluster));
  librados::IoCtx io;
  ASSERT_EQ(cluster.ioctx_create(options.pool.c_str(), io), 0);
  io.set_namespace(options.name_space);
  int exclusive = 0;
  std::string tag;
  std::list<librados::locker_t> lockers;
  ASSERT_EQ(io.list_lockers(HeadName(begun->owner), kWriterLock, &exclusive, &tag, &lockers), 1);
  ASSERT_EQ(cluster.blocklist_add(lockers.front().address, 3600), 0) << lockers.front().address;

  const auto eventually = [](const std::function<absl::Status()>& call) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    absl::Status status = call();
    while (!status.ok() && std::chrono::steady_clock::now() < end) {
      EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsAborted(status)) << status;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      status = call();
    }
    return status;
  };
  EXPECT_THAT(store->CommitIngest(begun->owner, NextBatch(unfinished, 1, 1, 1)),
              StatusIs(StatusCode::kUnavailable, "next"));
  EXPECT_THAT(eventually([&] { return store->Get("book").status(); }), IsOk());
  ExpectContent(*store, info->owner, content);
  EXPECT_THAT(eventually([&] { return store->BeginIngest("next", "f", false, "").status(); }),
              IsOk());
  EXPECT_EQ(store->BeginIngest("next", "f", false, "")->chunks, 5);

  // Its pin has lapsed with the client that it was, and it took another.
  std::this_thread::sleep_for(std::chrono::milliseconds(2 * options.lease_ms));
  const auto other = Open(InNamespace("anew"));
  ASSERT_NE(other, nullptr);
  ASSERT_THAT(other->Remove("book"), IsOk());
  ASSERT_THAT(other->Free(info->owner), IsOk());
  ExpectContent(*store, info->owner, content);
  store->Unpin(info->owner);
  EXPECT_THAT(other->ReadText(info->owner, 0, 1), StatusIs(StatusCode::kNotFound, ""));
}

TEST(RadosConnectionTest, AnIngestThatAFullClusterRefusesLeavesNoEntry) {
  const auto store = Open(InNamespace("full"));
  ASSERT_NE(store, nullptr);
  Content content{.seed = 14, .width = 256};
  const auto info = Ingest(*store, "book", &content, 2, 20, 500, 7000);
  ASSERT_THAT(info, IsOk());
  librados::Rados cluster;
  ASSERT_NO_FATAL_FAILURE(Connect(&cluster));
  // An OSD takes the greatest of the three.
  const auto say_full = [&](double nearfull, double backfillfull, double full) {
    for (const auto& [name, ratio] : {std::pair<const char*, double>{"nearfull", nearfull},
                                      {"backfillfull", backfillfull},
                                      {"full", full}}) {
      librados::bufferlist none;
      const std::string command =
          absl::StrCat(R"({"prefix": "osd set-)", name, R"(-ratio", "ratio": )", ratio, "}");
      std::string error;
      ASSERT_EQ(cluster.mon_command(command, none, nullptr, &error), 0) << command << error;
    }
  };
  const auto begins = [&](int64_t i) {
    const std::string id = absl::StrCat("try ", i);
    const absl::Status begun = store->BeginIngest(id, "f", false, "").status();
    if (begun.ok()) {
      EXPECT_THAT(store->AbandonIngest(id), IsOk());
    }
    return begun;
  };
  say_full(0.00001, 0.00002, 0.00003);
  absl::Status refused;
  for (int64_t i = 0; i < 300 && refused.ok(); ++i) {  // the OSD says so within some seconds
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    refused = begins(i);
  }
  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted, "pool recollect"));
  EXPECT_THAT(store->ListIngests()->size(), 0);
  ExpectContent(*store, info->owner, content);
  say_full(0.85, 0.9, 0.95);
  absl::Status taken = absl::UnknownError("");
  for (int64_t i = 0; i < 300 && !taken.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    taken = begins(1000 + i);
  }
  EXPECT_THAT(taken, IsOk());
}

}  // namespace
}  // namespace recollect::store::rados
