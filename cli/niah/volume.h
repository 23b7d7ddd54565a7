// A document that niah ingested: its text, where its chunks lie in it, and their words for BM25.
// Deletes the document with itself, as well as it can.
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
  // Borrows the client. `seed` becomes part of the document's name, which no other volume has.
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
  // 1024 chunks, or 256 where the server's landmark keys are on a GPU; of more, some may be off by
  // a part of a chunk.
  int64_t ChunkBegin(int64_t chunk) const { return begins_[chunk]; }
  const WordCounts& words() const { return words_; }

 private:
  Volume(client::Client& client, std::string id, std::string text);
  absl::Status FindChunks(int64_t chunks);

  client::Client& client_;
  const std::string id_;
  const std::string text_;
  int64_t tokens_ = 0;
  std::vector<int64_t> begins_;  // of the chunks, and behind the last one
  WordCounts words_;
};

// Those mounted together, in order: one for each shard of a haystack.
using Volumes = std::vector<std::shared_ptr<const Volume>>;

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_VOLUME_H_
