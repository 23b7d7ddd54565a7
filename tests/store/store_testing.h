// Helpers of the store's tests: made-up documents, comparisons, directories.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numeric/mxint8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/document_store.h"
#include "tests/support/status_matchers.h"

namespace recollect::store {

// Returns a number from the environment: how long, or with what, a test runs.
inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

// A directory that is removed when the object is destroyed.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "recollect.XXXXXX").string();
    RECOLLECT_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline int64_t DirectoryBytes(const std::string& path) {
  int64_t total = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::recursive_directory_iterator(path, ignored)) {
    if (file.is_regular_file(ignored)) {
      const auto size = file.file_size(ignored);
      if (!ignored) total += static_cast<int64_t>(size);
    }
  }
  return total;
}

// Gives a chunk states of MXINT8, of magnitudes from 2^-3 to 2.
inline void MakeMxInt8(ChunkRecord& chunk) {
  for (Bf16& x : chunk.states) x.bits = (x.bits & 0x81ff) | 0x3e00;  // 2^-3 to 2
  RoundToMxInt8(chunk.states);
  chunk.mxint8 = true;
}

// Returns a chunk that is a function of its arguments alone, so that any process can tell what
// belongs where.
inline ChunkRecord MakeChunk(uint64_t seed, int64_t index, int64_t width = 8, int rows = 0) {
  std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(index));
  ChunkRecord chunk;
  chunk.text_begin = index * 100;
  chunk.text_end = index * 100 + 50;
  chunk.rows = rows != 0 ? rows : static_cast<int32_t>(random() % 63 + 1);
  if (width == 0) return chunk;  // of a document that is kept as text
  chunk.states.resize(static_cast<size_t>(chunk.rows * width));
  for (Bf16& x : chunk.states) x.bits = static_cast<uint16_t>(random());
  // Half of the chunks are of models that copy tokens; chunks of a fixed size are of other models.
  if (rows == 0 && random() % 2 == 0) {
    chunk.tokens.resize(static_cast<size_t>(chunk.rows) + random() % (kMaxPointerReach + 1));
    for (int32_t& token : chunk.tokens) token = static_cast<int32_t>(random() % 4096);
  }
  if (rows == 0 && random() % 2 == 0) MakeMxInt8(chunk);
  return chunk;
}

inline bool operator==(const ChunkRecord& a, const ChunkRecord& b) {
  return a.states == b.states && a.rows == b.rows && a.text_begin == b.text_begin &&
         a.text_end == b.text_end && a.tokens == b.tokens && a.mxint8 == b.mxint8;
}

// The expected content of a document; of width and d_k 0, of one that is kept as text. Batches made
// from it continue where the last one ended.
struct Content {
  uint64_t seed = 0;
  int64_t width = 8;
  int64_t d_k = 4;
  int64_t input_offset = 0;
  std::vector<ChunkRecord> chunks = {};
  std::vector<Bf16> landmark_keys = {};
  std::vector<int32_t> tokens = {};
  std::string text = {};
  std::string resume_state = {};
};

// Makes the next batch of `chunks` chunks, `tokens` tokens and `bytes` of text.
inline IngestBatch NextBatch(const Content& content, int64_t chunks, int64_t tokens,
                             int64_t bytes) {
  const auto done = static_cast<int64_t>(content.chunks.size());
  std::mt19937_64 random(content.seed * 7919 + static_cast<uint64_t>(content.input_offset) * 31 +
                         static_cast<uint64_t>(done));
  IngestBatch batch;
  for (int64_t i = 0; i < chunks; ++i) {
    batch.chunks.push_back(MakeChunk(content.seed, done + i, content.width));
    for (int64_t k = 0; k < content.d_k; ++k) {
      batch.landmark_keys.push_back({static_cast<uint16_t>(random())});
    }
  }
  for (int64_t i = 0; i < tokens; ++i) batch.tokens.push_back(static_cast<int32_t>(random()));
  for (int64_t i = 0; i < bytes; ++i) {
    batch.text.push_back(static_cast<char>('a' + random() % 26));
  }
  batch.input_offset = content.input_offset + bytes + 1;
  batch.resume_state = absl::StrCat("state at ", batch.input_offset, std::string(100, '\0'));
  return batch;
}

inline void Append(Content* content, const IngestBatch& batch) {
  const auto add = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  add(content->chunks, batch.chunks);
  add(content->landmark_keys, batch.landmark_keys);
  add(content->tokens, batch.tokens);
  content->text += batch.text;
  content->resume_state = batch.resume_state;
  content->input_offset = batch.input_offset;
}

inline std::vector<ChunkRef> AllChunks(OwnerId owner, int64_t chunks) {
  std::vector<ChunkRef> refs;
  for (int64_t i = 0; i < chunks; ++i) refs.push_back({owner, i});
  return refs;
}

// Compares everything that is stored for the owner with what it should be.
inline void ExpectContent(DocumentStore& store, OwnerId owner, const Content& content) {
  const auto text = store.ReadText(owner, 0, static_cast<int64_t>(content.text.size()));
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(*text, content.text);
  const auto tokens = store.ReadTokens(owner, 0, static_cast<int64_t>(content.tokens.size()));
  ASSERT_THAT(tokens, IsOk());
  EXPECT_EQ(*tokens, content.tokens);
  const auto chunks = static_cast<int64_t>(content.chunks.size());
  if (content.d_k > 0) {
    const auto keys = store.ReadLandmarkKeys(owner, chunks, content.d_k);
    ASSERT_THAT(keys, IsOk());
    EXPECT_EQ(*keys, content.landmark_keys);
    std::vector<Bf16> filled(keys->size());
    ASSERT_THAT(store.FillLandmarkKeys(owner, chunks, content.d_k, filled.data()), IsOk());
    EXPECT_EQ(filled, *keys);
  }
  const auto records = store.ReadChunks(AllChunks(owner, chunks));
  ASSERT_EQ(records.size(), content.chunks.size());
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_THAT(records[i], IsOk()) << "chunk " << i;
    EXPECT_TRUE(*records[i] == content.chunks[i]) << "chunk " << i;
  }
}

// Ingests and publishes a whole document in `commits` commits.
inline absl::StatusOr<DocumentInfo> Ingest(DocumentStore& store, const std::string& id,
                                           Content* content, int commits, int64_t chunks,
                                           int64_t tokens, int64_t bytes) {
  auto progress = store.BeginIngest(id, "fingerprint", false, "");
  if (!progress.ok()) return progress.status();
  for (int i = 0; i + 1 < commits; ++i) {
    const IngestBatch batch = NextBatch(*content, chunks, tokens, bytes);
    if (absl::Status s = store.CommitIngest(progress->owner, batch); !s.ok()) return s;
    Append(content, batch);
  }
  const IngestBatch last = NextBatch(*content, chunks, tokens, bytes);
  Append(content, last);
  return store.PublishIngest(progress->owner, last);
}

}  // namespace recollect::store
