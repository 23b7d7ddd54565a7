#include "engine/backend/landmark_lists.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/record.h"

namespace recollect::engine {
namespace {

// What comes first. Another version of the form has another number.
struct Head {
  uint32_t version = 1;
  uint32_t d_k = 0;
  uint32_t lists = 0;
  uint32_t chunks = 0;
};

template <typename T>
void Put(std::span<const T> numbers, std::string* out) {
  out->append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

absl::Status Refused(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("index over landmark keys: ", why));
}

}  // namespace

std::string EncodeLists(const LandmarkLists& lists) {
  const Head head{1, static_cast<uint32_t>(lists.d_k), static_cast<uint32_t>(lists.lists()),
                  static_cast<uint32_t>(lists.chunks())};
  std::string out;
  Put(std::span(&head, 1), &out);
  Put<Bf16>(lists.centroids, &out);
  Put<int64_t>(lists.begins, &out);
  Put<int32_t>(lists.order, &out);
  return out;
}

absl::StatusOr<LandmarkLists> DecodeLists(absl::string_view bytes, int64_t chunks, int64_t d_k) {
  Head head;
  if (bytes.size() < sizeof(head)) return Refused(absl::StrCat(bytes.size(), " bytes"));
  store::RecordReader reader(bytes);
  reader.Fields(head.version, head.d_k, head.lists, head.chunks);
  if (head.version != 1) return Refused(absl::StrCat("version ", head.version, ", expected 1"));
  if (head.d_k != d_k || head.chunks != chunks) {
    return Refused(absl::StrCat(head.chunks, " keys of ", head.d_k, " numbers, expected ", chunks,
                                " of ", d_k));
  }
  const uint64_t expected = sizeof(head) + uint64_t{head.lists} * head.d_k * sizeof(Bf16) +
                            (uint64_t{head.lists} + 1) * sizeof(int64_t) +
                            uint64_t{head.chunks} * sizeof(int32_t);
  if (head.lists == 0 || bytes.size() != expected) {
    return Refused(
        absl::StrCat(head.lists, " lists in ", bytes.size(), " bytes, expected ", expected));
  }
  LandmarkLists lists;
  lists.d_k = d_k;
  lists.centroids = reader.Numbers<Bf16>(size_t{head.lists} * head.d_k);
  lists.begins = reader.Numbers<int64_t>(size_t{head.lists} + 1);
  lists.order = reader.Numbers<int32_t>(head.chunks);
  if (lists.begins.front() != 0 || lists.begins.back() != chunks ||
      !std::is_sorted(lists.begins.begin(), lists.begins.end())) {
    return Refused("its lists do not follow one another");
  }
  std::vector<bool> seen(lists.order.size());
  for (const int32_t chunk : lists.order) {
    if (chunk < 0 || chunk >= chunks || seen[static_cast<size_t>(chunk)]) {
      return Refused(absl::StrCat("chunk ", chunk, " of ", chunks, " is not in it once"));
    }
    seen[static_cast<size_t>(chunk)] = true;
  }
  return lists;
}

// Cycle by cycle, each with room for one key.
void OrderKeys(const LandmarkLists& lists, std::span<Bf16> keys) {
  const auto width = static_cast<size_t>(lists.d_k);
  const auto row = [&](size_t at) { return keys.subspan(at * width, width); };
  std::vector<bool> done(lists.order.size());
  std::vector<Bf16> first(width);
  for (size_t begin = 0; begin < done.size(); ++begin) {
    if (done[begin]) continue;
    std::copy_n(row(begin).begin(), width, first.begin());
    for (size_t at = begin;;) {
      done[at] = true;
      const auto from = static_cast<size_t>(lists.order[at]);
      if (from == begin) {
        std::copy_n(first.begin(), width, row(at).begin());
        break;
      }
      std::copy_n(row(from).begin(), width, row(at).begin());
      at = from;
    }
  }
}

}  // namespace recollect::engine
