// The part of the suite over the engine and its fake that is about streams which write documents.
#include <future>

#include "base/sha256.h"
#include "tests/engine/engine_contract.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class IngestContractTest : public EngineContractTest {};

INSTANTIATE_TEST_SUITE_P(Engines, IngestContractTest, ::testing::ValuesIn(kImplementations),
                         NameOf);

TEST_P(IngestContractTest, ADocumentIsListedOnceItIsFinished) {
  auto stream = Begin("d");
  EXPECT_THAT(engine_->GetDocument("d"), StatusIs(StatusCode::kNotFound, "d"));
  EXPECT_THAT(*engine_->ListIngests(), SizeIs(1));
  const std::string text = SampleText(3000, 1);
  const auto info = SendText(*stream, text, 700);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->bytes, std::ssize(text));
  EXPECT_GT(info->tokens, 0);
  EXPECT_GT(info->chunks, 0);
  EXPECT_EQ(engine_->GetDocument("d")->owner, info->owner);
  EXPECT_EQ(engine_->ReadText("d", 0, info->bytes).value(), text);
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
  EXPECT_THAT(*engine_->ListDocuments("", 10), SizeIs(1));
}

TEST_P(IngestContractTest, GapsAndOverlapsNameBothOffsetsAndChangeNothing) {
  const auto stream = Begin("d");
  EXPECT_THAT(Append(*stream, 7, "late"),
              StatusIs(StatusCode::kInvalidArgument, "piece.offset: 7, expected 0"));
  EXPECT_EQ(Append(*stream, 0, "the whale")->accepted_offset, 9);
  EXPECT_THAT(Append(*stream, 10, "gap"),
              StatusIs(StatusCode::kInvalidArgument, "piece.offset: 10, expected 9"));
  EXPECT_THAT(Append(*stream, 4, "overlap"),
              StatusIs(StatusCode::kInvalidArgument, "piece.offset: 4, expected 9"));
  EXPECT_THAT(Append(*stream, -1, ""), StatusIs(StatusCode::kInvalidArgument, "-1"));
  EXPECT_EQ(stream->status().accepted_offset, 9);
  EXPECT_THAT(Append(*stream, 9, ""), IsOk());
  EXPECT_EQ(Append(*stream, 9, " swims")->accepted_offset, 15);
  ASSERT_THAT(Finish(*stream), IsOk());
  EXPECT_EQ(engine_->ReadText("d", 0, 15).value(), "the whale swims");
}

TEST_P(IngestContractTest, PiecesMayFollowFromTheAnswersToOthers) {
  const auto stream = Begin("d");
  std::promise<absl::StatusOr<store::DocumentInfo>> info;
  stream->Append(0, "one ", [&](const auto& first) {
    EXPECT_THAT(first, IsOk());
    stream->Append(4, "two", [&](const auto& second) {
      EXPECT_THAT(second, IsOk());
      stream->Finish([&](const auto& finished) { info.set_value(finished); });
    });
  });
  EXPECT_EQ(info.get_future().get()->bytes, 7);
}

TEST_P(IngestContractTest, ADocumentWithoutTokensIsRefusedAndLeavesNothing) {
  for (const bool from_tokens : {false, true}) {
    auto stream = Begin("d", from_tokens);
    EXPECT_THAT(Finish(*stream), StatusIs(StatusCode::kInvalidArgument, "no tokens"));
    stream = nullptr;
    EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
  }
  EXPECT_THAT(Ingest(*engine_, "d", "text"), IsOk());
}

TEST_P(IngestContractTest, TextIsUtf8AcrossPieces) {
  EXPECT_THAT(Ingest(*engine_, "d", "caf\xc3\xa9 \xe2\x80\x94 \xf0\x9f\x90\x8b", 1), IsOk());
  EXPECT_THAT(Ingest(*engine_, "e", "caf\xc3("), StatusIs(StatusCode::kInvalidArgument, "byte 3"));
  EXPECT_THAT(Ingest(*engine_, "e", "cut \xe2\x80"),
              StatusIs(StatusCode::kInvalidArgument, "byte 4"));
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
}

