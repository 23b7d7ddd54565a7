#include "cli/niah/haystack.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace recollect::cli::niah {
namespace {

int64_t CharacterAt(const std::string& text, int64_t at) {
  const auto size = static_cast<int64_t>(text.size());
  while (at < size && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return std::min(at, size);
}

// The next end of a word at or after `at`, or -1.
int64_t WordEnd(const std::string& text, int64_t at) {
  const size_t found = text.find_first_of(" \n", static_cast<size_t>(at));
  return found == std::string::npos ? -1 : static_cast<int64_t>(found);
}

}  // namespace

Haystack Haystack::Cut(const std::string& text, int64_t begin, int64_t bytes, int64_t shards) {
  Haystack haystack;
  for (int64_t i = 0; i < shards; ++i) {
    const int64_t from = CharacterAt(text, begin + bytes * i / shards);
    const int64_t to = CharacterAt(text, begin + bytes * (i + 1) / shards);
    haystack.shards_.push_back(text.substr(from, to - from));
  }
  return haystack;
}

int64_t Haystack::bytes() const {
  int64_t total = 0;
  for (const std::string& shard : shards_) total += static_cast<int64_t>(shard.size());
  return total;
}

Place Haystack::At(double depth) const {
  Place place;
  place.begin = static_cast<int64_t>(std::floor(depth * static_cast<double>(bytes())));
  while (place.shard + 1 < std::ssize(shards_) && place.begin >= std::ssize(shards_[place.shard])) {
    place.begin -= std::ssize(shards_[place.shard++]);
  }
  return place;
}

double Haystack::DepthOf(const Place& place) const {
  int64_t before = place.begin;
  for (int64_t s = 0; s < place.shard; ++s) before += std::ssize(shards_[s]);
  return static_cast<double>(before) / static_cast<double>(std::max<int64_t>(1, bytes()));
}

bool Haystack::Touches(const Place& place) const {
  return std::any_of(taken_.begin(), taken_.end(), [&](const Place& p) {
    return p.shard == place.shard && place.begin < p.end && p.begin < place.end;
  });
}

void Haystack::Remove(const Place& place) {
  const Place gone = place;  // it may be one of taken_
  shards_[gone.shard].erase(gone.begin, gone.end - gone.begin);
  const auto moved = [&](int64_t at) {
    return at <= gone.begin ? at : std::max(gone.begin, at - (gone.end - gone.begin));
  };
  for (Place& p : taken_) {
    if (p.shard == gone.shard) p = {p.shard, moved(p.begin), moved(p.end)};
  }
}

absl::StatusOr<Place> Haystack::Replace(double depth, const std::string& sentence) {
  const auto length = static_cast<int64_t>(sentence.size());
  const Place from = At(depth);
  int64_t shard = from.shard, at = from.begin;
  for (int64_t tries = 0; tries <= static_cast<int64_t>(shards_.size()); ++tries) {
    std::string& text = shards_[shard];
    while (true) {
      const int64_t begin = WordEnd(text, at);
      const int64_t end = begin < 0 || begin + length > static_cast<int64_t>(text.size())
                              ? -1
                              : WordEnd(text, begin + length);
      if (end < 0) break;  // the rest of this shard is too short
      const auto touches = [&](const Place& p) {
        return p.shard == shard && begin < p.end && p.begin < end;
      };
      const auto other = std::find_if(taken_.begin(), taken_.end(), touches);
      if (other != taken_.end()) {
        at = other->end;
        continue;
      }
      // Sizes are equal except for the rest of the last word; places behind it move along.
      text.replace(begin, end - begin, sentence);
      const int64_t shift = length - (end - begin);
      for (Place& p : taken_) {
        if (p.shard == shard && p.begin >= end) p = {shard, p.begin + shift, p.end + shift};
      }
      taken_.push_back({shard, begin, begin + length});
      return taken_.back();
    }
    shard = (shard + 1) % static_cast<int64_t>(shards_.size());
    at = 0;
  }
  return absl::InvalidArgumentError(absl::StrCat("no room for ", taken_.size() + 1, " needles in ",
                                                 bytes(), " bytes of haystack"));
}

}  // namespace recollect::cli::niah
