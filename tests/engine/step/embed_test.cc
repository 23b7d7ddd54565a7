// Embeddings: what retrieval compares, and that it is what retrieval compares.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

std::vector<int32_t> First(const std::vector<int32_t>& tokens, int64_t count) {
  return {tokens.begin(), tokens.begin() + count};
}

EmbedRequest Ask(std::vector<int32_t> tokens, EmbeddingKind kind, int64_t group = 0) {
  EmbedRequest request;
  request.text.tokens = std::move(tokens);
  request.kind = kind;
  request.group = group;
  return request;
}

TEST(EmbedTest, QueryTimesLandmarkIsTheScore) {
  for (const int64_t slice : {7, 500}) {
    TestOptions options = SmallOptions();
    options.prefill_slice_tokens = slice;
    auto engine = MakeEngine(options);
    const model::ModelConfig& config = engine->model().config();
    const std::vector<int32_t> document = SampleTokens(1000, 1), asked = SampleTokens(100, 2);
    ASSERT_TRUE(IngestTokens(*engine, "doc", document).ok());
    // A document begins with its first chunk, and so does a session.
    const auto landmark =
        Embed(*engine, Ask(First(document, config.chunk_tokens), EmbeddingKind::kLandmark));
    ASSERT_TRUE(landmark.ok()) << landmark.status();
    EXPECT_EQ(landmark->tokens, config.chunk_tokens);
    EXPECT_EQ(std::ssize(landmark->values), config.key_width());
    RetrieveRequest retrieve = RetrieveOf(asked, {"doc"});
    retrieve.k = 100;  // all of them
    const auto lists = Retrieve(*engine, retrieve);
    ASSERT_TRUE(lists.ok()) << lists.status();
    for (size_t g = 0; g < config.groups.size(); ++g) {
      EmbedRequest request = Ask(asked, EmbeddingKind::kQuery, static_cast<int64_t>(g));
      request.session_options = retrieve.session_options;
      const auto query = Embed(*engine, request);
      ASSERT_TRUE(query.ok()) << query.status();
      EXPECT_EQ(query->tokens, 100);
      ASSERT_EQ(query->values.size(), landmark->values.size());
      const float score = std::inner_product(query->values.begin(), query->values.end(),
                                             landmark->values.begin(), 0.0f);
      const std::vector<Hit>& hits = (*lists)[g].hits;
      const auto first = std::ranges::find_if(
          hits, [](const Hit& hit) { return hit.document == "doc" && hit.chunk == 0; });
      ASSERT_NE(first, hits.end());
      EXPECT_NEAR(score, first->score, 1e-4 * std::max(1.0f, std::abs(first->score)))
          << "group " << g;
    }
  }
}

// The first group has retrieved nothing before.
TEST(EmbedTest, TheFirstGroupsQueryDoesNotDependOnMounts) {
  auto engine = MakeEngine();
  ASSERT_TRUE(IngestTokens(*engine, "doc", SampleTokens(1000, 1)).ok());
  // Of one block: a longer text reads its own chunks, too.
  EmbedRequest request = Ask(SampleTokens(40, 2), EmbeddingKind::kQuery);
  const auto alone = Embed(*engine, request);
  request.session_options.mounts = {"doc"};
  const auto mounted = Embed(*engine, request);
  ASSERT_TRUE(alone.ok() && mounted.ok()) << alone.status() << mounted.status();
  EXPECT_EQ(alone->values, mounted->values);
  EXPECT_GT(*std::ranges::max_element(alone->values), 0);
}

TEST(EmbedTest, BadArgumentsNameTheField) {
  auto engine = MakeEngine();
  const int chunk = engine->model().config().chunk_tokens;
  const auto groups = std::ssize(engine->model().config().groups);
  const auto expect = [&](const EmbedRequest& request, const std::string& message) {
    EXPECT_THAT(Embed(*engine, request).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, message));
  };
  expect(Ask({}, EmbeddingKind::kLandmark), "input: empty");
  expect(
      Ask(SampleTokens(chunk + 1, 3), EmbeddingKind::kLandmark),
      absl::StrCat("input: ", chunk + 1, " tokens, a landmark stands for a chunk of 1 to ", chunk));
  EXPECT_TRUE(Embed(*engine, Ask(SampleTokens(chunk + 1, 3), EmbeddingKind::kQuery)).ok());
  expect(Ask({5}, EmbeddingKind::kQuery, groups), absl::StrCat("group: ", groups, ", limit 0 to "));
  expect(Ask({5}, EmbeddingKind::kQuery, -1), "group: -1, limit 0 to ");
}

}  // namespace
}  // namespace recollect::engine
