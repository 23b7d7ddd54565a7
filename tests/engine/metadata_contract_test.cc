// What every Engine does with metadata: where it comes from, what keeps it, and what it chooses.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_contract.h"

namespace recollect::engine {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kOld[] = R"({"year":1851})", kNew[] = R"({"year":2024})";
constexpr char kSince2000[] = R"({"type":"gte","key":"year","value":2000})";

class MetadataContractTest : public EngineContractTest {
 protected:
  absl::StatusOr<store::DocumentInfo> Put(const std::string& id, const std::string& text,
                                          const std::optional<std::string>& metadata,
                                          const std::optional<Replacement>& replacement = {}) {
    auto stream = engine_->BeginIngest(id, false, {}, {}, replacement, metadata);
    if (!stream.ok()) return stream.status();
    return SendText(**stream, text, 1 << 20);
  }
  std::string MetadataOf(const std::string& id) {
    const auto info = engine_->GetDocument(id);
    EXPECT_THAT(info, IsOk());
    return info.ok() ? info->metadata : "";
  }
  absl::StatusOr<std::vector<std::string>> Mounts(std::vector<std::string> names,
                                                  const std::string& filter) {
    const auto session = engine_->OpenSession({.mounts = std::move(names), .mount_filter = filter});
    if (!session.ok()) return session.status();
    return engine_->GetSession(*session)->mounts;
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, MetadataContractTest, ::testing::ValuesIn(kImplementations),
                         NameOf);

TEST_P(MetadataContractTest, ComesWithAnIngestAndStaysUntilOtherComes) {
  EXPECT_EQ(Put("d", "text", R"( {"year": 1851} )")->metadata, kOld);
  EXPECT_EQ(MetadataOf("d"), kOld);
  // The same content again: without metadata nothing changes.
  EXPECT_EQ(Put("d", "text", std::nullopt)->metadata, kOld);
  EXPECT_EQ(Put("d", "text", kNew)->metadata, kNew);
  EXPECT_EQ(MetadataOf("d"), kNew);
  EXPECT_THAT(Put("d", "other", kOld), StatusIs(StatusCode::kAlreadyExists, "d"));
  EXPECT_EQ(MetadataOf("d"), kNew);
  // A replacement keeps it, or brings other.
  EXPECT_EQ(Put("d", "other", std::nullopt, Replacement())->metadata, kNew);
  EXPECT_EQ(Put("d", "third", "{}", Replacement())->metadata, "");
  EXPECT_EQ(Put("e", "text", std::nullopt)->metadata, "");
}

TEST_P(MetadataContractTest, WhatIsNoneIsRefusedBeforeAnythingIsRead) {
  EXPECT_THAT(Put("d", "text", R"({"tags":["a"]})"),
              StatusIs(StatusCode::kInvalidArgument, "key \"tags\""));
  EXPECT_THAT(engine_->GetDocument("d"), StatusIs(StatusCode::kNotFound, "d"));
  ASSERT_THAT(Put("d", "text", kOld), IsOk());
  for (const MetadataChange change : {MetadataChange::kReplace, MetadataChange::kPatch}) {
    EXPECT_THAT(engine_->SetMetadata("d", R"({"tags":["a"]})", change),
                StatusIs(StatusCode::kInvalidArgument, "key \"tags\""));
    EXPECT_THAT(engine_->SetMetadata("moby", kNew, change),
                StatusIs(StatusCode::kNotFound, "moby"));
  }
  EXPECT_EQ(MetadataOf("d"), kOld);
}

TEST_P(MetadataContractTest, IsReplacedOrPatchedWithoutAnIngest) {
  const auto made = Put("d", "text", kOld);
  ASSERT_THAT(made, IsOk());
  const auto patched = engine_->SetMetadata("d", R"({"lang":"en"})", MetadataChange::kPatch);
  ASSERT_THAT(patched, IsOk());
  EXPECT_EQ(patched->metadata, R"({"lang":"en","year":1851})");
  EXPECT_EQ(patched->owner, made->owner);
  EXPECT_EQ(engine_->SetMetadata("d", R"({"year":null})", MetadataChange::kPatch)->metadata,
            R"({"lang":"en"})");
  EXPECT_EQ(engine_->SetMetadata("d", kNew, MetadataChange::kReplace)->metadata, kNew);
  EXPECT_EQ(engine_->SetMetadata("d", "{}", MetadataChange::kReplace)->metadata, "");
}

TEST_P(MetadataContractTest, ListsAreOfWhatMatches) {
  ASSERT_THAT(Put("a", "text", kOld), IsOk());
  ASSERT_THAT(Put("b", "text", kNew), IsOk());
  ASSERT_THAT(Put("c", "text", std::nullopt), IsOk());
  ASSERT_THAT(Put("d", "text", R"({"year":2000})"), IsOk());
  const auto ids = [&](const std::string& after, int64_t limit, DocumentSelection selection) {
    std::vector<std::string> found;
    const auto page = engine_->ListDocuments(after, limit, selection).value();
    for (const store::DocumentInfo& info : page) found.push_back(info.id);
    return found;
  };
  EXPECT_THAT(ids("", 10, {.filter = kSince2000}), ElementsAre("b", "d"));
  EXPECT_THAT(ids("", 1, {.filter = kSince2000}), ElementsAre("b"));
  EXPECT_THAT(ids("b", 1, {.filter = kSince2000}), ElementsAre("d"));
  EXPECT_THAT(ids("", 10, {.beginning = "d", .filter = kSince2000}), ElementsAre("d"));
  EXPECT_THAT(ids("", 10, {.filter = R"({"type":"ne","key":"year","value":1851})"}),
              ElementsAre("b", "c", "d"));
  EXPECT_THAT(ids("d", 10, {.filter = kSince2000}), IsEmpty());
  EXPECT_THAT(engine_->ListDocuments("", 10, {.filter = "{}"}),
              StatusIs(StatusCode::kInvalidArgument, "filter: type is missing"));
}

TEST_P(MetadataContractTest, AMountFilterChoosesAmongWhatWildcardsFind) {
  ASSERT_THAT(Put("notes/a", "text", kOld), IsOk());
  ASSERT_THAT(Put("notes/b", "text", kNew), IsOk());
  ASSERT_THAT(Put("other", "text", std::nullopt), IsOk());
  EXPECT_THAT(*Mounts({"notes/*"}, kSince2000), ElementsAre("notes/b"));
  EXPECT_THAT(*Mounts({"other", "*"}, kSince2000), ElementsAre("other", "notes/b"));
  EXPECT_THAT(Mounts({"notes/*"}, R"({"type":"eq","key":"year","value":"2024"})"),
              StatusIs(StatusCode::kNotFound, "\"notes/\" and metadata that matches mount_filter"));
  EXPECT_THAT(Mounts({"other"}, kSince2000),
              StatusIs(StatusCode::kInvalidArgument, "mount_filter: set, but no entry of mounts"));
  EXPECT_THAT(Mounts({"notes/*"}, R"({"type":"eq"})"),
              StatusIs(StatusCode::kInvalidArgument, "mount_filter: key is missing"));
  GenerateRequest request = Ask(1, {"notes/*"});
  request.session_options.mount_filter = kSince2000;
  request.with_retrievals = true;
  const Generated generated = Generate(*engine_, request);
  ASSERT_THAT(generated.status, IsOk());
  for (const Retrieval& retrieval : generated.retrievals) {
    for (const Hit& hit : retrieval.hits)
      EXPECT_THAT(hit.document, ::testing::AnyOf("notes/b", ""));
  }
  request.session_options.mount_filter = "x";
  EXPECT_THAT(Generate(*engine_, request).status,
              StatusIs(StatusCode::kInvalidArgument, "mount_filter: not JSON"));
}

TEST_P(MetadataContractTest, ASessionKeepsWhatItMountedWhenMetadataChanges) {
  ASSERT_THAT(Put("a", "text", kNew), IsOk());
  ASSERT_THAT(Put("b", "text", kOld), IsOk());
  const auto session = engine_->OpenSession({.mounts = {"*"}, .mount_filter = kSince2000});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(engine_->SetMetadata("a", kOld, MetadataChange::kReplace), IsOk());
  ASSERT_THAT(engine_->SetMetadata("b", kNew, MetadataChange::kReplace), IsOk());
  EXPECT_THAT(engine_->GetSession(*session)->mounts, ElementsAre("a"));
  GenerateRequest request = Ask(1);
  request.session = *session;
  EXPECT_THAT(Generate(*engine_, request).status, IsOk());
  EXPECT_THAT(*Mounts({"*"}, kSince2000), ElementsAre("b"));
}

TEST_P(MetadataContractTest, AFileHasItAsItIsNow) {
  ASSERT_THAT(Put("a", "text", kOld), IsOk());
  const auto session = engine_->OpenSession({.mounts = {"a"}});  // has pinned it as it was
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(engine_->SetMetadata("a", kNew, MetadataChange::kReplace), IsOk());
  const auto out = engine_->ExportDocument("a");
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)->document().metadata, kNew);
  std::string file;
  for (std::string bytes = (*out)->Next().value(); !bytes.empty(); bytes = (*out)->Next().value())
    file += bytes;
  const auto in = engine_->ImportDocument("b");
  ASSERT_THAT(in, IsOk());
  ASSERT_THAT((*in)->Append(file), IsOk());
  EXPECT_EQ((*in)->Finish()->metadata, kNew);
  EXPECT_EQ(MetadataOf("b"), kNew);
}

}  // namespace
}  // namespace recollect::engine
