// What any device run of linear attention must do, checked on the host run of the kernel's blocks
// and on a GPU alike: a runner is called as run(plan, call) and returns what each sequence came to.
#ifndef RECOLLECT_TESTS_KERNELS_LINEAR_ATTENTION_LINEAR_ATTENTION_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_LINEAR_ATTENTION_LINEAR_ATTENTION_DEVICE_CHECKS_H_

#include <algorithm>
#include <memory>

#include "kernels/linear_attention/linear_attention.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels::linear_cases {

// Rows of a sequence, the positions that enter in the last of them, and S before.
struct Sequence {
  int64_t rows = 0, entering = 0;
  std::vector<float> q = {}, keys = {}, values = {}, state = {};
};

struct Call {
  LinearAttentionShape shape;
  std::vector<float> initial = {};  // empty: none
  std::vector<Sequence> sequences = {};

  int64_t q_width() const { return int64_t{shape.heads} * 2 * shape.head_dim; }
  int64_t out_width() const { return int64_t{shape.heads} * shape.head_dim; }
  int64_t key_width() const { return int64_t{shape.kv_heads} * 2 * shape.head_dim; }
  int64_t value_width() const { return int64_t{shape.kv_heads} * shape.head_dim; }
};

// out and S after it, of one sequence.
struct Result {
  std::vector<float> out, state;
};

// Places a call in arrays of a memory, Array<T>(content, shift), and runs it there with
// launch(arrays).
template <template <typename> typename Array, typename Launch>
std::vector<Result> RunIn(const LinearAttentionPlan& plan, const Call& call, size_t shift,
                          const Launch& launch) {
  std::vector<std::unique_ptr<Array<float>>> memory;
  const auto place = [&](const std::vector<float>& numbers) {
    memory.push_back(std::make_unique<Array<float>>(numbers, shift));
    return memory.back().get();
  };
  std::vector<LinearAttentionSegment> segments;
  std::vector<std::pair<Array<float>*, Array<float>*>> outputs;
  for (const Sequence& sequence : call.sequences) {
    outputs.emplace_back(place(std::vector<float>(sequence.rows * call.out_width(), std::nanf(""))),
                         place(sequence.state));
    segments.push_back({.q = place(sequence.q)->data(),
                        .keys = sequence.entering == 0 ? nullptr : place(sequence.keys)->data(),
                        .values = sequence.entering == 0 ? nullptr : place(sequence.values)->data(),
                        .state = outputs.back().second->data(),
                        .out = outputs.back().first->data(),
                        .rows = sequence.rows,
                        .entering = sequence.entering});
  }
  EXPECT_EQ(CheckLinearAttention(plan, segments), absl::OkStatus());
  Array<LinearAttentionSegment> on_device(segments);
  launch(LinearAttentionDeviceArrays{
      .segments = on_device.data(),
      .segment_count = static_cast<int64_t>(segments.size()),
      .initial = call.initial.empty() ? nullptr : place(call.initial)->data()});
  std::vector<Result> results;
  for (const auto& [out, state] : outputs) {
    results.push_back({out->Download(), state->Download()});
  }
  return results;
}

// The plan's thread blocks, on the host.
inline std::vector<Result> RunOnHost(const LinearAttentionPlan& plan, const Call& call,
                                     HostOrder order) {
  return RunIn<HostArray>(plan, call, 1, [&](const LinearAttentionDeviceArrays& arrays) {
    EXPECT_EQ(LinearAttentionOnHost(order, plan, arrays), absl::OkStatus());
  });
}

// With room for `spare` segments more than the call has.
template <typename Runner>
std::vector<Result> Run(const Runner& run, const Call& call, int64_t spare = 0) {
  const absl::StatusOr<LinearAttentionPlan> plan = PlanLinearAttention(
      {.segments = static_cast<int64_t>(call.sequences.size()) + spare, .shape = call.shape});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return run(*plan, call);
}

