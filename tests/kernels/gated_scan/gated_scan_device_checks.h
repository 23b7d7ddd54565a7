// What any device run of the gated scan must do, checked on the host run of the kernels' blocks and
// on a GPU alike: a runner is called as run(plan, call) and returns what each sequence came to.
#ifndef RECOLLECT_TESTS_KERNELS_GATED_SCAN_GATED_SCAN_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_GATED_SCAN_GATED_SCAN_DEVICE_CHECKS_H_

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "tests/kernels/device/host_launches.h"
#include "tests/kernels/gated_scan/gated_scan_cases.h"

namespace recollect::kernels::scan_cases {

using Strategy = GatedScanPlan::Strategy;
inline constexpr Strategy kStrategies[] = {Strategy::kByChannel, Strategy::kByTile};

inline const char* NameOf(Strategy strategy) {
  return strategy == Strategy::kByTile ? "by tile" : "by channel";
}

// Rows of a sequence, and the state before them. x and state have an entry for each input.
struct Sequence {
  int64_t rows = 0, first = 0;
  std::vector<float> z;  // [rows, channels], as each x
  std::vector<std::vector<float>> x = {};
  std::vector<std::vector<float>> state = {};  // [channels] each
};

struct Call {
  int64_t channels = 0;
  int64_t chunk = 0;
  std::vector<float> bias = {};  // empty: none
  std::vector<Sequence> sequences = {};
  int64_t gap = 0;        // floats between a row and the next
  bool in_place = false;  // y is x

  int inputs() const { return static_cast<int>(sequences[0].x.size()); }
};

// y and the state after it, of each input of one sequence.
struct Result {
  std::vector<std::vector<float>> y;
  std::vector<std::vector<float>> state;
};

inline constexpr float kBetweenRows = -77.0f;

inline std::vector<float> Spread(const std::vector<float>& dense, int64_t channels,
                                 int64_t stride) {
  std::vector<float> spread;
  for (size_t at = 0; at < dense.size(); at += channels) {
    spread.insert(spread.end(), dense.begin() + at, dense.begin() + at + channels);
    spread.resize(spread.size() + stride - channels, kBetweenRows);
  }
  return spread;
}

// And looks at what lies between rows, which is no one's to write.
inline std::vector<float> Gather(const std::vector<float>& spread, int64_t channels,
                                 int64_t stride) {
  std::vector<float> dense;
  for (size_t i = 0; i < spread.size(); ++i) {
    if (static_cast<int64_t>(i) % stride < channels) {
      dense.push_back(spread[i]);
    } else {
      EXPECT_EQ(spread[i], kBetweenRows) << "written between rows, at " << i;
    }
  }
  return dense;
}

// Places a call in a memory, Memory::Place(numbers) and Memory::Read(place), and runs it there with
// launch(segments, bias, stride, y_stride).
template <typename Memory, typename Launch>
std::vector<Result> RunIn(Memory& memory, const GatedScanPlan& plan, const Call& call,
                          const Launch& launch) {
  const int64_t channels = call.channels, stride = channels + call.gap;
  const int64_t y_stride = call.in_place ? stride : channels + 2 * call.gap;
  std::vector<GatedScanSegment> segments;
  for (const Sequence& sequence : call.sequences) {
    GatedScanSegment& segment = segments.emplace_back();
    segment.rows = sequence.rows;
    segment.first = sequence.first;
    segment.z = memory.Place(Spread(sequence.z, channels, stride));
    for (int i = 0; i < call.inputs(); ++i) {
      float* x = memory.Place(Spread(sequence.x[i], channels, stride));
      const std::vector<float> nothing(sequence.rows * channels, std::nanf(""));
      segment.x[i] = x;
      segment.y[i] = call.in_place ? x : memory.Place(Spread(nothing, channels, y_stride));
      segment.state[i] = memory.Place(sequence.state[i]);
    }
  }
  EXPECT_EQ(CheckGatedScan(plan, segments), absl::OkStatus());
  launch(segments, call.bias.empty() ? nullptr : memory.Place(call.bias), stride, y_stride);
  std::vector<Result> results;
  for (const GatedScanSegment& segment : segments) {
    Result& result = results.emplace_back();
    for (int i = 0; i < call.inputs(); ++i) {
      result.y.push_back(Gather(memory.Read(segment.y[i]), channels, y_stride));
      result.state.push_back(memory.Read(segment.state[i]));
    }
  }
  return results;
}

// At addresses that are multiples of 4 bytes and no more.
class HostMemory {
 public:
  float* Place(const std::vector<float>& numbers) {
    auto guarded = std::make_unique<Guarded>(numbers);
    float* const place = guarded->data();
    arrays_[place] = std::move(guarded);
    return place;
  }
  std::vector<float> Read(const float* place) const { return arrays_.at(place)->values(); }

