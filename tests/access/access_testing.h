// A keys file in a directory of the test's own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "access/key.h"
#include "access/keys_file.h"
#include "base/io/file.h"
#include "base/io/log.h"
#include "base/sha256.h"
#include "tests/support/status_matchers.h"

namespace recollect {

// The line of a keys file for the key "secret-NAME".
inline access::Key KeyOf(const std::string& name, access::Right right = access::Right::kFull,
                         const std::string& prefix = "") {
  return {name, Sha256Hex("secret-" + name), right, prefix};
}

class KeysFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) / "recollect_keys" /
                 info->test_suite_name() / info->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    path_ = directory_ / "keys";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string Read() const { return ReadWholeFile(path_).value(); }

  std::filesystem::path directory_;
  std::string path_;
};

}  // namespace recollect
