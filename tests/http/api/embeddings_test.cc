// POST /v1/embeddings over the fake engine.
#include <tuple>

#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

class EmbeddingsTest : public HttpTest {
 protected:
  std::string Embed(json fields) const { return Ask(Post("/v1/embeddings", fields.dump())); }
};

// The fake's embedding of a text: its length in bytes and in tokens, and the group.
TEST_F(EmbeddingsTest, EachTextHasOne) {
  const std::string answer = Embed({{"input", {"abc", "de"}}});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  const json body = Body(answer);
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_EQ(body["data"], json::array({{{"object", "embedding"},
                                        {"index", 0},
                                        {"kind", "landmark"},
                                        {"embedding", {3.0, 0.0, 0.0}}},
                                       {{"object", "embedding"},
                                        {"index", 1},
                                        {"kind", "landmark"},
                                        {"embedding", {2.0, 0.0, 0.0}}}}));
  EXPECT_EQ(body["usage"], json({{"prompt_tokens", 5}, {"total_tokens", 5}}));
}

TEST_F(EmbeddingsTest, AQueryHasAGroupAndMayHaveMounts) {
  engine_.AddDocument("d", "a document of some length");
  const json body =
      Body(Embed({{"input", {1, 2, 3, 4}}, {"kind", "query"}, {"group", 1}, {"mounts", {"d"}}}));
  EXPECT_EQ(body["data"], json::array({{{"object", "embedding"},
                                        {"index", 0},
                                        {"kind", "query"},
                                        {"group", 1},
                                        {"embedding", {0.0, 4.0, 1.0}}}}));
  EXPECT_EQ(engine_.seen().embed.session_options.mounts, std::vector<std::string>{"d"});
  EXPECT_EQ(Body(Embed({{"input", {{1, 2}, {3}}}}))["data"].size(), 2u);
}

TEST_F(EmbeddingsTest, Base64IsWhatOpenAisClientAsksFor) {
  const json body = Body(
      Embed({{"input", "ab"}, {"encoding_format", "base64"}, {"dimensions", 3}, {"user", "me"}}));
  EXPECT_EQ(body["data"][0]["embedding"], "AAAAQAAAAAAAAAAA");
}

TEST_F(EmbeddingsTest, AClientThatGoesCancels) {
  engine_.Set({.embed_hangs = true});
  {
    const Socket socket(server_->address());
    socket.Send(Post("/v1/embeddings", R"({"model": "fake", "input": ["a", "b"]})"));
    engine_.Await([](const FakeEngine::Seen& seen) { return seen.embed.text.text == "a"; });
  }
  engine_.Await([](const FakeEngine::Seen& seen) { return seen.cancelled == 1; });
}

TEST_F(EmbeddingsTest, RefusedByName) {
  const std::tuple<json, int, std::string> cases[] = {
      {{{"x", 1}}, 400, "input: missing"},
      {{{"input", ""}}, 400, "input: empty"},
      {{{"input", json::array()}}, 400, "input: empty"},
      {{{"input", 3}}, 400, "input: number 3, expected a string"},
      {{{"input", {"a", 3}}}, 400, "input: number 3, expected a string"},
      {{{"input", {"a", ""}}}, 400, "input: empty"},
      {{{"input", std::vector<std::string>(257, "a")}}, 400, "input: 257 texts, at most 256"},
      {{{"input", "a"}, {"kind", "key"}}, 400, "kind: 'key', expected 'landmark' or 'query'"},
      {{{"input", "a"}, {"kind", 1}}, 400, "kind: number"},
      {{{"input", "a"}, {"group", "0"}}, 400, "group: string"},
      {{{"input", "a"}, {"encoding_format", "hex"}}, 400, "encoding_format: 'hex'"},
      {{{"input", "a"}, {"dimensions", 2}}, 400, "dimensions: 2, the model has 3"},
      {{{"input", "a"}, {"mounts", {"nobody"}}}, 404, "'nobody'"},
      {{{"input", "a"}, {"model", "other"}}, 404, "model: 'other'"},
      {{{"input", "a"}, {"prompt", "b"}}, 400, "unrecognized request argument: 'prompt'"}};
  for (const auto& [fields, status, message] : cases) {
    ExpectRefused("/v1/embeddings", fields, status, message);
  }
  EXPECT_THAT(Ask(Post("/v1/embeddings", "{\"input\": \"\xff\"}")), StartsWith("HTTP/1.1 400"));
}

}  // namespace
}  // namespace recollect
