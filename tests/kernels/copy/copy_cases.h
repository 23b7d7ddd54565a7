// The calls that copies within a device are tested on, and how they run.
#pragma once

#include <algorithm>

#include "kernels/copy/copy_kernel.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::copy_cases {

inline constexpr uint32_t kUnwritten = 0xdeadbeef;

// A copy from one array to another, in words of 4 bytes.
struct Copy {
  int64_t from = 0, to = 0, words = 0;
};

struct Call {
  std::vector<uint32_t> source;
  std::vector<Copy> copies = {};
  int64_t room = 0;  // words at the destination

  // Adds a copy of `words` words from a place that is `shift` words past a multiple of 16 bytes, to
  // the next one that is `to_shift` words past one.
  void Add(int64_t words, int64_t shift, int64_t to_shift) {
    const auto places = static_cast<int64_t>(source.size()) - words - shift;
    const int64_t from = room * 7 % (places + 1) / 4 * 4 + shift;
    const int64_t to = room / 4 * 4 + 4 + to_shift;
    copies.push_back({from, to, words});
    room = to + words;
  }
};

inline Call CallOf(int64_t source_words) {
  Call call;
  for (int64_t i = 0; i < source_words; ++i) {
    call.source.push_back(static_cast<uint32_t>(i) * 2654435761u);
  }
  return call;
}

// Returns what lies at the copies' destination afterwards.
inline std::vector<uint32_t> RunOnDevice(Device& device, const Call& call) {
  device_cases::Arrays arrays(device);
  const uint32_t* const from = arrays.Place(call.source);
  uint32_t* const to = arrays.Place(std::vector<uint32_t>(call.room, kUnwritten), 4);
  std::vector<DeviceCopy> copies;
  int64_t most_bytes = 0;
  for (const Copy& copy : call.copies) {
    const int64_t bytes = copy.words * int64_t{sizeof(uint32_t)};
    copies.push_back({from + copy.from, to + copy.to, bytes});
    most_bytes = std::max(most_bytes, bytes);
  }
  EXPECT_EQ(CheckCopies(copies, most_bytes), absl::OkStatus());
  EXPECT_EQ(device.Run(CopyOp{arrays.Place(copies), std::ssize(copies), most_bytes}),
            absl::OkStatus());
  return arrays.Read(to, call.room);
}

inline void ExpectCopied(Device& device, const Call& call) {
  std::vector<uint32_t> expected(call.room, kUnwritten);
  for (const Copy& copy : call.copies) {
    std::copy_n(call.source.begin() + copy.from, copy.words, expected.begin() + copy.to);
  }
  EXPECT_TRUE(RunOnDevice(device, call) == expected) << call.copies.size() << " copies";
}

// Calls with copies of lengths around 16 bytes, around what a warp has in flight, and around
// several times that, each at four pairs of alignments; every copy in a call of its own, and all in
// one call.
inline std::vector<Call> CallsOfAllLengths() {
  const int64_t piece = cuda::kCopyWarpBytes / int64_t{sizeof(uint32_t)};
  std::vector<Call> calls;
  Call all = CallOf(5 * piece);
  for (const int64_t words :
       {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{7}, int64_t{8}, int64_t{128}, int64_t{131},
        piece - 4, piece - 1, piece, piece + 1, piece + 4, 4 * piece + 4}) {
    for (const auto& [shift, to_shift] : {std::pair{0, 0}, {1, 0}, {0, 2}, {3, 3}}) {
      Call& one = calls.emplace_back(CallOf(5 * piece));
      one.Add(words, shift, to_shift);
      all.Add(words, shift, to_shift);
    }
  }
  calls.push_back(all);
  calls.push_back(CallOf(1));  // none
  return calls;
}

// A call with rows of a cache for many sequences, and a long copy among them, in which a warp goes
// on to later pieces.
inline Call CallOfManyShortAndOneLong() {
  Call call = CallOf(200'000);
  for (int64_t i = 0; i < 700; ++i) call.Add(i == 300 ? 150'001 : 256, i % 4 == 3 ? 1 : 0, 0);
  return call;
}

}  // namespace recollect::kernels::copy_cases