TEST_P(IngestContractTest, IdsAreShortAndPrintable) {
  for (const std::string& id : {std::string(), std::string(257, 'x'), std::string("a\nb"),
                                std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_THAT(engine_->BeginIngest(id, false, {}), StatusIs(StatusCode::kInvalidArgument, "id"));
  }
  EXPECT_THAT(Ingest(*engine_, std::string(256, 'x'), "text"), IsOk());
  EXPECT_THAT(Ingest(*engine_, "caf\xc3\xa9 / 1", "text"), IsOk());
}

TEST_P(IngestContractTest, OneStreamWritesADocument) {
  auto first = Begin("d");
  EXPECT_THAT(engine_->BeginIngest("d", false, {}), StatusIs(StatusCode::kAborted, "d"));
  EXPECT_THAT(Ingest(*engine_, "other", "text"), IsOk());
  first = nullptr;
  EXPECT_THAT(Ingest(*engine_, "d", "text"), IsOk()) << "free once the stream has gone";
}

TEST_P(IngestContractTest, AReplacementIsSeenWhenItIsWhole) {
  const std::string old = SampleText(2000, 1), text = SampleText(3000, 2);
  ASSERT_THAT(Ingest(*engine_, "d", old), IsOk());
  const SessionId before = engine_->OpenSession({.mounts = {"d"}}).value();
  const auto replace = [&](const std::string& sha256) {
    return engine_->BeginIngest("d", false, {}, {}, Replacement{sha256});
  };
  EXPECT_THAT(replace(Sha256Hex("other")), StatusIs(StatusCode::kFailedPrecondition, "SHA-256"));
  {
    const auto broken = replace(Sha256Hex(old)).value();
    ASSERT_THAT(Append(*broken, 0, text.substr(0, 1500)), IsOk());
    EXPECT_THAT(replace(""), StatusIs(StatusCode::kAborted, "d")) << "one at a time";
  }
  EXPECT_EQ(engine_->ReadText("d", 0, std::ssize(old)).value(), old);
  const auto stream = replace("").value();
  EXPECT_EQ(stream->status().committed_offset, 0) << "from the beginning again";
  ASSERT_THAT(Append(*stream, 0, text), IsOk());
  EXPECT_EQ(engine_->ReadText("d", 0, std::ssize(old)).value(), old);
  ASSERT_THAT(Finish(*stream), IsOk());
  EXPECT_EQ(engine_->ReadText("d", 0, std::ssize(text)).value(), text);
  EXPECT_EQ(engine_->GetDocument("d")->sha256, Sha256Hex(text));
  EXPECT_THAT(*engine_->ListDocuments("", 10), SizeIs(1));
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
  GenerateRequest request;
  request.session = before;  // still reads the old one
  request.prompt.text = "the whale";
  request.max_tokens = 1;
  EXPECT_THAT(Generate(*engine_, request).status, IsOk());
}

TEST_P(IngestContractTest, AReplacementOfNothingIsADocument) {
  auto stream = engine_->BeginIngest("d", false, {}, {}, Replacement()).value();
  ASSERT_THAT(SendText(*stream, "the whale swims", 100), IsOk());
  stream = nullptr;
  EXPECT_THAT(engine_->BeginIngest("e", false, {}, {}, Replacement{Sha256Hex("x")}),
              StatusIs(StatusCode::kFailedPrecondition, "e"));
}

TEST_P(IngestContractTest, AnAppendIsSeenWhenItIsWhole) {
  const std::string old = SampleText(2000, 1), more = SampleText(3000, 2), text = old + more;
  ASSERT_THAT(Ingest(*engine_, "d", old), IsOk());
  const SessionId before = engine_->OpenSession({.mounts = {"d"}}).value();
  const auto append = [&](const std::string& sha256, const std::string& id = "d") {
    return engine_->BeginIngest(id, false, {}, {}, Replacement{.sha256 = sha256, .appends = true});
  };
  EXPECT_THAT(append(Sha256Hex("other")), StatusIs(StatusCode::kFailedPrecondition, "SHA-256"));
  {
    const auto broken = append(Sha256Hex(old)).value();
    EXPECT_THAT(Append(*broken, 7, "late"),
                StatusIs(StatusCode::kInvalidArgument, "piece.offset: 7, expected 0"));
    ASSERT_THAT(Append(*broken, 0, more.substr(0, 1500)), IsOk());
    EXPECT_THAT(append(""), StatusIs(StatusCode::kAborted, "d")) << "one at a time";
  }
  EXPECT_EQ(engine_->ReadText("d", 0, std::ssize(old)).value(), old);
  auto stream = append("").value();
  EXPECT_EQ(stream->status().committed_offset, 0) << "nothing is kept of the one before";
  EXPECT_EQ(Append(*stream, 0, more.substr(0, 700))->accepted_offset, 700);
  EXPECT_EQ(Append(*stream, 700, more.substr(700))->accepted_offset, std::ssize(more));
  EXPECT_EQ(engine_->GetDocument("d")->bytes, std::ssize(old));
  const auto info = Finish(*stream);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->bytes, std::ssize(text));
  EXPECT_EQ(info->sha256, Sha256Hex(text));
  EXPECT_TRUE(engine_->ReadText("d", 0, std::ssize(text)).value() == text);
  EXPECT_THAT(*engine_->ListDocuments("", 10), SizeIs(1));
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
  GenerateRequest request;
  request.session = before;  // still reads the old one
  request.prompt.text = "the whale";
  request.max_tokens = 1;
  EXPECT_THAT(Generate(*engine_, request).status, IsOk());
  stream = append("", "new").value();
  ASSERT_THAT(SendText(*stream, "the whale swims", 100), IsOk()) << "to nothing";
  EXPECT_THAT(append(Sha256Hex("x"), "none"), StatusIs(StatusCode::kFailedPrecondition, "none"));
}

