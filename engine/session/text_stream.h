// Turns sampled tokens into text that may be shown: valid UTF-8 only, and nothing that may still
// become a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recollect::engine {

// Not thread-safe.
class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stops);

  // Adds a token's bytes and returns the text that is now certain, possibly empty. Bytes that can
  // never become UTF-8 turn into U+FFFD, one for each maximal ill-formed part. After a stop string
  // was found, nothing more is returned.
  std::string Push(std::string_view bytes);

  // Returns what was held back, when generation ends for another reason than a stop string; an
  // unfinished character becomes U+FFFD.
  std::string Flush();

  bool stopped() const { return stopped_; }

 private:
  // Moves complete characters from raw_ to text_.
  void DecodeRaw(bool final);

  const std::vector<std::string> stops_;
  std::string raw_;   // bytes not yet known to be characters
  std::string text_;  // characters held back for the stops
  bool stopped_ = false;
};

}  // namespace recollect::engine
