// The changes of one write, which is atomic: all of them take effect, or none.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/rocks/db/database_options.h"

namespace recollect::store::rocks {

// Names families, not the library's handles of them, which become invalid when the database is
// opened again.
class Batch {
 public:
  enum class Kind { kPut, kDelete, kDeleteRange };
  struct Change {
    Kind kind;
    Family family;
    std::string key;
    std::string value;  // of a range, its end
  };

  // A batch that uses the reserve is written when no other may be, into the reserve of disk space:
  // for changes that give space back, or are needed to read.
  explicit Batch(bool uses_reserve = false) : uses_reserve_(uses_reserve) {}

  void Put(Family family, std::string key, std::string value) {
    Add({Kind::kPut, family, std::move(key), std::move(value)});
  }
  void Delete(Family family, std::string key) { Add({Kind::kDelete, family, std::move(key), ""}); }
  // Deletes the keys of [begin, end).
  void DeleteRange(Family family, std::string begin, std::string end) {
    Add({Kind::kDeleteRange, family, std::move(begin), std::move(end)});
  }

  const std::vector<Change>& changes() const { return changes_; }
  int64_t bytes() const { return bytes_; }
  bool uses_reserve() const { return uses_reserve_; }

 private:
  void Add(Change change) {
    bytes_ += static_cast<int64_t>(change.key.size() + change.value.size());
    changes_.push_back(std::move(change));
  }

  const bool uses_reserve_;
  std::vector<Change> changes_;
  int64_t bytes_ = 0;
};

}  // namespace recollect::store::rocks
