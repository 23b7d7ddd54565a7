// What is shown below an answer of a conversation.
#include "cli/common/passages.h"

#include <gtest/gtest.h>

#include <string>

namespace recollect::cli {
namespace {

void AddHit(v1::Retrieval& retrieval, const std::string& document, int64_t begin, int64_t end,
            float weight) {
  v1::Hit& hit = *retrieval.add_hits();
  hit.set_document(document);
  hit.set_text_begin(begin);
  hit.set_text_end(end);
  hit.set_weight(weight);
}

TEST(PassagesTest, NeighboursAreOnePassageAndTheHeaviestComesFirst) {
  google::protobuf::RepeatedPtrField<v1::Retrieval> retrievals;
  v1::Retrieval& first = *retrievals.Add();
  first.set_nothing(0.1F);
  AddHit(first, "lease", 200, 300, 0.125F);
  AddHit(first, "mail", 0, 90, 0.5F);
  AddHit(first, "lease", 100, 200, 0.25F);
  AddHit(first, "lease", 300, 400, 0.09F);
  AddHit(first, "lease", 400, 500, 0.01F);
  v1::Retrieval& later = *retrievals.Add();
  later.set_nothing(0.1F);
  AddHit(later, "lease", 100, 200, 0.5F);
  const auto passages = PassagesOf(retrievals);
  ASSERT_EQ(passages.size(), 2u) << "what weighs next to nothing is left out";
  EXPECT_EQ(passages[0].document, "lease");
  EXPECT_EQ(passages[0].begin, 100);
  EXPECT_EQ(passages[0].end, 300);
  EXPECT_FLOAT_EQ(passages[0].weight, 0.625F) << "of each block its largest weight";
  EXPECT_EQ(passages[1].document, "mail");
}

TEST(PassagesTest, WhatIsQuotedComesFirstWhateverItWeighs) {
  google::protobuf::RepeatedPtrField<v1::Retrieval> retrievals;
  v1::Retrieval& only = *retrievals.Add();
  only.set_nothing(0.1F);
  AddHit(only, "mail", 0, 90, 0.8F);
  AddHit(only, "lease", 0, 100, 0.0F);
  only.mutable_hits(1)->set_quote("12 May");
  const auto passages = PassagesOf(retrievals);
  ASSERT_EQ(passages.size(), 2u);
  EXPECT_EQ(passages[0].document, "lease");
  EXPECT_EQ(passages[0].quote, "12 May");
}

// `block` as it stands in `text`.
std::string Whole(const std::string& text, const std::string& block) {
  const size_t begin = text.find(block);
  return WholeSentences(text, begin, begin + block.size());
}

TEST(PassagesTest, SentencesAndLinesThatABlockCutsAreWhole) {
  const std::string text = "It is late. The station speaks 2.4 GHz only; no other. Unplug it.\n";
  EXPECT_EQ(Whole(text, "4 GHz only;"), "The station speaks 2.4 GHz only; no other.");
  EXPECT_EQ(Whole(text, " The station speaks 2.4 GHz only; no other."),
            "The station speaks 2.4 GHz only; no other.");
  EXPECT_EQ(Whole(text, "Unplug"), "Unplug it.");
  EXPECT_EQ(Whole("1012,paint,89.00\n1013,varnish,54.30\n1014,bit\n", "varnish,54."),
            "1013,varnish,54.30");
  EXPECT_EQ(Whole("no ends in here anywhere", "ends in"), "… ends in …");
}

TEST(PassagesTest, LinesAreBrokenBetweenWordsAndEmptyOnesLeftOut) {
  EXPECT_EQ(Wrapped("zwölf größe x\n\n y ", 11, "  "), "  zwölf\n  größe x\n  y\n");
  EXPECT_EQ(Wrapped("averylongword a", 5, ""), "averylongword\na\n");
  EXPECT_EQ(Wrapped("", 10, "  "), "");
}

}  // namespace
}  // namespace recollect::cli
