// A document that niah ingested: its text, the ranges of its chunks, and their words for BM25. The
// destructor tries to delete the document.
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
  ~Volume();
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;

  const std::string& id() const { return id_; }
  int64_t bytes() const { return static_cast<int64_t>(text_.size()); }
  int64_t tokens() const { return tokens_; }
  int64_t chunks() const { return words_.texts(); }
  // Chunk c has the bytes from ChunkBegin(c) to ChunkBegin(c + 1). Exact for documents of up to
  // 1024 chunks, or 256 if the server's landmark keys are on a GPU; in longer documents some may be
  // off by a part of a chunk.
  int64_t ChunkBegin(int64_t chunk) const { return begins_[chunk]; }
  const WordCounts& words() const { return words_; }

 private:
  Volume(client::Client& client, std::string id, std::string text);
  absl::Status FindChunks(int64_t chunks);

  client::Client& client_;
  const std::string id_;
  const std::string text_;
  int64_t tokens_ = 0;
  std::vector<int64_t> begins_;  // of the chunks, and the end of the last one
  WordCounts words_;
};

// The volumes mounted together, in order: one for each shard of a haystack.
using Volumes = std::vector<std::shared_ptr<const Volume>>;

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_VOLUME_H_
