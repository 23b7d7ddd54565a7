// What requests decode to, what is refused and with which words; answers are tested by
// encode_test.cc.
#include "service/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/step/limits.h"
#include "service/limits.h"

namespace recollect::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CodecTest, AnEmptyGenerateRequestMeansTheDocumentedDefaults) {
  const auto request = Decode(v1::GenerateRequest());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(request->session.has_value());
  EXPECT_EQ(request->max_tokens, 128);
  EXPECT_TRUE(request->flush);
  EXPECT_EQ(request->sampling.temperature, 0);
  EXPECT_EQ(request->sampling.top_p, 1);
  EXPECT_EQ(request->sampling.dry_multiplier, 0);
  EXPECT_EQ(request->sampling.dry_allowed_length, 2);
  EXPECT_FALSE(request->session_options.dilation.has_value());
}

TEST(CodecTest, NoTokensMeansReadingThePromptOnly) {
  v1::GenerateRequest message;
  message.set_max_tokens(0);
  EXPECT_EQ(Decode(message).value().max_tokens, 0);
}

TEST(CodecTest, GenerateTakesEveryField) {
  v1::GenerateRequest message;
  message.mutable_session()->add_mounts("a");
  message.mutable_session()->add_mounts("b");
  message.mutable_session()->set_dilation(8);
  message.mutable_session()->set_window(0);
  message.mutable_session()->set_initial(4);
  message.mutable_session()->set_context(5000);
  message.mutable_session()->set_top_k_blocks(7);
  message.mutable_session()->add_layer_windows()->add_heads(0);
  v1::HeadNumbers& heads = *message.mutable_session()->add_layer_windows();
  heads.add_heads(5);
  heads.add_heads(9);
  message.mutable_session()->set_random_chunks(true);
  message.mutable_prompt()->add_tokens(5);
  message.set_flush(false);
  message.mutable_sampling()->set_temperature(0.5f);
  message.mutable_sampling()->set_top_p(0.25f);
  message.mutable_sampling()->set_top_k(3);
  message.mutable_sampling()->set_seed(9);
  message.mutable_sampling()->set_dry_multiplier(0.5f);
  message.mutable_sampling()->set_dry_allowed_length(4);
  message.set_max_tokens(7);
  message.add_stop("x");
  message.set_ignore_eos(true);
  EXPECT_EQ(Decode(message)->stop_repetition, std::nullopt) << "the engine decides";
  message.set_stop_repetition(false);
  EXPECT_TRUE(Decode(message)->quotes);
  message.set_quotes(false);
  message.set_with_retrievals(true);
  const auto request = Decode(message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->session_options.mounts, ElementsAre("a", "b"));
  EXPECT_EQ(request->session_options.dilation, 8);
  EXPECT_EQ(request->session_options.window, 0);
  EXPECT_EQ(request->session_options.initial, 4);
  EXPECT_EQ(request->session_options.context, 5000);
  EXPECT_EQ(request->session_options.top_k_blocks, 7);
  EXPECT_EQ(request->session_options.layer_windows, (engine::LayerNumbers{{0}, {5, 9}}));
  EXPECT_TRUE(request->session_options.layer_dilations.empty());
  EXPECT_TRUE(request->session_options.random_chunks);
  EXPECT_THAT(request->prompt.tokens, ElementsAre(5));
  EXPECT_FALSE(request->flush);
  EXPECT_EQ(request->sampling.temperature, 0.5);
  EXPECT_EQ(request->sampling.top_p, 0.25);
  EXPECT_EQ(request->sampling.top_k, 3);
  EXPECT_EQ(request->sampling.seed, 9u);
  EXPECT_EQ(request->sampling.dry_multiplier, 0.5);
  EXPECT_EQ(request->sampling.dry_allowed_length, 4);
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_THAT(request->stop, ElementsAre("x"));
  EXPECT_TRUE(request->ignore_eos);
  EXPECT_EQ(request->stop_repetition, false);
  EXPECT_FALSE(request->quotes);
  EXPECT_TRUE(request->with_retrievals);
}

struct BadGenerate {
  std::string name;
  std::function<void(v1::GenerateRequest&)> change;
  std::vector<std::string> message;  // fragments: field, value, limit
};

class BadGenerateTest : public ::testing::TestWithParam<BadGenerate> {};

