// Text in which needles are hidden: a stretch of the given books, cut into shards, each ingested as
// a document.
//
// Why shards: with one document, a sample at 1 M tokens would have to ingest everything again for
// one needle. With shards only the shard with the needle is ingested again; all are mounted
// together, in order. Chunks, candidates and retrieval are the same; only local context (at most
// some thousand tokens) restarts at the beginning of a shard. A haystack that holds what all
// samples ask for is ingested once and needs none.
#ifndef RECOLLECT_CLI_NIAH_HAYSTACK_H_
#define RECOLLECT_CLI_NIAH_HAYSTACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect::cli::niah {

// A needle's place: a shard and a byte range in its text.
struct Place {
  int64_t shard = 0;
  int64_t begin = 0, end = 0;
};

class Haystack {
 public:
  // Cuts `bytes` bytes of `text` from `begin` on (both ends moved to the next character) into
  // `shards` shards of equal size. REQUIRES: begin + bytes <= text.size().
  static Haystack Cut(const std::string& text, int64_t begin, int64_t bytes, int64_t shards);

  const std::vector<std::string>& shards() const { return shards_; }
  int64_t bytes() const;

  // Replaces about as many bytes of text at `depth` (0 to 1) of the whole, from the end of a word
  // to the end of another, by `sentence`, so that the size stays nearly the same. If that would
  // touch a sentence placed before, uses the next free place after it (cyclic). INVALID_ARGUMENT if
  // there is none.
  absl::StatusOr<Place> Replace(double depth, const std::string& sentence);
  // The present places of all sentences, in the order in which they were placed. Later sentences
  // move earlier ones by a few bytes.
  const std::vector<Place>& places() const { return taken_; }
  // Whether a part of `place` belongs to one of them.
  bool Touches(const Place& place) const;
  // The keys of these sentences, in lower case. Who places a sentence adds its key, so that no two
  // have the same.
  std::vector<std::string>& keys() { return keys_; }

  // Removes the bytes of `place`. Of the sentences' places that it touches, what is left remains.
  void Remove(const Place& place);
  // The shard and byte at `depth` (0 to 1) of the whole, as a place with only `begin` set; DepthOf
  // is the inverse.
  Place At(double depth) const;
  double DepthOf(const Place& place) const;

 private:
  std::vector<std::string> shards_;
  std::vector<Place> taken_;
  std::vector<std::string> keys_;
};

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_HAYSTACK_H_
