// A namespace with as many documents as it is meant for, within a factor of two.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "store/format.h"
#include "store/rados/pool.h"
#include "store/rados/records.h"
#include "tests/store/rados_testing.h"
#include "tests/store/store_testing.h"

namespace recollect::store::rados {
namespace {

constexpr int64_t kDocuments = 100'000, kPage = 1000;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t ResidentBytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

std::string Id(int64_t i) {
  char id[32];
  std::snprintf(id, sizeof(id), "document %06lld", static_cast<long long>(i));
  return id;
}

// Entries of documents that nobody reads, as publishing puts them.
void FillCatalog(const RadosOptions& options) {
  const auto pool = Pool::Connect(options);
  ASSERT_THAT(pool, IsOk());
  for (int64_t at = 0; at < kDocuments; at += kPage) {
    Change change;
    change.create = true;
    for (int64_t i = at; i < at + kPage; ++i) {
      DocumentInfo info;
      info.id = Id(i);
      info.owner = OwnerId{static_cast<uint64_t>(1'000'000 + i)};
      info.fingerprint = info.sha256 = std::string(64, 'f');
      const std::string key = DocumentKey(info.id);
      change.set[key] = EncodeDocument(key, info);
    }
    ASSERT_THAT((*pool)->Apply(kCatalogObject, change, "test"), IsOk());
  }
}

// Times are printed, and bounded by ten times what they were on two busy cores.
TEST(RadosCatalogTest, AHundredThousandDocumentsAreListedInPagesAndANewOneIsSeenAtOnce) {
  RadosOptions options = InNamespace("catalog");
  const auto a = OpenRadosStore(options), b = OpenRadosStore(options);
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  FillCatalog(options);

  const int64_t before = ResidentBytes();
  double slowest = 0;
  int64_t listed = 0, most = 0;
  std::string after;
  const double start = Seconds();
  while (true) {
    const double from = Seconds();
    const auto page = (*b)->List(after, kPage);
    ASSERT_THAT(page, IsOk());
    slowest = std::max(slowest, Seconds() - from);
    most = std::max(most, ResidentBytes() - before);
    if (page->empty()) break;
    for (const DocumentInfo& info : *page) ASSERT_EQ(info.id, Id(listed++));
    after = page->back().id;
  }
  const double all = Seconds() - start;
  EXPECT_EQ(listed, kDocuments);
  std::printf("%lld documents in pages of %lld: %.2f s, the slowest page %.1f ms, %lld KiB more\n",
              static_cast<long long>(listed), static_cast<long long>(kPage), all, slowest * 1e3,
              static_cast<long long>(most >> 10));
  EXPECT_LT(all, 30);
  EXPECT_LT(slowest, 1);
  EXPECT_LT(most, int64_t{32} << 20);

  double publish = 0, seen = 0, gone = 0;
  for (int64_t i = 0; i < 5; ++i) {
    const std::string id = absl::StrCat(Id(i * 20'000), "+");  // in the midst of the others
    Content content{.seed = static_cast<uint64_t>(i)};
    const double begun = Seconds();
    ASSERT_THAT(Ingest(**a, id, &content, 1, 2, 10, 10), IsOk());
    const double published = Seconds();
    EXPECT_THAT((*b)->Get(id), IsOk());
    const auto page = (*b)->List(Id(i * 20'000), 1);
    ASSERT_THAT(page, IsOk());
    EXPECT_EQ(page->at(0).id, id);
    const double found = Seconds();
    ASSERT_THAT((*a)->Remove(id), IsOk());
    const double removed = Seconds();
    EXPECT_THAT((*b)->Get(id), StatusIs(absl::StatusCode::kNotFound, id));
    EXPECT_EQ((*b)->List(Id(i * 20'000), 1)->at(0).id, Id(i * 20'000 + 1));
    publish = std::max(publish, published - begun);
    seen = std::max(seen, found - published);
    gone = std::max(gone, Seconds() - removed);
  }
  std::printf("published in %.0f ms; another server has it, and has it no more, in %.0f, %.0f ms\n",
              publish * 1e3, seen * 1e3, gone * 1e3);
  EXPECT_LT(seen, 1);
  EXPECT_LT(gone, 1);
}

}  // namespace
}  // namespace recollect::store::rados
