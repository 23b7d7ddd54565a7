// POST /v1/retrieve over the fake engine.
#include <tuple>

#include "tests/http/http_testing.h"

namespace recollect {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

TEST_F(HttpTest, RetrieveGivesTheHitsOfEachGroup) {
  engine_.AddDocument("d", "a document of some length");
  const std::string answer = Ask(Post("/v1/retrieve", json({{"query", "some"},
                                                            {"mounts", {"d"}},
                                                            {"k", 3},
                                                            {"dilation", 4},
                                                            {"mount_as", "text"},
                                                            {"text_tokens", 64}})
                                                          .dump()));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  const json body = Body(answer);
  EXPECT_EQ(body["object"], "list");
  ASSERT_EQ(body["data"].size(), 1u);
  const json& group = body["data"][0];
  EXPECT_EQ(group["group"], 0);
  EXPECT_EQ(group["candidates"], 3);
  ASSERT_EQ(group["hits"].size(), 3u);
  EXPECT_EQ(group["hits"][2], json({{"document", "d"},
                                    {"chunk", 2},
                                    {"begin", 20},
                                    {"end", 25},
                                    {"score", 2.5},
                                    {"weight", 0.5},
                                    {"tier", "states"}}));
  const engine::RetrieveRequest seen = engine_.seen().retrieve;
  EXPECT_EQ(seen.query.text, "some");
  EXPECT_EQ(seen.k, 3);
  EXPECT_EQ(seen.session_options.dilation, 4);
  EXPECT_EQ(seen.session_options.mount_as, engine::MountAs::kText);
  EXPECT_EQ(seen.session_options.text_tokens, 64);
}

TEST_F(HttpTest, AMountFilterChoosesAmongWhatAWildcardFinds) {
  for (const char* id : {"a", "b"}) engine_.AddDocument(id, "a document of some length");
  ASSERT_TRUE(engine_.SetMetadata("b", R"({"year":2024})", engine::MetadataChange::kReplace).ok());
  const auto ask = [&](const json& filter, const char* mount = "*") {
    const json body = {{"query", "some"}, {"mounts", {mount}}, {"mount_filter", filter}};
    return Ask(Post("/v1/retrieve", body.dump()));
  };
  const json year = {{"type", "eq"}, {"key", "year"}, {"value", 2024}};
  const json hits = Body(ask(year))["data"][0]["hits"];
  ASSERT_FALSE(hits.empty());
  for (const json& hit : hits) EXPECT_EQ(hit["document"], "b");
  EXPECT_THAT(ask(nullptr), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("year"), HasSubstr("mount_filter: string, expected an object"));
  EXPECT_THAT(ask({{"type", "eq"}}), HasSubstr("mount_filter: key is missing"));
  const json both = {{"type", "and"}, {"filters", {year, {{"type", "x"}}}}};
  EXPECT_THAT(ask(both), HasSubstr("mount_filter.filters[1].type"));
  EXPECT_THAT(ask(year, "a"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpTest, RetrieveGivesTheTextOfHitsWhereItIsAskedFor) {
  engine_.AddDocument("d", "a document of some length");
  const json fields = {{"query", "some"}, {"mounts", {"d"}}, {"with_text", true}};
  const json hits = Body(Ask(Post("/v1/retrieve", fields.dump())))["data"][0]["hits"];
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[0]["text"], "a document");
  EXPECT_EQ(hits[1]["text"], " of some l");
  // Another document has that name by the time its text is read.
  engine_.on_retrieve = [this] { engine_.AddDocument("d", std::string(30, 'x')); };
  const json stale = Body(Ask(Post("/v1/retrieve", fields.dump())))["data"][0]["hits"];
  ASSERT_EQ(stale.size(), 2u);
  EXPECT_TRUE(stale[0]["text"].is_null());
}

TEST_F(HttpTest, RetrieveTakesTokensAndTheModelsName) {
  const std::string answer =
      Ask(Post("/v1/retrieve", json({{"model", "fake"}, {"query", {3, 4}}}).dump()));
  EXPECT_EQ(Body(answer)["data"][0]["hits"], json::array());
  EXPECT_EQ(engine_.seen().retrieve.query.tokens, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(engine_.seen().retrieve.k, 0);
}

TEST_F(HttpTest, RetrieveRefusesByName) {
  const std::tuple<json, int, std::string> cases[] = {
      {json::object(), 400, "query: missing"},
      {{{"query", ""}}, 400, "query: empty"},
      {{{"query", 3}}, 400, "query: number 3, expected a string"},
      {{{"query", {"a", "b"}}}, 400, "query: 2 texts"},
      {{{"query", "x"}, {"with_text", 1}}, 400, "with_text: number 1, expected a boolean"},
      {{{"query", "x"}, {"k", "8"}}, 400, "k: string, expected an integer"},
      {{{"query", "x"}, {"k", -1}}, 400, "k: -1, limit 0 to 1024"},
      {{{"query", "x"}, {"k", 1025}}, 400, "k: 1025, limit 0 to 1024"},
      {{{"query", "x"}, {"mounts", "d"}}, 400, "mounts: string, expected an array"},
      {{{"query", "x"}, {"mounts", {"nobody"}}}, 404, "'nobody'"},
      {{{"query", "x"}, {"model", "other"}}, 404, "model: 'other'"},
      {{{"query", "x"}, {"prompt", "y"}}, 400, "unrecognized request argument: 'prompt'"},
      {json::array(), 400, "the body is a JSON array"}};
  for (const auto& [fields, status, message] : cases)
    ExpectRefused("/v1/retrieve", fields, status, message);
  EXPECT_THAT(Ask(Post("/v1/retrieve", "{\"query\": \"\xff\"}")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask(Get("/v1/retrieve")), StartsWith("HTTP/1.1 405"));
  engine_.Set({.error = absl::FailedPreconditionError("no landmarks")});
  ExpectRefused("/v1/retrieve", {{"query", "x"}}, 409, "no landmarks");
}

}  // namespace
}  // namespace recollect
