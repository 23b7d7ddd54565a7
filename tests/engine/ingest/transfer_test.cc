// Documents of one engine in another: the same tokens, without reading them again.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/cpu_model.h"
#include "store/document_transfer.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_model.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

std::string File(Engine& engine, const std::string& id) {
  const auto stream = engine.ExportDocument(id);
  EXPECT_THAT(stream, IsOk());
  std::string file;
  while (stream.ok()) {
    const auto bytes = (*stream)->Next();
    EXPECT_THAT(bytes, IsOk());
    if (!bytes.ok() || bytes->empty()) break;
    file += *bytes;
  }
  return file;
}

absl::StatusOr<store::DocumentInfo> Import(Engine& engine, const std::string& file,
                                           const std::string& id = "") {
  const auto stream = engine.ImportDocument(id);
  RETURN_IF_ERROR(stream.status());
  RETURN_IF_ERROR((*stream)->Append(file));
  return (*stream)->Finish();
}

TEST(TransferTest, AnImportedDocumentGivesTheSameTokens) {
  const auto engine = MakeEngine(), other = MakeEngine();
  ASSERT_THAT(Ingest(*engine, "book", SampleText(20000, 1)), IsOk());
  const std::string file = File(*engine, "book");
  const auto imported = Import(*other, file, "copy");
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(imported->fingerprint, engine->GetDocument("book")->fingerprint);
  EXPECT_EQ(other->stats().ingested_tokens, 0);
  const auto tokens = [](Engine& asked, const std::string& id) {
    return Generate(asked, TokensRequest(SampleTokens(100, 9), 80, {id})).tokens;
  };
  const auto expected = tokens(*engine, "book");
  ASSERT_EQ(expected.size(), 80u);
  EXPECT_EQ(tokens(*other, "copy"), expected);
  // Ingesting the same text under its name is a success, as with any document.
  EXPECT_THAT(Ingest(*other, "copy", SampleText(20000, 1)), IsOk());
}

TEST(TransferTest, AnImportedPrefixGivesTheSameTokens) {
  const std::string directory = ::testing::TempDir() + "/transfer_ratplus";
  WriteTinyModel(directory, TinyRatPlusConfig(), 3);
  const std::shared_ptr<const model::CpuModel> model = *model::CpuModel::Load(directory);
  const auto engine = MakeEngine(SmallOptions(), nullptr, model);
  const auto other = MakeEngine(SmallOptions(), nullptr, model);
  ASSERT_THAT(IngestTokens(*engine, "p", SampleTokens(700, 2)), IsOk());
  ASSERT_THAT(Import(*other, File(*engine, "p")), IsOk());
  const auto tokens = [](Engine& asked) {
    return Generate(asked, TokensRequest(SampleTokens(20, 9), 40, {"p"})).tokens;
  };
  ASSERT_EQ(tokens(*engine).size(), 40u);
  EXPECT_EQ(tokens(*other), tokens(*engine));
}

TEST(TransferTest, AnotherModelsDocumentIsRefused) {
  const auto engine = MakeEngine();
  const auto other = MakeEngine(SmallOptions(), nullptr, TinyModelForTest(2));
  ASSERT_THAT(Ingest(*engine, "book", SampleText(2000, 1)), IsOk());
  const absl::Status status = Import(*other, File(*engine, "book")).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  for (const Engine* each : {static_cast<Engine*>(engine.get()), static_cast<Engine*>(other.get())})
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(each->model().fingerprint())));
}

TEST(TransferTest, ExportReadsOnWhenTheDocumentIsDeleted) {
  const auto engine = MakeEngine();
  ASSERT_THAT(Ingest(*engine, "book", SampleText(60000, 1)), IsOk());
  const std::string whole = File(*engine, "book");
  std::string file;
  {
    const auto stream = engine->ExportDocument("book");
    ASSERT_THAT(stream, IsOk());
    file = (*stream)->Next().value();
    ASSERT_LT(file.size(), whole.size());
    ASSERT_THAT(engine->DeleteDocument("book"), IsOk());
    while (true) {
      const std::string bytes = (*stream)->Next().value();
      if (bytes.empty()) break;
      file += bytes;
    }
  }
  EXPECT_TRUE(file == whole);
  EXPECT_THAT(engine->ExportDocument("book"), StatusIs(StatusCode::kNotFound, "book"));
  EXPECT_THAT(Import(*engine, file), IsOk());
}

