// 200 KB of text in many scripts: the ids of PyPI's tokenizers (make_bpe_golden.py), by each of the
// four rules, however the text arrives.
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "model/text/pre_tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_bpe.h"

namespace recollect::model {
namespace {

constexpr PreTokenizer kRules[] = {PreTokenizer::kGpt2, PreTokenizer::kSmollm,
                                   PreTokenizer::kLlamaBpe, PreTokenizer::kQwen2};

const std::string& Text() {
  static const auto& text =
      *new std::string(ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/text/bpe_golden.txt"));
  return text;
}

const nlohmann::json& Golden() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(ReadFile(RECOLLECT_SOURCE_DIR "/tests/model/text/bpe_golden.json")));
  return golden;
}

// FNV-1a over the ids, 4 bytes each, the lowest first: as the generator does.
std::string Hash(const std::vector<int32_t>& ids) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<uint32_t>(id) >> shift & 0xff)) * 0x100000001b3;
    }
  }
  return absl::StrFormat("%016x", hash);
}

// The ids of a text that arrives in pieces of random sizes up to `most` bytes.
std::vector<int32_t> Streamed(const Tokenizer& tokenizer, std::string_view text, size_t most,
                              std::mt19937& random) {
  std::vector<int32_t> ids;
  std::string pending;
  for (bool final = false; !final;) {
    const size_t take = std::min(text.size(), random() % (most + 1));
    pending += text.substr(0, take);
    text.remove_prefix(take);
    final = text.empty();
    const auto part = tokenizer.EncodePrefix(pending, final, 0);
    EXPECT_TRUE(part.ok()) << part.status();
    if (!part.ok()) break;
    ids.insert(ids.end(), part->ids.begin(), part->ids.end());
    pending.erase(0, static_cast<size_t>(part->consumed));
  }
  EXPECT_EQ(pending, "");
  return ids;
}

class BpeGoldenTest : public ::testing::TestWithParam<PreTokenizer> {
 protected:
  const std::string name_{PreTokenizerName(GetParam())};
  const std::unique_ptr<BpeTokenizer> tokenizer_ = TinyBpeTokenizer(GetParam());
};

TEST_P(BpeGoldenTest, IdsAreThoseOfTheLibrary) {
  const nlohmann::json& rule = Golden()["rules"][name_];
  size_t at = 0;
  for (size_t i = 0; i < Golden()["bytes"].size(); ++i) {
    const size_t size = Golden()["bytes"][i];
    const std::string piece = Text().substr(at, size);
    const std::vector<int32_t> ids = tokenizer_->Encode(piece).value();
    EXPECT_EQ(ids.size(), rule["counts"][i]) << "piece " << i << ": " << piece;
    EXPECT_EQ(Hash(ids), rule["hashes"][i]) << "piece " << i << ": " << piece;
    EXPECT_EQ(tokenizer_->Decode(ids), piece);
    at += size;
  }
  EXPECT_EQ(at, Text().size());
  EXPECT_GT(at, 200'000u);
  EXPECT_EQ(Hash(tokenizer_->Encode(Text()).value()), rule["whole"]);
}

TEST_P(BpeGoldenTest, AnyDivisionGivesTheSameIds) {
  const std::string hash = Golden()["rules"][name_]["whole"];
  std::mt19937 random(41);
  for (const size_t most : {29, 400, 5000, 70'000}) {
    EXPECT_EQ(Hash(Streamed(*tokenizer_, Text(), most, random)), hash) << most;
  }
}

// Where one piece ends at each place, and the rest comes at once: no place is decided too early.
TEST_P(BpeGoldenTest, AnyCutOfTheNastyTextsGivesTheSameIds) {
  const std::string_view text = std::string_view(Text()).substr(Text().size() - 12'000);
  // In stretches, as of the first part only its end is of interest.
  for (size_t begin = text.find('\n'); begin != text.npos; begin = text.find('\n', begin + 1000)) {
    const std::string_view whole = text.substr(begin, text.find('\n', begin + 1000) - begin);
    const std::vector<int32_t> expected = tokenizer_->Encode(whole).value();
    for (size_t cut = 0; cut < whole.size(); cut += 11) {
      const auto first = tokenizer_->EncodePrefix(whole.substr(0, cut), /*final=*/false, 0);
      ASSERT_TRUE(first.ok()) << first.status();
      ASSERT_LE(first->ids.size(), expected.size());
      ASSERT_TRUE(std::equal(first->ids.begin(), first->ids.end(), expected.begin())) << cut;
      const auto rest = tokenizer_->EncodePrefix(whole.substr(static_cast<size_t>(first->consumed)),
                                                 /*final=*/false, 0);
      ASSERT_TRUE(
          std::equal(rest->ids.begin(), rest->ids.end(), expected.begin() + std::ssize(first->ids)))
          << cut;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, BpeGoldenTest, ::testing::ValuesIn(kRules), [](const auto& rule) {
  std::string name(PreTokenizerName(rule.param));
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace recollect::model