inline Sequence RandomSequence(const Call& call, int64_t rows, int64_t entering, uint32_t seed) {
  return {.rows = rows,
          .entering = entering,
          .q = Normals(rows * call.q_width(), seed),
          .keys = Normals(entering * call.key_width(), seed + 1),
          .values = Normals(entering * call.value_width(), seed + 2),
          .state = Normals(call.key_width() * call.shape.head_dim, seed + 3)};
}

inline std::vector<float> RandomInitial(const Call& call, uint32_t seed) {
  return Normals(call.q_width() * call.shape.head_dim, seed);
}

// Rows [begin, end), with the state of `before`.
inline Sequence Slice(const Call& call, const Sequence& sequence, int64_t begin, int64_t end,
                      const Result& before) {
  const auto slice = [](const std::vector<float>& all, int64_t width, int64_t from, int64_t to) {
    return std::vector<float>(all.begin() + from * width, all.begin() + to * width);
  };
  const int64_t late = sequence.rows - sequence.entering;
  const int64_t first = std::max<int64_t>(begin - late, 0), last = std::max<int64_t>(end - late, 0);
  return {.rows = end - begin,
          .entering = last - first,
          .q = slice(sequence.q, call.q_width(), begin, end),
          .keys = slice(sequence.keys, call.key_width(), first, last),
          .values = slice(sequence.values, call.value_width(), first, last),
          .state = before.state};
}

inline Result Reference(const Call& call, const Sequence& sequence) {
  Result result{std::vector<float>(sequence.rows * call.out_width()), sequence.state};
  LinearAttention(Scalar(), call.shape, sequence.q.data(), sequence.rows,
                  {sequence.keys.data(), sequence.values.data(), sequence.entering},
                  call.initial.empty() ? nullptr : call.initial.data(), result.state.data(),
                  result.out.data());
  return result;
}

inline void ExpectMatchesReference(const Call& call, const Sequence& sequence,
                                   const Result& result) {
  const Result expected = Reference(call, sequence);
  // The same over absolute values says how much was added up.
  Call sizes = call;
  Sequence absolute = sequence;
  for (auto* numbers :
       {&sizes.initial, &absolute.q, &absolute.keys, &absolute.values, &absolute.state}) {
    for (float& number : *numbers) number = std::abs(number);
  }
  const Result magnitudes = Reference(sizes, absolute);
  ASSERT_EQ(result.out.size(), expected.out.size());
  for (size_t i = 0; i < expected.out.size(); ++i) {
    EXPECT_CLOSE(result.out[i], expected.out[i], magnitudes.out[i],
                 testing::kLinearAttentionFactor);
  }
  for (size_t i = 0; i < expected.state.size(); ++i) {
    EXPECT_CLOSE(result.state[i], expected.state[i], magnitudes.state[i],
                 testing::kLinearAttentionFactor);
  }
}

inline void ExpectSameBits(const Result& actual, const Result& expected) {
  EXPECT_TRUE(SameBits(actual.out, expected.out)) << "out";
  EXPECT_TRUE(SameBits(actual.state, expected.state)) << "state";
}

// Heads, key-value heads and widths of all kinds; groups that fill a step, and that do not.
inline const LinearAttentionShape kShapes[] = {
    {1, 1, 2}, {4, 2, 8}, {6, 2, 34}, {3, 3, 10}, {2, 1, 64}, {4, 1, 128}, {9, 1, 6}, {40, 2, 16},
};

