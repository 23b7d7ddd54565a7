// The fixture of what every implementation of DocumentStore must do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#ifdef RECOLLECT_TEST_ON_RADOS
#include "tests/store/rados_testing.h"
#else
#include "store/rocks/rocks_store.h"
#endif
#include "tests/store/store_testing.h"

namespace recollect::store {

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<DocumentStore>(const std::string& directory)> open;
  bool reopens;
};

#ifdef RECOLLECT_TEST_ON_RADOS

inline const Implementation kImplementations[] = {
    {"Rados",
     [](const std::string& directory) -> std::unique_ptr<DocumentStore> {
       auto store = OpenRadosStore(InNamespace(directory));
       EXPECT_THAT(store, IsOk());
       return store.ok() ? *std::move(store) : nullptr;
     },
     true},
};

#else

inline std::unique_ptr<DocumentStore> OpenRocks(const std::string& directory) {
  RocksOptions options;
  options.directory = directory;
  options.sync_commits = false;  // power does not fail here, and the suite is to be quick
  auto store = OpenRocksStore(options);
  EXPECT_THAT(store, IsOk());
  return store.ok() ? *std::move(store) : nullptr;
}

inline const Implementation kImplementations[] = {
    {"Memory", [](const std::string&) { return CreateMemoryStore(); }, false},
    {"Rocks", OpenRocks, true},
};

#endif

inline std::string NameOf(const testing::TestParamInfo<Implementation>& info) {
  return info.param.name;
}

class DocumentStoreTest : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    store_ = GetParam().open(directory_.path());
    ASSERT_NE(store_, nullptr);
  }
  TempDir directory_;
  std::unique_ptr<DocumentStore> store_;
};

}  // namespace recollect::store
