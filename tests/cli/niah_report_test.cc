// What niah shows and keeps: heat maps, and the samples of an unfinished run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/niah/answered.h"
#include "cli/niah/heat_map.h"

namespace recollect::cli::niah {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Sample MakeSample(const std::string& task, int64_t tokens, double depth, bool right) {
  Sample sample;
  sample.task = task;
  sample.variant = "trained";
  sample.tokens_asked = tokens;
  sample.depth = depth;
  sample.right = right;
  return sample;
}

TEST(NiahHeatMapTest, CountsBySizeAndDepthAndLeavesOutWhatWasNotJudged) {
  std::vector<Sample> samples = {
      MakeSample("hex", 4096, 0, true), MakeSample("hex", 4096, 0.49, false),
      MakeSample("hex", 4096, 1, true), MakeSample("hex", 1024, 0.5, false),
      MakeSample("passkey", 1024, 0.2, true)};
  samples.push_back(MakeSample("quote", 1024, 0.2, true));
  samples.back().right.reset();
  const std::vector<HeatMap> maps = HeatMaps(samples, 2);
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0].task, "hex");
  EXPECT_THAT(maps[0].tokens, ElementsAre(1024, 4096));
  ASSERT_EQ(maps[0].rows.size(), 2u);
  EXPECT_THAT(maps[0].rows[0], ElementsAre(HeatCell{0, 0}, HeatCell{2, 1}));
  EXPECT_THAT(maps[0].rows[1], ElementsAre(HeatCell{1, 0}, HeatCell{1, 1}));
  EXPECT_EQ(maps[1].task, "passkey");
}

TEST(NiahHeatMapTest, SizesAreNamedAsTheyAreAskedFor) {
  EXPECT_EQ(TokenCount(16 << 20), "16M");
  EXPECT_EQ(TokenCount(64 << 10), "64k");
  EXPECT_EQ(TokenCount(3000), "3000");
}

TEST(NiahHeatMapTest, TheFullBlockIsForAllRight) {
  std::vector<HeatMap> maps = {{"hex", {1024}, {{{100, 99}}, {{100, 100}}, {{0, 0}}, {{4, 0}}}}};
  const std::string blocks = FormatHeatMaps(maps, /*unicode=*/true);
  EXPECT_THAT(blocks, AllOf(HasSubstr("▇▇  99 %"), HasSubstr("██ 100 %"), HasSubstr("     0 %")));
  const std::string plain = FormatHeatMaps(maps, /*unicode=*/false);
  EXPECT_THAT(plain, AllOf(HasSubstr("%%  99 %"), HasSubstr("## 100 %"), HasSubstr("25 to 50 %")));
  for (const char c : plain) EXPECT_GE(c, 0);  // ASCII
}

TEST(NiahHeatMapTest, TheDrawingHasTheNumbersAndEscapesTheTitle) {
  std::vector<HeatMap> maps = {{"hex", {1024, 4096}, {{{10, 10}, {10, 0}}, {{8, 4}, {0, 0}}}}};
  const std::string svg = DrawHeatMaps(maps, "a <b> & c");
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg "), HasSubstr("</svg>"), HasSubstr("a &lt;b&gt; &amp; c"),
                         Not(HasSubstr("<b>")), HasSubstr(">10/10<"), HasSubstr(">0/10<"),
                         HasSubstr(">4/8<"), HasSubstr(">4k<")));
  // Right and wrong, and nothing.
  EXPECT_THAT(svg, AllOf(HasSubstr("#2166ac"), HasSubstr("#b2182b"), HasSubstr("#eeeeee")));
  EXPECT_EQ(svg, DrawHeatMaps(maps, "a <b> & c"));
}

class NiahAnsweredTest : public ::testing::Test {
 protected:
  ~NiahAnsweredTest() override { std::filesystem::remove(path_); }

  std::string Text() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  void Write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/answered-", getpid());
  const Json run_ = {{"--tokens", {1024}}, {"--seed", 7}};
};

Sample FullSample() {
  Sample sample = MakeSample("hex", 1 << 20, 0.25, true);
  sample.tokens_mounted = 1000000;
  sample.documents = 3;
  sample.question = "What is \"it\"?\n";
  sample.value = "żółw";
  sample.answer = " 12";
  sample.numbers = {{"next 20 words", 0.5}, {"others", 0.1}};
  sample.span = Sample::Span::kTwoChunks;
  sample.crosses_block = true;
  sample.found = {{true, false, 0.125}, {false, false, 0}};
  sample.bm25 = Finding{true, true, 0};
  sample.ingested_tokens = 12;
  sample.ingest_s = 1.5;
  sample.answer_ms = 2.5;
  sample.generated_tokens = 7;
  sample.generation_ms = 3.5;
  return sample;
}

TEST_F(NiahAnsweredTest, KeepsEveryFieldOfASample) {
  const Json json = SampleToJson(FullSample());
  EXPECT_EQ(SampleToJson(SampleFromJson(json).value()), json);
  Sample without = FullSample();
  without.right.reset();
  without.bm25.reset();
  const Sample read = SampleFromJson(SampleToJson(without)).value();
  EXPECT_FALSE(read.right.has_value());
  EXPECT_FALSE(read.bm25.has_value());
}

TEST_F(NiahAnsweredTest, GoesOnWhereItEnded) {
  {
    const auto answered = Answered::Open(path_, run_).value();
    EXPECT_EQ(answered->Find("a"), nullptr);
    ASSERT_TRUE(answered->Add("a", FullSample()).ok());
  }
  Write(Text() + R"({"name": "b", "sam)");  // the run was killed here
  {
    const auto answered = Answered::Open(path_, run_).value();
    ASSERT_NE(answered->Find("a"), nullptr);
    EXPECT_EQ(SampleToJson(*answered->Find("a")), SampleToJson(FullSample()));
    EXPECT_EQ(answered->Find("b"), nullptr);
    ASSERT_TRUE(answered->Add("b", MakeSample("hex", 1024, 0, false)).ok());
  }
  const auto answered = Answered::Open(path_, run_).value();
  ASSERT_NE(answered->Find("b"), nullptr);
  EXPECT_FALSE(*answered->Find("b")->right);
  answered->Remove();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(NiahAnsweredTest, RefusesAnotherRunNamingBothValues) {
  ASSERT_TRUE(Answered::Open(path_, run_).ok());
  Json other = run_;
  other["--seed"] = 8;
  const absl::Status refused = Answered::Open(path_, other).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(path_), HasSubstr("--seed 7"), HasSubstr("has 8")));
}

TEST_F(NiahAnsweredTest, RefusesFilesThatAreNoneOfItsOwn) {
  for (const char* text : {"nonsense\n", "{}\n", "{\"niah\": 99, \"run\": {}}\n"}) {
    Write(text);
    const absl::Status refused = Answered::Open(path_, run_).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("line 1"));
    EXPECT_EQ(Text(), text);  // left as it was
  }
  std::filesystem::remove(path_);
  ASSERT_TRUE(Answered::Open(path_, run_).ok());
  const std::string begin = Text();
  for (const char* line : {"7\n", "{\"name\": \"a\"}\n", "{\"name\": \"a\", \"sample\": {}}\n"}) {
    Write(begin + line);
    const absl::Status refused = Answered::Open(path_, run_).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("line 2"));
  }
  EXPECT_EQ(Answered::Open("/nonexistent/file", run_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::cli::niah