TEST_P(IngestContractTest, ADocumentThatIsDeletedMeanwhileIsNotAppendedTo) {
  ASSERT_THAT(Ingest(*engine_, "d", SampleText(2000, 1)), IsOk());
  const auto stream =
      engine_->BeginIngest("d", false, {}, {}, Replacement{.appends = true}).value();
  ASSERT_THAT(Append(*stream, 0, "more"), IsOk());
  ASSERT_THAT(engine_->DeleteDocument("d"), IsOk());
  EXPECT_THAT(Finish(*stream), StatusIs(StatusCode::kFailedPrecondition, ""));
  EXPECT_THAT(engine_->GetDocument("d"), StatusIs(StatusCode::kNotFound, "d"));
}

TEST_P(IngestContractTest, TheSameContentAgainSucceedsAndOtherContentDoesNot) {
  const std::string text = SampleText(2000, 1);
  const auto first = Ingest(*engine_, "d", text);
  ASSERT_THAT(first, IsOk());
  const auto one = Begin("d"), two = Begin("d");  // nobody writes
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
  EXPECT_EQ(one->status().committed_offset, 0);
  for (IngestStream* const stream : {one.get(), two.get()}) {
    const auto again = SendText(*stream, text, 333);
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->owner, first->owner);
  }
  std::string changed = text;
  changed[1234] ^= 1;
  const std::string shorter = text.substr(0, 1000), longer = text + "!";
  for (const std::string& other : {changed, shorter, longer, std::string()}) {
    EXPECT_THAT(Ingest(*engine_, "d", other), StatusIs(StatusCode::kAlreadyExists, "d"));
  }
  EXPECT_THAT(IngestTokens(*engine_, "d", {5}), StatusIs(StatusCode::kAlreadyExists, "d"));
  EXPECT_EQ(engine_->ReadText("d", 0, first->bytes).value(), text);
}

TEST_P(IngestContractTest, WhatWasCommittedIsResumed) {
  const std::string text = SampleText(20000, 2);
  auto stream = Begin("d");
  EXPECT_EQ(stream->status().committed_sha256, "");
  ASSERT_THAT(Append(*stream, 0, text.substr(0, 15000)), IsOk());
  stream = nullptr;
  stream = Begin("d");
  const IngestStatus status = stream->status();
  EXPECT_GT(status.committed_offset, 0);
  EXPECT_LE(status.committed_offset, 15000);
  EXPECT_EQ(status.accepted_offset, status.committed_offset);
  Sha256 read;
  read.Update(absl::string_view(text).substr(0, static_cast<size_t>(status.committed_offset)));
  EXPECT_EQ(status.committed_sha256, read.Hex());
  const auto ingests = engine_->ListIngests();
  ASSERT_THAT(*ingests, SizeIs(1));
  EXPECT_EQ((*ingests)[0].id, "d");
  EXPECT_EQ((*ingests)[0].input_offset, status.committed_offset);
  ASSERT_THAT(SendText(*stream, text, 1000), IsOk());
  EXPECT_EQ(engine_->ReadText("d", 0, std::ssize(text)).value(), text);
  stream = nullptr;
  EXPECT_THAT(engine_->DeleteDocument("d"), IsOk());
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
}

