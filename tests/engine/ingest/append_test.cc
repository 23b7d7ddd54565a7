// Documents that are appended to: the same, byte for byte, as in one ingest, and what is read
// again.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ratplus_testing.h"
#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Kept {
  const char* name;
  std::shared_ptr<const model::Model> (*load)();
  bool point;  // whether long documents have an append point
  int64_t bytes = 24000;
};

std::shared_ptr<const model::Model> PrefixModel() {
  return LoadRatPlusForTest("append", TinyRatPlusConfig());
}

// Says what it is told to say instead of an append point.
class PointStore final : public ForwardingStore {
 public:
  PointStore(std::shared_ptr<store::DocumentStore> to, absl::StatusOr<std::string> point)
      : ForwardingStore(std::move(to)), point_(std::move(point)) {}
  absl::StatusOr<std::string> ReadAppendPoint(OwnerId) override { return point_; }

 private:
  const absl::StatusOr<std::string> point_;
};

class AppendTest : public ::testing::TestWithParam<Kept> {
 protected:
  std::unique_ptr<EngineImpl> Make() { return Make(std::make_unique<ForwardingStore>(store_)); }
  std::unique_ptr<EngineImpl> Make(std::unique_ptr<store::DocumentStore> store) {
    return MakeEngine(SmallOptions(), std::move(store), model_);
  }
  static absl::StatusOr<std::unique_ptr<IngestStream>> Begin(Engine& engine, const std::string& id,
                                                             bool tokens = false) {
    return engine.BeginIngest(id, tokens, {}, {}, Replacement{.appends = true});
  }
  static absl::StatusOr<store::DocumentInfo> AppendText(Engine& engine, const std::string& id,
                                                        const std::string& text,
                                                        int64_t message_bytes = 4096) {
    auto stream = Begin(engine, id);
    if (!stream.ok()) return stream.status();
    return SendText(**stream, text, message_bytes);
  }
  std::string Dump(const std::string& id) {
    return DumpDocument(*store_, id, model_->config().key_width());
  }
  // What one ingest of the text makes.
  std::string Whole(const std::string& id, const std::string& text) {
    const auto store = std::shared_ptr<store::DocumentStore>(store::CreateMemoryStore());
    const auto engine = Make(std::make_unique<ForwardingStore>(store));
    EXPECT_THAT(Ingest(*engine, id, text), IsOk());
    return DumpDocument(*store, id, model_->config().key_width());
  }

  const std::shared_ptr<const model::Model> model_ = GetParam().load();
  const std::shared_ptr<store::DocumentStore> store_ = store::CreateMemoryStore();
  const std::string text_ = SampleText(GetParam().bytes, 3);
  const size_t size_ = text_.size();
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, AppendTest,
    ::testing::Values(
        Kept{"Chunks", []() -> std::shared_ptr<const model::Model> { return TinyModelForTest(); },
             true},
        Kept{"Sentences",
             []() -> std::shared_ptr<const model::Model> { return TinyModelForTest(1, 24); }, true},
        Kept{"Adapter",
             []() -> std::shared_ptr<const model::Model> { return AdapterModelForTest(); }, true},
        Kept{"Text", []() -> std::shared_ptr<const model::Model> { return TextModelForTest(); },
             true},
        // Every token attends to all before it, and every append reads all of them again.
        Kept{"Prefix", PrefixModel, false, 9000}),
    [](const auto& param) { return std::string(param.param.name); });