TEST_P(BadGenerateTest, IsRefusedNamingFieldValueAndLimit) {
  v1::GenerateRequest message;
  GetParam().change(message);
  const auto decoded = Decode(message);
  const absl::Status status = decoded.ok() ? engine::CheckRequest(*decoded) : decoded.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& fragment : GetParam().message) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
  }
}

const BadGenerate kBadGenerates[] = {
    {"MaxTokens",
     [](auto& m) { m.set_max_tokens(1000000000); },
     {"max_tokens", "1000000000", "65536"}},
    {"NegativeMaxTokens", [](auto& m) { m.set_max_tokens(-1); }, {"max_tokens", "-1"}},
    {"Temperature",
     [](auto& m) { m.mutable_sampling()->set_temperature(-1); },
     {"sampling.temperature", "-1", "100"}},
    {"TemperatureNan",
     [](auto& m) {
       m.mutable_sampling()->set_temperature(std::numeric_limits<float>::quiet_NaN());
     },
     {"sampling.temperature", "nan"}},
    {"TopP", [](auto& m) { m.mutable_sampling()->set_top_p(1.5f); }, {"sampling.top_p", "1.5"}},
    {"TopK",
     [](auto& m) { m.mutable_sampling()->set_top_k(int64_t{1} << 40); },
     {"sampling.top_k", "1048576"}},
    {"DryMultiplier",
     [](auto& m) { m.mutable_sampling()->set_dry_multiplier(-1); },
     {"sampling.dry_multiplier", "-1", "100"}},
    {"DryAllowedLength",
     [](auto& m) { m.mutable_sampling()->set_dry_allowed_length(65); },
     {"sampling.dry_allowed_length", "65", "64"}},
    {"StopCount",
     [](auto& m) {
       for (int i = 0; i < 17; ++i) m.add_stop("x");
     },
     {"stop: count", "17", "16"}},
    {"EmptyStop", [](auto& m) { m.add_stop(""); }, {"stop: bytes", "0"}},
    {"LongStop", [](auto& m) { m.add_stop(std::string(257, 'x')); }, {"stop: bytes", "257", "256"}},
    {"Mounts",
     [](auto& m) {
       for (int i = 0; i < 16385; ++i) m.mutable_session()->add_mounts("d");
     },
     {"mounts: count", "16385", "16384"}},
    {"EmptyMount", [](auto& m) { m.mutable_session()->add_mounts(""); }, {"id: bytes", "0"}},
    {"Dilation", [](auto& m) { m.mutable_session()->set_dilation(0); }, {"dilation", "0", "4096"}},
    {"NegativeDilation",
     [](auto& m) { m.mutable_session()->set_dilation(-2); },
     {"dilation", "-2", "4096"}},
    {"Window", [](auto& m) { m.mutable_session()->set_window(-1); }, {"window", "-1", "1048576"}},
    {"Initial",
     [](auto& m) { m.mutable_session()->set_initial(1 << 21); },
     {"initial", "2097152", "1048576"}},
    {"Context", [](auto& m) { m.mutable_session()->set_context(0); }, {"context", "0"}},
    {"LayerWindow",
     [](auto& m) { m.mutable_session()->add_layer_windows()->add_heads(-3); },
     {"window", "-3", "1048576"}},
    {"TopKBlocks",
     [](auto& m) { m.mutable_session()->set_top_k_blocks(-1); },
     {"top_k_blocks", "-1", "65536"}},
    {"PromptBytes",
     [](auto& m) { m.mutable_prompt()->set_text(std::string((2 << 20) + 1, 'x')); },
     {"prompt.text: bytes", "2097153", "2097152"}},
    {"PromptTokens",
     [](auto& m) {
       for (int i = 0; i <= 1 << 18; ++i) m.mutable_prompt()->add_tokens(3);
     },
     {"prompt.tokens: count", "262145", "262144"}},
    {"TextAndTokens",
     [](auto& m) {
       m.mutable_prompt()->set_text("x");
       m.mutable_prompt()->add_tokens(3);
     },
     {"prompt", "only one of text, tokens and messages"}},
    {"GeneratedMoreThanMaxTokens",
     [](auto& m) {
       m.set_max_tokens(1);
       m.mutable_generated()->add_ids(3);
       m.mutable_generated()->add_ids(4);
     },
     {"generated.ids", "2", "1"}},
    {"SessionTwice",
     [](auto& m) {
       m.set_session_id(1);
       m.mutable_session();
     },
     {"session", "session_id"}},
};
INSTANTIATE_TEST_SUITE_P(CodecTest, BadGenerateTest, ::testing::ValuesIn(kBadGenerates),
                         [](const auto& test) { return test.param.name; });

