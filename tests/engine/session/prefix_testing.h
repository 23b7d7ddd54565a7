// Helpers of the tests of prefixes: patterns to make them under, sessions that begin with them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/session/prefix_state.h"
#include "engine/step/prepare.h"
#include "tests/engine/ratplus_testing.h"

namespace recollect::engine {

// Returns one pattern of each kind that the tiny model is adapted to.
inline std::vector<std::pair<std::string, SessionOptions>> PrefixPatterns() {
  std::vector<std::pair<std::string, SessionOptions>> patterns;
  const auto add = [&](const char* name) -> SessionOptions& {
    return patterns.emplace_back(name, SessionOptions()).second;
  };
  add("default");
  add("dense").dilation = 1;
  SessionOptions& window = add("window only");
  window.dilation = -1;
  window.window = 40;
  window.initial = 0;
  SessionOptions& hybrid = add("hybrid");
  hybrid.layer_dilations = {{4}, {1, 64}, {-1}};
  hybrid.layer_windows = {{0}, {16}, {40, 8}};
  add("blocks").top_k_blocks = 3;
  add("context").context = 1000;
  return patterns;
}

class PrefixTest : public RatPlusEngineTest {
 protected:
  static std::vector<int32_t> Part(const std::vector<int32_t>& tokens, int64_t begin, int64_t end) {
    return {tokens.begin() + begin, tokens.begin() + end};
  }

  // A request whose session begins with the prefix `id`.
  static GenerateRequest After(const std::string& id, SessionOptions options,
                               std::vector<int32_t> prompt, int64_t max_tokens) {
    GenerateRequest request = TokensRequest(std::move(prompt), max_tokens);
    request.session_options = std::move(options);
    request.session_options.mounts = {id};
    return request;
  }

  static std::vector<int32_t> Read(Engine& engine, SessionOptions options,
                                   std::vector<int32_t> prompt, int64_t max_tokens) {
    GenerateRequest request = TokensRequest(std::move(prompt), max_tokens);
    request.session_options = std::move(options);
    return Generate(engine, request).tokens;
  }
};

}  // namespace recollect::engine
