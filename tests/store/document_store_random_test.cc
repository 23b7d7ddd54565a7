// Random operations on every implementation of DocumentStore and on maps beside it, which agree.
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/document_store.h"
#include "tests/store/document_store_testing.h"

namespace recollect::store {
namespace {

using ::absl::StatusCode;

class RandomOperationsTest : public DocumentStoreTest {
 protected:
  struct Known {
    OwnerId owner;
    Content content;
  };

  uint64_t Draw(uint64_t n) { return random_() % n; }
  template <typename Map>
  auto Pick(Map& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(Draw(map.size())));
  }

  // One operation, the likelier the more numbers it has here.
  void Step(const std::string& id) {
    switch (Draw(13)) {
      case 0:
      case 1:
        return Begin(id);
      case 2:
      case 3:
      case 4:
      case 5:
        return Commit();
      case 6:
        return Publish();
      case 7:
        return Abandon(id);
      case 8:
        return Remove(id);
      case 9:
        return Free();
      case 10:
        return PutSessionChunk();
      case 11:
        return ReadSession();
      default:
        return Reopen();
    }
  }

  void Begin(const std::string& id) {
    const auto progress = store_->BeginIngest(id, "f", false, "");
    if (published_.contains(id)) {
      EXPECT_THAT(progress, StatusIs(StatusCode::kAlreadyExists, id));
      return;
    }
    ASSERT_THAT(progress, IsOk());
    auto [it, fresh] = ingests_.try_emplace(id, Known{progress->owner, Content{.seed = random_()}});
    EXPECT_EQ(progress->owner, it->second.owner);
    EXPECT_EQ(progress->resume_state, it->second.content.resume_state);
    EXPECT_EQ(progress->input_offset, it->second.content.input_offset);
  }

  void Commit() {
    if (ingests_.empty()) return;
    Known& known = Pick(ingests_)->second;
    const IngestBatch batch = NextBatch(known.content, Draw(20), Draw(5000), Draw(30000));
    ASSERT_THAT(store_->CommitIngest(known.owner, batch), IsOk());
    Append(&known.content, batch);
  }

  void Publish() {
    if (ingests_.empty()) return;
    const auto it = Pick(ingests_);
    const IngestBatch batch = NextBatch(it->second.content, Draw(3), 5, 5);
    ASSERT_THAT(store_->PublishIngest(it->second.owner, batch), IsOk());
    Append(&it->second.content, batch);
    published_.insert(ingests_.extract(it));
  }

  void Abandon(const std::string& id) {
    const auto status = store_->AbandonIngest(id);
    EXPECT_EQ(status.ok(), ingests_.erase(id) == 1) << status;
  }

  void Remove(const std::string& id) {
    const auto info = store_->Remove(id);
    EXPECT_EQ(info.ok(), published_.contains(id));
    if (info.ok()) removed_.push_back(std::move(published_.extract(id).mapped()));
  }

  void Free() {
    if (removed_.empty()) return;
    ASSERT_THAT(store_->Free(removed_.back().owner), IsOk());
    EXPECT_FALSE(store_->ReadText(removed_.back().owner, 0, 0).ok());
    removed_.pop_back();
  }

  void PutSessionChunk() {
    if (sessions_.empty() || Draw(4) == 0) {
      const auto owner = store_->NewSessionOwner();
      ASSERT_THAT(owner, IsOk());
      EXPECT_TRUE(sessions_.try_emplace(*owner).second);
    }
    auto& [owner, chunks] = *Pick(sessions_);
    const auto index = static_cast<int64_t>(Draw(50));
    const uint64_t seed = random_();
    ASSERT_THAT(store_->PutSessionChunk({owner, index}, MakeChunk(seed, index)), IsOk());
    chunks[index] = seed;
  }

  void ReadSession() {
    if (sessions_.empty()) return;
    const auto it = Pick(sessions_);
    for (const auto& [index, seed] : it->second) {
      const ChunkRef ref{it->first, index};
      const auto chunk = store_->ReadChunks({&ref, 1})[0];
      ASSERT_THAT(chunk, IsOk());
      EXPECT_TRUE(*chunk == MakeChunk(seed, index));
    }
    if (Draw(3) != 0) return;
    ASSERT_THAT(store_->FreeSession(it->first), IsOk());
    sessions_.erase(it);
  }

  // What was removed and what sessions kept is gone then.
  void Reopen() {
    if (!GetParam().reopens || Draw(3) != 0) return;
    ASSERT_NO_FATAL_FAILURE(Open());
    for (const Known& known : removed_) EXPECT_FALSE(store_->ReadText(known.owner, 0, 0).ok());
    removed_.clear();
    sessions_.clear();
  }

  void ExpectAgreement() {
    const auto list = store_->List("", 100);
    ASSERT_THAT(list, IsOk());
    EXPECT_EQ(list->size(), published_.size());
    EXPECT_EQ(store_->ListIngests()->size(), ingests_.size());
    for (const auto& [name, known] : published_) ExpectContent(*store_, known.owner, known.content);
    for (const auto& [name, known] : ingests_) ExpectContent(*store_, known.owner, known.content);
    for (const Known& known : removed_) ExpectContent(*store_, known.owner, known.content);
  }

  std::mt19937_64 random_{20240607};
  std::map<std::string, Known> ingests_, published_;
  std::vector<Known> removed_;
  std::map<OwnerId, std::map<int64_t, uint64_t>> sessions_;
};

INSTANTIATE_TEST_SUITE_P(Stores, RandomOperationsTest, testing::ValuesIn(kImplementations), NameOf);

TEST_P(RandomOperationsTest, AgreeWithMaps) {
  constexpr int kSteps = 600;
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    Step(absl::StrCat("doc", Draw(6)));
    if (step % 20 == 19 && !HasFailure()) ExpectAgreement();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace recollect::store
