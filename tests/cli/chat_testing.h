// The fixture of tests that talk with a pretrained model on the command line.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_testing.h"
#include "tests/support/tiny_llama.h"

namespace recollect {

class ChatCliTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    nlohmann::json config = TinyLlamaConfig();
    config["max_position_embeddings"] = 4096;
    WriteTinyLlama(Path("llama"), config);
    WriteGguf(Path("llama"), Path("tiny.gguf"));
  }

  ProcessResult WithModels(std::vector<std::string> arguments,
                           const std::string& input = "") const {
    return Run(std::move(arguments), input, {"RECOLLECT_MODELS_DIR=" + Path("models")});
  }
  ProcessResult Chat(const std::vector<std::string>& flags, const std::string& input) const {
    std::vector<std::string> arguments = {"chat",       "--model",    Path("tiny.gguf"),
                                          "--data-dir", Path("data"), "--max-tokens",
                                          "6",          "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Run(arguments, input);
  }
  static std::vector<nlohmann::json> Lines(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<nlohmann::json> answers;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      answers.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return answers;
  }
};

}  // namespace recollect
