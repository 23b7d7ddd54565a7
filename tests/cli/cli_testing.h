// The program `recollect` on the tiny model.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

namespace recollect {

// Exit codes, as `recollect --help` lists them.
constexpr int kUsage = 2, kNotFound = 3, kInvalid = 4, kUnavailable = 5, kLate = 6, kConflict = 7,
              kExhausted = 8;

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) / "recollect_cli" /
                 info->test_suite_name() / info->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    WriteTinyModel(Path("model"), TinyConfig(), 1);
  }
  void TearDown() override {
    std::error_code ignored;  // a server that ends may still delete files of its own
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  std::string File(const std::string& name, const std::string& text) const {
    WriteFile(Path(name), text);
    return Path(name);
  }
  // Words, the same every time.
  static std::string Text(int words) {
    static const char* const kWords[] = {"the",  "whale", "swam", "under",  "a",
                                         "grey", "ship",  "and",  "nobody", "saw."};
    std::string text;
    for (int i = 0; i < words; ++i)
      text += std::string(i == 0 ? "" : " ") + kWords[(i * 7 + i / 3) % 10];
    return text;
  }

  static ProcessResult Run(std::vector<std::string> arguments, const std::string& input = "",
                           const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), RECOLLECT_BINARY);
    return RunProcess(arguments, input, environment);
  }
  // Without a server, on the tiny model.
  ProcessResult Embedded(std::vector<std::string> arguments, const std::string& input = "") const {
    for (const char* argument : {"--model", "model", "--data-dir", "data", "--threads", "2"}) {
      const std::string text = argument;
      arguments.push_back(text == "model" || text == "data" ? Path(text) : text);
    }
    return Run(std::move(arguments), input);
  }
  static nlohmann::json Json(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    auto json = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << result.out;
    return json;
  }

  std::filesystem::path directory_;
};

}  // namespace recollect
