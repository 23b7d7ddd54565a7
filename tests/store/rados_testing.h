// A cluster for the tests of one program: tests/store/rados_test_main.cc starts and stops it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "store/rados/rados_store.h"
#include "tests/support/status_matchers.h"

namespace recollect::store {

// Where the cluster lies, as tools/ceph-cluster takes it.
const std::string& ClusterDirectory();

// The exit status of tools/ceph-cluster with these arguments.
int RunClusterTool(const std::string& arguments);

// Options of a namespace of the test's own. Leases are short: tests wait until some lapse.
inline RadosOptions InNamespace(const std::string& name) {
  RadosOptions options;
  options.pool = "recollect";
  options.name_space = name;
  options.conf_file = ClusterDirectory() + "/ceph.conf";
  options.lease_ms = 3000;
  options.object_bytes = 1 << 16;  // so that tests have documents of many
  return options;
}

// Null if it cannot be opened, which fails the test.
inline std::unique_ptr<DocumentStore> Open(const RadosOptions& options) {
  auto store = OpenRadosStore(options);
  EXPECT_THAT(store, IsOk());
  return store.ok() ? *std::move(store) : nullptr;
}

}  // namespace recollect::store