TEST_P(IngestContractTest, WhatIsEncodedIsCommittedWhenAskedFor) {
  const std::string text = SampleText(20000, 3);
  auto stream = Begin("d");
  EXPECT_EQ(Commit(*stream)->committed_offset, 0);
  ASSERT_THAT(Append(*stream, 0, text.substr(0, 10001)), IsOk());
  const auto committed = Commit(*stream);
  ASSERT_THAT(committed, IsOk());
  EXPECT_GT(committed->committed_offset, 5000);
  EXPECT_EQ(committed->accepted_offset, 10001);
  EXPECT_EQ(engine_->ListIngests()->front().input_offset, committed->committed_offset);
  ASSERT_THAT(Append(*stream, 10001, text.substr(10001, 5000)), IsOk());
  const auto more = Commit(*stream);
  EXPECT_GT(more->committed_offset, committed->committed_offset);
  stream = nullptr;
  stream = Begin("d");
  EXPECT_EQ(stream->status().committed_offset, more->committed_offset);
  ASSERT_THAT(SendText(*stream, text, 1000), IsOk());
  EXPECT_THAT(Commit(*stream).status(), ::testing::Not(IsOk())) << "it is published";
  EXPECT_EQ(engine_->ReadText("d", 0, std::ssize(text)).value(), text);

  const auto again = Begin("d");  // nothing is written
  ASSERT_THAT(Append(*again, 0, text.substr(0, 100)), IsOk());
  EXPECT_EQ(Commit(*again)->accepted_offset, 100);
  EXPECT_THAT(engine_->DeleteDocument("d"), IsOk());
}

TEST_P(IngestContractTest, TokensAreHashedAsNumbers) {
  const std::vector<int32_t> tokens = SampleTokens(2000, 4);
  std::vector<int32_t> small;  // that are tokens of both
  for (const int32_t token : tokens) small.push_back(3 + token % 100);
  auto stream = Begin("d", /*from_tokens=*/true);
  ASSERT_THAT(AppendTokens(*stream, 0, small), IsOk());
  stream = nullptr;
  stream = Begin("d", /*from_tokens=*/true);
  const IngestStatus status = stream->status();
  EXPECT_GT(status.committed_offset, 0);
  Sha256 read;
  read.Update({reinterpret_cast<const char*>(small.data()),
               static_cast<size_t>(status.committed_offset) * sizeof(int32_t)});
  EXPECT_EQ(status.committed_sha256, read.Hex());
  stream = nullptr;
  EXPECT_THAT(engine_->BeginIngest("d", /*from_tokens=*/false, {}),
              StatusIs(StatusCode::kFailedPrecondition, "token ids"));
}

TEST_P(IngestContractTest, AStreamThatCommittedNothingLeavesNothing) {
  auto stream = Begin("d", /*from_tokens=*/true);
  ASSERT_THAT(AppendTokens(*stream, 0, {5}), IsOk());
  stream = nullptr;
  // The id takes input of another kind.
  stream = Begin("d");
  EXPECT_EQ(stream->status().committed_offset, 0);
  EXPECT_THAT(SendText(*stream, "text", 10), IsOk());
}

TEST_P(IngestContractTest, ADeleteEndsTheStreamAndFreesTheId) {
  auto stream = Begin("d");
  ASSERT_THAT(Append(*stream, 0, SampleText(9000, 2)), IsOk());
  EXPECT_THAT(engine_->DeleteDocument("d"), IsOk());
  EXPECT_THAT(*engine_->ListIngests(), IsEmpty());
  const auto next = Begin("d");
  EXPECT_EQ(next->status().committed_offset, 0);
  EXPECT_THAT(Append(*stream, stream->status().accepted_offset, "more"),
              StatusIs(StatusCode::kFailedPrecondition, "deleted"));
  EXPECT_THAT(Finish(*stream), StatusIs(StatusCode::kFailedPrecondition, "deleted"));
  stream = nullptr;  // leaves the other alone
  EXPECT_THAT(engine_->BeginIngest("d", false, {}), StatusIs(StatusCode::kAborted, ""));
  EXPECT_THAT(SendText(*next, "text", 10), IsOk());
}

TEST_P(IngestContractTest, OnePeerLeavesTheLastQuarterOfIngestsToOthers) {
  Make(/*max_sessions=*/1, /*max_ingests=*/8);
  std::vector<std::unique_ptr<IngestStream>> open;
  const auto begin = [&](const std::string& peer) {
    auto stream =
        engine_->BeginIngest("d" + std::to_string(open.size()), false, {}, {.peer = peer});
    if (stream.ok()) open.push_back(*std::move(stream));
    return stream.status();
  };
  for (int i = 0; i < 6; ++i) ASSERT_THAT(begin("10.0.0.1"), IsOk());
  EXPECT_THAT(begin("10.0.0.1"), StatusIs(StatusCode::kResourceExhausted, "6 ingests of 10.0.0.1"));
  EXPECT_THAT(begin("10.0.0.2"), IsOk());
  EXPECT_THAT(begin(""), IsOk());
  EXPECT_THAT(begin("10.0.0.2"), StatusIs(StatusCode::kResourceExhausted, "8 ingests"));
}

}  // namespace
}  // namespace recollect::engine