 private:
  std::map<const float*, std::unique_ptr<Guarded>> arrays_;
};

// The plan's thread blocks, on the host.
inline std::vector<Result> RunOnHost(const GatedScanPlan& plan, const Call& call, HostOrder order) {
  HostMemory memory;
  return RunIn(memory, plan, call,
               [&](const std::vector<GatedScanSegment>& segments, const float* bias, int64_t stride,
                   int64_t y_stride) {
                 const auto count = static_cast<int64_t>(segments.size());
                 EXPECT_EQ(
                     GatedScanOnHost(order, plan, {segments.data(), count, bias, stride, y_stride}),
                     absl::OkStatus());
               });
}

// With room for `spare` rows and segments more than the call has.
template <typename Runner>
std::vector<Result> Run(const Runner& run, const Call& call, Strategy strategy, int64_t spare = 0) {
  GatedScanSizes sizes{.segments = static_cast<int64_t>(call.sequences.size()) + spare,
                       .max_rows = spare,
                       .channels = call.channels,
                       .inputs = call.inputs(),
                       .chunk = call.chunk};
  for (const Sequence& sequence : call.sequences) {
    sizes.max_rows = std::max(sizes.max_rows, sequence.rows + spare);
  }
  const absl::StatusOr<GatedScanPlan> plan = PlanGatedScan(sizes, strategy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return run(*plan, call);
}

inline Sequence RandomSequence(int64_t rows, int64_t channels, int inputs, uint32_t seed,
                               float z_mean = 0) {
  Sequence sequence{.rows = rows, .first = 0, .z = Normals(rows * channels, seed, 2)};
  for (float& z : sequence.z) z += z_mean;
  for (int i = 0; i < inputs; ++i) {
    sequence.x.push_back(Normals(rows * channels, seed + 100 + i));
    sequence.state.push_back(Normals(channels, seed + 200 + i));
  }
  return sequence;
}

// Rows [begin, end), with the state of `before` if there is one.
inline Sequence Slice(const Sequence& sequence, int64_t channels, int64_t begin, int64_t end,
                      const Result* before) {
  const auto slice = [&](const std::vector<float>& all) {
    return std::vector<float>(all.begin() + begin * channels, all.begin() + end * channels);
  };
  Sequence part{.rows = end - begin, .first = sequence.first + begin, .z = slice(sequence.z)};
  for (const std::vector<float>& x : sequence.x) part.x.push_back(slice(x));
  part.state = before == nullptr ? sequence.state : before->state;
  return part;
}

inline void ExpectMatchesReference(const Call& call, const Sequence& sequence,
                                   const Result& result) {
  const int64_t channels = call.channels, rows = sequence.rows;
  const float* const bias = call.bias.empty() ? nullptr : call.bias.data();
  for (int i = 0; i < call.inputs(); ++i) {
    std::vector<float> state = sequence.state[i], expected(rows * channels);
    if (call.chunk == 0) {
      GatedScan(Scalar(), sequence.z.data(), bias, sequence.x[i].data(), channels, rows, channels,
                state.data(), expected.data(), channels);
    } else {
      ChunkedReference(sequence.first, call.chunk, sequence.z.data(), bias, sequence.x[i].data(),
                       channels, rows, channels, state.data(), expected.data(), channels);
    }
    ASSERT_EQ(result.y[i].size(), expected.size());
    for (int64_t c = 0; c < channels; ++c) {
      double largest = std::isnan(sequence.state[i][c]) ? 0 : std::abs(sequence.state[i][c]);
      double steepest = 0;
      for (int64_t at = c; at < rows * channels; at += channels) {
        largest = std::max<double>(largest, std::abs(sequence.x[i][at]));
        steepest =
            std::max<double>(steepest, std::abs(sequence.z[at] + (bias == nullptr ? 0 : bias[c])));
        EXPECT_CLOSE(result.y[i][at], expected[at], largest * (1 + steepest),
                     testing::kGatedScanFactor)
            << "input " << i << ", row " << at / channels << ", channel " << c;
      }
      // The state is the last y, or what it was.
      const float last = rows == 0 ? sequence.state[i][c] : result.y[i][(rows - 1) * channels + c];
      EXPECT_EQ(cuda::BitsOf(result.state[i][c]), cuda::BitsOf(last)) << "channel " << c;
    }
  }
}

inline void ExpectSameBits(const Result& actual, const Result& expected) {
  for (size_t i = 0; i < expected.y.size(); ++i) {
    EXPECT_TRUE(SameBits(actual.y[i], expected.y[i])) << "y of input " << i;
    EXPECT_TRUE(SameBits(actual.state[i], expected.state[i])) << "state of input " << i;
  }
}

template <typename Runner>
void CheckMatchesReference(const Runner& run) {
  struct Case {
    int64_t rows, channels;
    float z_mean;  // gates near 0, in between, near 1
  };
  for (const Case& c : {Case{0, 8, 0},
                        {1, 1, 0},
                        {2, 7, 0},
                        {3, 16, 0},
                        {5, 130, 0},
                        {8, 17, -8},
                        {15, 33, 8},
                        {119, 33, 0},
                        {120, 16, 0},
                        {121, 100, 8},
                        {240, 5, -8},
                        {487, 48, 0},
                        {600, 9, 12}}) {
    for (int inputs : {1, 2}) {
      for (bool with_bias : {false, true}) {
        Call call{.channels = c.channels};
        call.sequences.push_back(RandomSequence(c.rows, c.channels, inputs, 1, c.z_mean));
        if (with_bias) call.bias = Normals(c.channels, 9);
        call.gap = with_bias ? 3 : 0;
        call.in_place = with_bias;
        for (Strategy strategy : kStrategies) {
          SCOPED_TRACE(absl::StrCat(NameOf(strategy), ", ", c.rows, " x ", c.channels, ", ", inputs,
                                    " inputs", with_bias ? " with bias" : ""));
          ExpectMatchesReference(call, call.sequences[0], Run(run, call, strategy)[0]);
        }
      }
    }
  }
}

// One sequence: prefill at once, either way, and every cut into calls down to a row at a time, in
// any batch, in place and not, alone and with a second input.
template <typename Runner>
void CheckSameBitsInAnyCutAndCompany(const Runner& run) {
  const int64_t rows = 500, channels = 37;
  Call alone{.channels = channels, .bias = Normals(channels, 9)};
  alone.sequences = {RandomSequence(rows, channels, 2, 1)};
  const Sequence& whole = alone.sequences[0];
  const Result expected = Run(run, alone, Strategy::kByTile)[0];
  ExpectSameBits(Run(run, alone, Strategy::kByChannel)[0], expected);

  std::vector<Sequence> others;
  for (int64_t length : {1, 0, 130, 13}) {
    others.push_back(RandomSequence(length, channels, 2, 50 + static_cast<uint32_t>(length)));
  }
  Call company = alone;
  company.sequences = others;
  const std::vector<Result> expected_others = Run(run, company, Strategy::kByChannel);

  struct Cut {
    int64_t rows;
    Strategy strategy;
  };
  for (const Cut& cut : {Cut{1, Strategy::kByChannel},
                         {3, Strategy::kByChannel},
                         {8, Strategy::kByTile},
                         {64, Strategy::kByChannel},
                         {119, Strategy::kByTile},
                         {120, Strategy::kByTile},
                         {121, Strategy::kByTile},
                         {250, Strategy::kByChannel},
                         {499, Strategy::kByTile}}) {
    SCOPED_TRACE(absl::StrCat(NameOf(cut.strategy), ", cuts of ", cut.rows));
    Result joined{.y = std::vector<std::vector<float>>(2), .state = whole.state};
    for (int64_t begin = 0; begin < rows; begin += cut.rows) {
      // Now and then a decode step among prefills, which is the other way's work.
      const bool step = begin / cut.rows % 3 == 1;
      Call call = alone;
      call.gap = begin / cut.rows % 2 == 0 ? 5 : 0;
      call.in_place = step;
      const size_t place = begin / cut.rows % (others.size() + 1);
      call.sequences = others;
      call.sequences.insert(
          call.sequences.begin() + place,
          Slice(whole, channels, begin, std::min(begin + cut.rows, rows), &joined));
      const std::vector<Result> results =
          Run(run, call, step ? Strategy::kByChannel : cut.strategy, 7);
      for (int i = 0; i < 2; ++i) {
        const std::vector<float>& y = results[place].y[i];
        joined.y[i].insert(joined.y[i].end(), y.begin(), y.end());
      }
      joined.state = results[place].state;
      if (begin > 8 * cut.rows) continue;
      for (size_t o = 0; o < others.size(); ++o) {
        ExpectSameBits(results[o < place ? o : o + 1], expected_others[o]);
      }
    }
    ExpectSameBits(joined, expected);
  }

  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(absl::StrCat("input ", i, " alone"));
    Call one = alone;
    one.sequences[0].x = {whole.x[i]};
    one.sequences[0].state = {whole.state[i]};
    for (Strategy strategy : kStrategies) {
      ExpectSameBits(Run(run, one, strategy)[0],
                     {.y = {expected.y[i]}, .state = {expected.state[i]}});
    }
  }
}

// Chunks begin at absolute positions, and what the state was before one does not matter.
template <typename Runner>
void CheckChunksBeginAnew(const Runner& run) {
  const int64_t rows = 290, channels = 19;
  for (int64_t chunk : {1, 2, 7, 16, 120, 200, 1000}) {
    for (int64_t first : {int64_t{0}, int64_t{5}, int64_t{32}, int64_t{1} << 40}) {
      Call call{.channels = channels, .chunk = chunk};
      call.sequences = {RandomSequence(rows, channels, 2, 1)};
      Sequence& whole = call.sequences[0];
      whole.first = first;
      if (first % chunk == 0) whole.state[0].assign(channels, std::nanf(""));
      const Result expected = Run(run, call, Strategy::kByTile)[0];
      {
        SCOPED_TRACE(absl::StrCat("chunk ", chunk, " from ", first));
        ExpectMatchesReference(call, whole, expected);
      }
      for (int64_t cut : {int64_t{1}, int64_t{50}, int64_t{125}, rows}) {
        SCOPED_TRACE(absl::StrCat("chunk ", chunk, " from ", first, ", cuts of ", cut));
        Result joined{.y = std::vector<std::vector<float>>(2), .state = whole.state};
        for (int64_t begin = 0; begin < rows; begin += cut) {
          Call part = call;
          part.sequences = {Slice(whole, channels, begin, std::min(begin + cut, rows), &joined)};
          const Result result =
              Run(run, part, cut == 125 ? Strategy::kByTile : Strategy::kByChannel)[0];
          for (int i = 0; i < 2; ++i) {
            joined.y[i].insert(joined.y[i].end(), result.y[i].begin(), result.y[i].end());
          }
          joined.state = result.state;
        }
        ExpectSameBits(joined, expected);
      }
    }
  }
}

// Gates of exactly 0 and 1; NaN stays in its channel and ends with its chunk.
template <typename Runner>
void CheckNumbersAtTheEdge(const Runner& run) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const int64_t rows = 260, channels = 18;
  for (Strategy strategy : kStrategies) {
    SCOPED_TRACE(NameOf(strategy));
    Call call{.channels = channels, .chunk = 64};
    call.sequences = {RandomSequence(rows, channels, 1, 1)};
    const Result plain = Run(run, call, strategy)[0];
    Sequence& sequence = call.sequences[0];
    const auto at = [&](int64_t row, int64_t channel) { return row * channels + channel; };
    sequence.z[at(10, 2)] = kInf;
    sequence.z[at(130, 2)] = -kInf;
    sequence.z[at(131, 2)] = 200;
    sequence.z[at(200, 17)] = -200;
    sequence.x[0][at(70, 5)] = std::nanf("");
    sequence.z[at(129, 16)] = std::nanf("");
    const std::vector<float> y = Run(run, call, strategy)[0].y[0];
    EXPECT_EQ(y[at(10, 2)], y[at(9, 2)]);
    EXPECT_EQ(y[at(130, 2)], sequence.x[0][at(130, 2)]);
    EXPECT_EQ(y[at(131, 2)], y[at(130, 2)]);
    EXPECT_EQ(y[at(200, 17)], sequence.x[0][at(200, 17)]);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        const bool is_nan =
            (channel == 5 && row >= 70 && row < 128) || (channel == 16 && row >= 129 && row < 192);
        EXPECT_EQ(std::isnan(y[at(row, channel)]), is_nan) << row << ", " << channel;
        if (channel == 2 || channel == 17 || is_nan) continue;
        EXPECT_EQ(cuda::BitsOf(y[at(row, channel)]), cuda::BitsOf(plain.y[0][at(row, channel)]));
      }
    }
  }
}

}  // namespace recollect::kernels::scan_cases

#endif  // RECOLLECT_TESTS_KERNELS_GATED_SCAN_GATED_SCAN_DEVICE_CHECKS_H_
