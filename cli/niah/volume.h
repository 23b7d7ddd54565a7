// A document that niah ingested: its text, the ranges of its chunks, and their words for BM25. The
// destructor tries to delete the document, unless it is to be kept.
#ifndef RECOLLECT_CLI_NIAH_VOLUME_H_
#define RECOLLECT_CLI_NIAH_VOLUME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/niah/bm25.h"
#include "client/client.h"

namespace recollect::cli::niah {

class Volume {
 public:
  // Borrows the client. `seed` becomes part of the document's id, which no other volume has.
  static absl::StatusOr<std::shared_ptr<const Volume>> Ingest(client::Client& client, uint64_t seed,
                                                              const std::string& text);
  // Like Ingest, but the document's id is NameOf, by which a later call finds it again, whole or in
  // part, and reads the rest. The document is kept, also after an error. `progress` may be null.
  static absl::StatusOr<std::shared_ptr<const Volume>> IngestOnce(
      client::Client& client, uint64_t seed, const std::string& text,
      const client::ProgressFunction& progress);
  static std::string NameOf(uint64_t seed, const std::string& text);
  ~Volume();
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;

  const std::string& id() const { return id_; }
  int64_t bytes() const { return static_cast<int64_t>(text_.size()); }
  int64_t tokens() const { return tokens_; }
  int64_t stored_bytes() const { return stored_bytes_; }  // all records of the document
  // Returns the tokens that were read for this volume: 0 if the document was already there.
  int64_t ingested_tokens() const { return ingested_tokens_; }
  int64_t chunks() const { return words_.texts(); }
  // Chunk c has the bytes from ChunkBegin(c) to ChunkBegin(c + 1). Exact for documents of up to
  // 1024 chunks, or 256 if the server's landmark keys are on a GPU; in longer documents some may be
  // off by a part of a chunk, namely those that are not Exact.
  int64_t ChunkBegin(int64_t chunk) const { return begins_[chunk]; }
  bool Exact(int64_t chunk) const { return exact_[chunk] && exact_[chunk + 1]; }
  // The chunk that has the byte. REQUIRES: 0 <= at < bytes().
  int64_t ChunkAt(int64_t at) const;
  const WordCounts& words() const { return words_; }

 private:
  Volume(client::Client& client, std::string id, std::string text, bool keep);
  absl::Status Ingest(int64_t committed, const client::ProgressFunction& progress);
  absl::Status Adopt(const v1::Document& document);
  absl::Status FindChunks(int64_t chunks);

  client::Client& client_;
  const std::string id_;
  const std::string text_;
  const bool keep_;
  int64_t tokens_ = 0, stored_bytes_ = 0, ingested_tokens_ = 0;
  std::vector<int64_t> begins_;  // of the chunks, and the end of the last one
  std::vector<bool> exact_;      // whether the server has said so
  WordCounts words_;
};

// The volumes mounted together, in order: one for each shard of a haystack.
using Volumes = std::vector<std::shared_ptr<const Volume>>;

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_VOLUME_H_