// The next place from `at` on where a character begins.
size_t CharacterFrom(const std::string& text, size_t at) {
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

TEST_P(AppendTest, GivesTheRecordsOfOneIngest) {
  const auto engine = Make();
  int document = 0;
  for (const std::vector<size_t>& cuts : std::vector<std::vector<size_t>>{
           {1}, {70, 71, 72}, {3001, 6007, 6100}, {size_ / 3, 2 * size_ / 3}, {size_ - 2}}) {
    const std::string id = "doc" + std::to_string(document++);
    size_t begin = 0;
    for (size_t cut : cuts) {
      cut = CharacterFrom(text_, cut);
      ASSERT_THAT(AppendText(*engine, id, text_.substr(begin, cut - begin), 1000), IsOk());
      begin = cut;
    }
    const auto info = AppendText(*engine, id, text_.substr(begin));
    ASSERT_THAT(info, IsOk());
    EXPECT_EQ(engine->ReadText(id, 0, info->bytes).value(), text_);
    EXPECT_TRUE(Dump(id) == Whole(id, text_)) << id;
  }
  EXPECT_THAT(*engine->ListIngests(), IsEmpty());
}

TEST_P(AppendTest, ReadsTheEndAloneAgain) {
  const auto engine = Make();
  const size_t cut = CharacterFrom(text_, size_ - 999);
  const auto before = Ingest(*engine, "d", text_.substr(0, cut));
  ASSERT_THAT(before, IsOk());
  int64_t read = engine->stats().ingested_tokens;
  auto info = AppendText(*engine, "d", text_.substr(cut, 1));
  ASSERT_THAT(info, IsOk());
  if (!GetParam().point) {
    EXPECT_GE(engine->stats().ingested_tokens - read, info->tokens - 1) << "all of it";
    return;
  }
  EXPECT_LE(engine->stats().ingested_tokens - read, 300);
  EXPECT_GT(info->tokens, 3000);
  // The longer one has an append point, too.
  read = engine->stats().ingested_tokens;
  info = AppendText(*engine, "d", text_.substr(cut + 1, 1));
  ASSERT_THAT(info, IsOk());
  EXPECT_LE(engine->stats().ingested_tokens - read, 300);
}

TEST_P(AppendTest, OfTokensToTokens) {
  const auto engine = Make();
  std::vector<int32_t> tokens = SampleTokens(4000, 5);
  for (int32_t& token : tokens) token = 3 + token % 250;
  ASSERT_THAT(IngestTokens(*engine, "whole", tokens), IsOk());
  const std::vector<int32_t> first(tokens.begin(), tokens.begin() + 3000);
  ASSERT_THAT(IngestTokens(*engine, "d", first), IsOk());
  {
    const auto stream = Begin(*engine, "d", /*tokens=*/true).value();
    ASSERT_THAT(AppendTokens(*stream, 0, {tokens.begin() + 3000, tokens.begin() + 3500}), IsOk());
    ASSERT_THAT(AppendTokens(*stream, 500, {tokens.begin() + 3500, tokens.end()}), IsOk());
    ASSERT_THAT(Finish(*stream), IsOk());
  }
  const std::string whole = Dump("whole"), parts = Dump("d");
  EXPECT_TRUE(whole.substr(whole.find('|')) == parts.substr(parts.find('|')));
  EXPECT_THAT(AppendText(*engine, "d", "text"),
              StatusIs(StatusCode::kFailedPrecondition, "as token ids; text cannot be appended"));
}

// As earlier releases have published it, over RADOS, or where its record is damaged.
TEST_P(AppendTest, WithoutAnAppendPointAllIsReadAgain) {
  const size_t cut = CharacterFrom(text_, size_ / 2);
  ASSERT_THAT(Ingest(*Make(), "d", text_.substr(0, cut)), IsOk());
  const std::vector<absl::StatusOr<std::string>> points = {absl::NotFoundError("none"),
                                                           absl::DataLossError("damaged"),
                                                           std::string("of a later version")};
  std::string sent = text_.substr(0, cut);
  for (const absl::StatusOr<std::string>& point : points) {
    const auto engine = Make(std::make_unique<PointStore>(store_, point));
    const std::string more =
        text_.substr(sent.size(), CharacterFrom(text_, sent.size() + size_ / 12) - sent.size());
    const auto info = AppendText(*engine, "d", more);
    ASSERT_THAT(info, IsOk());
    EXPECT_GE(engine->stats().ingested_tokens, info->tokens - 1);
    sent += more;
    EXPECT_TRUE(Dump("d") == Whole("d", sent));
  }
}

TEST_P(AppendTest, BrokenOffLeavesTheDocumentAsItWas) {
  const size_t cut = CharacterFrom(text_, 2 * size_ / 3);
  const std::string old = text_.substr(0, cut);
  ASSERT_THAT(Ingest(*Make(), "d", old), IsOk());
  const std::string before = Dump("d");
  {
    const auto engine = Make();
    auto stream = Begin(*engine, "d").value();
    ASSERT_THAT(Append(*stream, 0, text_.substr(cut, size_ / 4)), IsOk());
    engine->Shutdown(absl::InfinitePast());
    EXPECT_THAT(Finish(*stream), StatusIs(StatusCode::kUnavailable, ""));
  }
  EXPECT_EQ(store_->ListIngests()->size(), 1u) << "what a server leaves that is stopped";
  const auto engine = Make();
  EXPECT_TRUE(Dump("d") == before);
  {
    const auto stream = Begin(*engine, "d").value();
    ASSERT_THAT(Append(*stream, 0, "something else"), IsOk());
  }
  EXPECT_TRUE(Dump("d") == before);
  ASSERT_THAT(AppendText(*engine, "d", text_.substr(cut)), IsOk());
  EXPECT_TRUE(Dump("d") == Whole("d", text_));
  EXPECT_THAT(*engine->ListIngests(), IsEmpty());
}

TEST_P(AppendTest, AStreamIsCancelledWhileTheDocumentIsReadAgain) {
  ASSERT_THAT(Ingest(*Make(), "d", text_), IsOk());
  const auto engine = Make(std::make_unique<PointStore>(store_, absl::NotFoundError("none")));
  const auto stream = Begin(*engine, "d").value();
  stream->handle()->Cancel();
  EXPECT_THAT(Append(*stream, 0, "more"), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_THAT(Finish(*stream), StatusIs(StatusCode::kCancelled, ""));
  EXPECT_EQ(engine->GetDocument("d")->bytes, std::ssize(text_));
}

TEST_P(AppendTest, TextThatIsNotUtf8IsRefused) {
  const auto engine = Make();
  ASSERT_THAT(Ingest(*engine, "d", "the whale"), IsOk());
  EXPECT_THAT(AppendText(*engine, "d", "\xff"), StatusIs(StatusCode::kInvalidArgument, "byte 9"));
  EXPECT_EQ(engine->GetDocument("d")->bytes, 9);
}

TEST(AppendToAnotherTest, ModelOrPatternIsRefused) {
  const std::shared_ptr<store::DocumentStore> store = store::CreateMemoryStore();
  const auto open = [&](std::shared_ptr<const model::Model> model) {
    return MakeEngine(SmallOptions(), std::make_unique<ForwardingStore>(store), std::move(model));
  };
  const Replacement append{.appends = true};
  ASSERT_THAT(Ingest(*open(TinyModelForTest()), "d", "the whale"), IsOk());
  const auto other = open(TinyModelForTest(2))->BeginIngest("d", false, {}, {}, append);
  EXPECT_THAT(other, StatusIs(StatusCode::kFailedPrecondition, "docs refresh"));
  for (const int seed : {1, 2}) {
    EXPECT_THAT(std::string(other.status().message()),
                HasSubstr(TinyModelForTest(seed)->fingerprint()));
  }
  const auto engine = open(PrefixModel());
  SessionOptions dense;
  dense.dilation = 1;
  ASSERT_THAT(Ingest(*engine, "p", "the whale", 4096, dense), IsOk());
  EXPECT_THAT(engine->BeginIngest("p", false, {}, {}, append),
              StatusIs(StatusCode::kFailedPrecondition, "under the pattern"));
  EXPECT_THAT(engine->BeginIngest("p", false, dense, {}, append), IsOk());
}

}  // namespace
}  // namespace recollect::engine
