// Text in which needles are hidden: a stretch of the given books, cut into shards that are ingested
// as documents of their own.
//
// Why shards: with one document a sample at 1 M tokens would have to read everything again because
// of one needle. With shards only the shard that holds it is read again; all are mounted together,
// in order. Chunks, candidates and retrieval are the same; only local context (at most some
// thousand tokens) starts anew at a shard's begin.
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
  // `bytes` of `text` from `begin` on (both moved to the next character), in `shards` of equal
  // size. REQUIRES: begin + bytes <= text.size().
  static Haystack Cut(const std::string& text, int64_t begin, int64_t bytes, int64_t shards);

  const std::vector<std::string>& shards() const { return shards_; }
  int64_t bytes() const;

  // Puts `sentence` in place of as many bytes of text at `depth` (0 to 1) of the whole, from one
  // end of a word to another, so that the size stays. Where that would touch a sentence placed
  // before, the next free place after it (cyclic). INVALID_ARGUMENT when there is none.
  absl::StatusOr<Place> Replace(double depth, const std::string& sentence);
  // Of all sentences, in the order they were placed: where they are now. Later ones move earlier
  // ones by a few bytes.
  const std::vector<Place>& places() const { return taken_; }

  // Takes the bytes of `place` out. The places of sentences are void then.
  void Remove(const Place& place);
  // The shard and byte at `depth` (0 to 1) of the whole, in a place with only `begin` set; and how
  // deep a place is.
  Place At(double depth) const;
  double DepthOf(const Place& place) const;

 private:
  std::vector<std::string> shards_;
  std::vector<Place> taken_;
};

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_HAYSTACK_H_
