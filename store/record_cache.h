// A cache of records on this machine's disk, in front of a store on other machines. It moves bytes:
// what a record is, and whether it is right, its user checks. Nothing in it is ever needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace recollect::store {

// No call fails: what cannot be read is not there, and what cannot be written is not kept.
// Thread-safe.
class RecordCache {
 public:
  struct State {
    int64_t bytes = 0;  // that it takes of the disk
    int64_t budget_bytes = 0;
    // It is read, and nothing is added: after an error of the disk until the next start, and while
    // the disk is nearly full.
    bool read_only = false;
  };
  virtual ~RecordCache() = default;

  // In the order of `keys`; nothing: it is not there.
  virtual std::vector<std::optional<std::string>> Get(std::span<const std::string> keys) = 0;
  // Pairs of a key and its record, which replaces an earlier one. The oldest go when the budget is
  // used up.
  virtual void Put(std::span<const std::pair<std::string, std::string>> records) = 0;
  virtual State state() = 0;
};

}  // namespace recollect::store