TEST(CodecTest, RetrieveAndScoreTakeEveryField) {
  v1::RetrieveRequest retrieve;
  retrieve.mutable_session()->add_mounts("a");
  retrieve.mutable_query()->add_tokens(5);
  retrieve.mutable_query()->add_tokens(6);
  retrieve.set_k(12);
  const engine::RetrieveRequest decoded = Decode(retrieve);
  EXPECT_THAT(decoded.session_options.mounts, ElementsAre("a"));
  EXPECT_THAT(decoded.query.tokens, ElementsAre(5, 6));
  EXPECT_EQ(decoded.k, 12);
  v1::ScoreRequest score;
  score.mutable_session()->add_mounts("a");
  score.mutable_prompt()->set_text("abc");
  score.add_flush_after(1);
  score.add_flush_after(3);
  const engine::ScoreRequest scored = Decode(score).value();
  EXPECT_THAT(scored.session_options.mounts, ElementsAre("a"));
  EXPECT_EQ(scored.prompt.text, "abc");
  EXPECT_THAT(scored.flush_after, ElementsAre(1, 3));
}

TEST(CodecTest, ARequestInASessionNamesIt) {
  v1::GenerateRequest message;
  message.set_session_id(5);
  EXPECT_EQ(Decode(message).value().session, engine::SessionId{5});
}

TEST(CodecTest, RetrieveAndScoreNeedSomethingToRead) {
  EXPECT_THAT(std::string(engine::CheckRequest(Decode(v1::RetrieveRequest())).message()),
              HasSubstr("query: empty"));
  EXPECT_THAT(std::string(engine::CheckRequest(Decode(v1::ScoreRequest()).value()).message()),
              HasSubstr("prompt: empty"));
}

TEST(CodecTest, RetrieveRefusesAbsurdK) {
  v1::RetrieveRequest message;
  message.set_k(1000000);
  EXPECT_THAT(std::string(engine::CheckRequest(Decode(message)).message()),
              HasSubstr("k: 1000000, limit 0 to 1024"));
}

TEST(CodecTest, FlushAfterMustAscend) {
  v1::ScoreRequest message;
  message.mutable_prompt()->set_text("abc");
  message.add_flush_after(2);
  message.add_flush_after(2);
  EXPECT_THAT(std::string(engine::CheckRequest(Decode(message).value()).message()),
              HasSubstr("flush_after: 2 after 2"));
}

TEST(CodecTest, PiecesMustBeOfTheHeadersKind) {
  v1::IngestPiece text, tokens, large;
  text.set_text("a");
  tokens.add_tokens(1);
  large.set_text(std::string(kMaxPieceBytes + 1, 'x'));
  EXPECT_TRUE(CheckPiece(text, false).ok());
  EXPECT_TRUE(CheckPiece(tokens, true).ok());
  EXPECT_THAT(std::string(CheckPiece(text, true).message()), HasSubstr("header says tokens"));
  EXPECT_THAT(std::string(CheckPiece(tokens, false).message()), HasSubstr("header says text"));
  EXPECT_THAT(std::string(CheckPiece(large, false).message()), HasSubstr("limit 0 to 1048576"));
}

TEST(CodecTest, ReadTextChecksItsRange) {
  v1::ReadTextRequest message;
  message.set_id("d");
  message.set_begin(5);
  message.set_end(4);
  EXPECT_THAT(std::string(CheckReadText(message).message()), HasSubstr("5, 4"));
  message.set_end(6 + kMaxReadBytes);
  EXPECT_THAT(std::string(CheckReadText(message).message()), HasSubstr("limit 0 to 1048576"));
}

TEST(CodecTest, ValidUtf8DropsCutCharactersAndReplacesOthers) {
  EXPECT_EQ(ValidUtf8("\xa9 caf\xc3\xa9 \xc3"), " café ");
  EXPECT_EQ(ValidUtf8("a\xff\x62"),
            "a\uFFFD"
            "b");
  EXPECT_EQ(ValidUtf8("\x80\x80"), "");
  EXPECT_EQ(ValidUtf8(""), "");
}

}  // namespace
}  // namespace recollect::service