TEST(TransferTest, OneWritesAnIdAtATime) {
  const auto engine = MakeEngine();
  ASSERT_THAT(Ingest(*engine, "book", SampleText(2000, 1)), IsOk());
  const std::string file = File(*engine, "book");
  {
    const auto ingest = engine->BeginIngest("x", /*from_tokens=*/true, {});
    ASSERT_THAT(ingest, IsOk());
    EXPECT_THAT(Import(*engine, file, "x"), StatusIs(StatusCode::kAborted, "\"x\""));
    ASSERT_THAT(engine->DeleteDocument("x"), IsOk());
  }
  {
    const auto import = engine->ImportDocument("y");
    ASSERT_THAT(import, IsOk());
    ASSERT_THAT((*import)->Append(file), IsOk());
    EXPECT_THAT(engine->BeginIngest("y", true, {}), StatusIs(StatusCode::kAborted, "imported"));
    EXPECT_THAT(Import(*engine, file, "y"), StatusIs(StatusCode::kAborted, "imported"));
    // There is nothing yet that could be deleted.
    EXPECT_THAT(engine->DeleteDocument("y"), StatusIs(StatusCode::kNotFound, "y"));
  }
  EXPECT_THAT(Import(*engine, file, "y"), IsOk());
  EXPECT_THAT(Import(*engine, file, "y"), StatusIs(StatusCode::kAlreadyExists, "y"));
}

TEST(TransferTest, ImportsTakePlacesOfIngests) {
  TestOptions options = SmallOptions();
  options.max_ingests = 2;
  const auto engine = MakeEngine(options);
  const auto first = engine->ImportDocument("a");
  auto second = engine->ImportDocument("b");
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(engine->ImportDocument("c"), StatusIs(StatusCode::kResourceExhausted, "at most 2"));
  EXPECT_THAT(engine->BeginIngest("c", true, {}),
              StatusIs(StatusCode::kResourceExhausted, "at most 2"));
  second->reset();
  EXPECT_THAT(engine->BeginIngest("c", true, {}), IsOk());
}

TEST(TransferTest, WhoImportsIsAskedForTheIdThatItGets) {
  const auto engine = MakeEngine();
  ASSERT_THAT(Ingest(*engine, "book", SampleText(2000, 1)), IsOk());
  const std::string file = File(*engine, "book");
  std::vector<std::string> asked;
  const auto import = [&](const std::string& id) {
    const auto stream = engine->ImportDocument(id, {}, [&](const std::string& name) {
      asked.push_back(name);
      return absl::PermissionDeniedError("not that one");
    });
    EXPECT_THAT(stream, IsOk());
    return (*stream)->Append(file);
  };
  // First of all: it does not learn whether there is such a document.
  EXPECT_THAT(import(""), StatusIs(StatusCode::kPermissionDenied, "not that one"));
  EXPECT_THAT(import("copy"), StatusIs(StatusCode::kPermissionDenied, "not that one"));
  EXPECT_THAT(asked, testing::ElementsAre("book", "copy"));
  EXPECT_THAT(engine->GetDocument("copy"), StatusIs(StatusCode::kNotFound, "copy"));
}

TEST(TransferTest, TextThatNoIngestWouldTakeIsRefused) {
  const auto engine = MakeEngine();
  const auto store = store::CreateMemoryStore();
  const auto file = [&](const std::string& id, const std::string& text) {
    const auto ingest =
        store->BeginIngest(id, std::string(engine->model().fingerprint()), false, "");
    EXPECT_THAT(ingest, IsOk());
    store::IngestBatch batch;
    const model::ModelConfig& config = engine->model().config();
    batch.text = text;
    batch.tokens = {5};
    store::ChunkRecord& chunk = batch.chunks.emplace_back();
    chunk.rows = 1;
    chunk.text_end = 1;
    chunk.states.resize(static_cast<size_t>(config.d));
    if (config.pointer.reach > 0) chunk.tokens = {5};
    batch.landmark_keys.resize(static_cast<size_t>(config.key_width()));
    const auto document = store->PublishIngest(ingest->owner, batch);
    EXPECT_THAT(document, IsOk());
    store::DocumentExport out(*store, *document, config.key_width());
    return out.Next().value();
  };
  EXPECT_THAT(Import(*engine, file("bad", "abc\xff")),
              StatusIs(StatusCode::kInvalidArgument, "not valid UTF-8 at byte 3"));
  EXPECT_THAT(engine->GetDocument("bad"), StatusIs(StatusCode::kNotFound, "bad"));
  EXPECT_THAT(Import(*engine, file("good", "abc\xc3\xbc")), IsOk());
}

TEST(TransferTest, WrongUseIsRefused) {
  const auto engine = MakeEngine();
  EXPECT_THAT(engine->ImportDocument("a,b"), StatusIs(StatusCode::kInvalidArgument, "id"));
  const auto import = engine->ImportDocument("");
  ASSERT_THAT(import, IsOk());
  EXPECT_THAT((*import)->Append("something else"),
              StatusIs(StatusCode::kInvalidArgument, "begins"));
  // An error stays.
  EXPECT_THAT((*import)->Append("RECOLDOC"), StatusIs(StatusCode::kInvalidArgument, "begins"));
  EXPECT_THAT((*import)->Finish(), StatusIs(StatusCode::kInvalidArgument, "begins"));
  engine->Shutdown(absl::InfinitePast());
  EXPECT_THAT(engine->ImportDocument("a"), StatusIs(StatusCode::kUnavailable, ""));
  EXPECT_THAT(engine->ExportDocument("a"), StatusIs(StatusCode::kUnavailable, ""));
}

}  // namespace
}  // namespace recollect::engine
