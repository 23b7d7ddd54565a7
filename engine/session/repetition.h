// Finds out that an answer goes round in circles, as greedy answers of small models do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace recollect::engine {

// Not thread-safe.
class Repetition {
 public:
  // A longer piece than fits in here nearly three times is not noticed.
  static constexpr size_t kMaxBytes = 8192;

  // With documents mounted an answer that says a sentence of theirs again goes on with the same
  // ones.
  explicit Repetition(bool with_documents = false) : with_documents_(with_documents) {}

  // Adds further text of the answer, whole characters; looks at its end, unless it has been found.
  void Push(std::string_view text);

  // Where the answer's end is one piece again and again, about three times and over at least 160
  // bytes: the bytes of the answer up to the end of that piece's first time, which are whole
  // characters. With documents also where its last 48 bytes stand in what precedes them: the bytes
  // up to these. 0: it has not been found.
  int64_t begin() const { return begin_; }

 private:
  bool with_documents_;
  std::string end_;     // of the answer
  int64_t before_ = 0;  // the answer's bytes before `end_`
  int64_t begin_ = 0;
};

}  // namespace recollect::engine