template <typename Runner>
void CheckMatchesReference(const Runner& run) {
  struct Rows {
    int64_t rows, entering;
  };
  for (const LinearAttentionShape& shape : kShapes) {
    for (const Rows& rows : {Rows{0, 0}, {1, 0}, {1, 1}, {9, 9}, {17, 3}, {8, 7}, {30, 0}}) {
      for (const bool initial : {false, true}) {
        SCOPED_TRACE(absl::StrCat(shape.heads, "/", shape.kv_heads, " heads of ", shape.head_dim,
                                  ", ", rows.rows, " rows, ", rows.entering, " enter",
                                  initial ? ", S_0" : ""));
        Call call{.shape = shape};
        if (initial) call.initial = RandomInitial(call, 9);
        call.sequences = {RandomSequence(call, rows.rows, rows.entering, 1)};
        const Result result = Run(run, call)[0];
        ExpectMatchesReference(call, call.sequences[0], result);
        if (rows.entering == 0) {
          EXPECT_TRUE(SameBits(result.state, call.sequences[0].state)) << "nothing entered";
        }
      }
    }
  }
}

// One sequence: at once, and in every cut into calls down to a row at a time, in any batch.
template <typename Runner>
void CheckSameBitsInAnyCutAndCompany(const Runner& run) {
  for (const LinearAttentionShape& shape : {kShapes[1], kShapes[2], kShapes[4]}) {
    const int64_t rows = 61;
    Call alone{.shape = shape};
    alone.initial = RandomInitial(alone, 9);
    alone.sequences = {RandomSequence(alone, rows, 50, 1)};
    const Sequence& whole = alone.sequences[0];
    const Result expected = Run(run, alone)[0];
    Call company = alone;
    company.sequences.clear();
    for (int64_t length : {1, 0, 20, 9}) {
      company.sequences.push_back(
          RandomSequence(company, length, length / 2, 50 + static_cast<uint32_t>(length)));
    }
    const std::vector<Sequence> others = company.sequences;
    const std::vector<Result> expected_others = Run(run, company, 3);
    for (const int64_t cut : {1, 3, 8, 13, 60}) {
      SCOPED_TRACE(absl::StrCat("head_dim ", shape.head_dim, ", cuts of ", cut));
      Result joined{.out = {}, .state = whole.state};
      for (int64_t begin = 0; begin < rows; begin += cut) {
        const size_t place = begin / cut % (others.size() + 1);
        company.sequences = others;
        company.sequences.insert(company.sequences.begin() + place,
                                 Slice(alone, whole, begin, std::min(begin + cut, rows), joined));
        const std::vector<Result> results = Run(run, company, begin % 2);
        joined.out.insert(joined.out.end(), results[place].out.begin(), results[place].out.end());
        joined.state = results[place].state;
        for (size_t o = 0; o < others.size(); ++o) {
          ExpectSameBits(results[o < place ? o : o + 1], expected_others[o]);
        }
      }
      ExpectSameBits(joined, expected);
    }
  }
}

// A value that is no number stays in its column of its key-value head, from its position on.
template <typename Runner>
void CheckNanStaysInItsColumn(const Runner& run) {
  const LinearAttentionShape shape = {4, 2, 10};
  const int64_t rows = 12;
  Call call{.shape = shape};
  call.sequences = {RandomSequence(call, rows, rows, 1)};
  const Result plain = Run(run, call)[0];
  call.sequences[0].values[5 * call.value_width() + 1 * shape.head_dim + 9] = std::nanf("");
  const Result result = Run(run, call)[0];
  for (int64_t i = 0; i < rows * call.out_width(); ++i) {
    const int64_t row = i / call.out_width(), head = i % call.out_width() / shape.head_dim;
    const bool is_nan = row >= 5 && head >= 2 && i % shape.head_dim == 9;
    EXPECT_EQ(std::isnan(result.out[i]), is_nan) << i;
    if (!is_nan) {
      EXPECT_EQ(cuda::BitsOf(result.out[i]), cuda::BitsOf(plain.out[i])) << i;
    }
  }
}

}  // namespace recollect::kernels::linear_cases

#endif  // RECOLLECT_TESTS_KERNELS_LINEAR_ATTENTION_LINEAR_ATTENTION_DEVICE_CHECKS_H_
