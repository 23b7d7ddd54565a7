// What lies between the products: row by row, so that reading and writing the rows is what it costs
// at least. At the sizes of the shipped model.
#include <vector>

#include "base/check.h"
#include "base/numeric/mxint8.h"
#include "bench/kernels/op_report.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/pointer_mix/pointer_mix.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/sample.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

// Logits of a pretrained model: so many, and about so far apart.
constexpr int64_t kWideVocabulary = 49152;
constexpr float kSpread = 10;

// Of `numbers` numbers in a row, those that are written, `flops` each and `floats` read or written.
Work OfRows(int64_t numbers, int flops, int floats) {
  const int64_t count = kRows * numbers;
  return {static_cast<double>(count) * flops, Floats(count * floats)};
}

void BenchLayerRows(OpReport& report) {
  const std::vector<float> x = Numbers(kRows * 5 * kWidth, 1), gain = Numbers(2 * kFfn, 2);
  std::vector<float> y(kRows * 2 * kFfn), state(kWidth);
  const auto add = [&](const char* op, const Work& work, const auto& run) {
    ForEachFast([&](Isa isa) {
      OpContext ctx(isa);
      report.Add(op, IsaName(isa), kRows, work, [&] { run(ctx); });
    });
  };
  add("rms_norm", OfRows(kWidth, 4, 2),
      [&](OpContext& ctx) { RmsNorm(ctx, x.data(), gain.data(), 1e-6f, kRows, kWidth, y.data()); });
  add("swiglu", OfRows(kFfn, 5, 3),
      [&](OpContext& ctx) { SwiGlu(ctx, x.data(), kRows, kFfn, y.data()); });
  add("sigmoid_gate", OfRows(kWidth, 4, 3), [&](OpContext& ctx) {
    SigmoidGate(ctx, x.data(), 4 * kWidth, x.data(), kRows, kWidth, y.data());
  });
  add("rope", OfRows(kWidth, 3, 2),
      [&](OpContext& ctx) { Rope(ctx, {}, 1000000, kRows, kWidth, kHeads, kHeadDim, y.data()); });
  add("gated_scan", OfRows(kWidth, 8, 3), [&](OpContext& ctx) {
    GatedScan(ctx, x.data() + kWidth, gain.data(), x.data(), 5 * kWidth, kRows, kWidth,
              state.data(), y.data(), kWidth);
  });
  add("add", OfRows(kWidth, 1, 3),
      [&](OpContext& ctx) { Add(ctx, x.data(), kRows * kWidth, y.data()); });
  add("round_to_bf16", OfRows(kWidth, 1, 2),
      [&](OpContext& ctx) { kernels::RoundToBf16(ctx, y.data(), kRows * kWidth); });
}

// One row of logits, as a decode step has it.
void BenchHead(OpReport& report) {
  const std::vector<float> fresh = Numbers(kVocabulary, 1);
  std::vector<float> logits = fresh;
  std::vector<PointedToken> pointed;
  for (int32_t i = 1; i <= 16; ++i) pointed.push_back({i * 200, 1});
  ForEachFast([&](Isa isa) {
    OpContext ctx(isa);
    report.Add("pointer_mix", IsaName(isa), 1,
               {3.0 * kVocabulary, Floats(kVocabulary + 4 * std::ssize(pointed))}, [&] {
                 logits[0] = fresh[0];  // the sentinel's, and those that the call before has raised
                 for (const PointedToken& to : pointed) logits[to.token] = fresh[to.token];
                 MixPointed(ctx, kVocabulary, 0, pointed, logits.data());
               });
  });
  SampleScratch scratch;
  volatile int32_t chosen = 0;
  report.Add("sample greedy", "any", 1, {1.0 * kVocabulary, Floats(kVocabulary)},
             [&] { chosen = Sample(fresh, {}, {}, scratch); });
  std::vector<float> wide = Numbers(kWideVocabulary, 1);
  for (float& logit : wide) logit *= kSpread;
  const auto sample = [&](const char* name, const SampleSettings& settings) {
    report.Add(name, IsaName(DetectIsa()), 1, {1.0 * kWideVocabulary, Floats(kWideVocabulary)},
               [&] { chosen = Sample(wide, settings, {}, scratch); });
  };
  sample("sample 49152", {.temperature = 0.8f, .draw = 0.5});
  sample("sample 49152, top-p", {.temperature = 0.8f, .top_p = 0.95, .draw = 0.5});
  sample("sample 49152, top-k", {.temperature = 0.8f, .top_k = 40, .draw = 0.5});
}

// The states of one chunk: rounded when it is encoded, written, and read when it is fetched.
void BenchChunkStates(OpReport& report) {
  constexpr int64_t kTokens = 63;
  const std::vector<Bf16> fresh = Bf16Numbers(kTokens * kWidth, 1);
  std::vector<Bf16> states = fresh;
  std::vector<uint8_t> bytes(MxInt8Bytes(states.size()));
  const auto numbers = static_cast<double>(states.size());
  const double wide = numbers * sizeof(Bf16), narrow = static_cast<double>(bytes.size());
  report.Add("round to MXINT8", "any", kTokens, {6 * numbers, 2 * wide},
             [&] { RoundToMxInt8(states); });
  report.Add("encode MXINT8", "any", kTokens, {2 * numbers, wide + narrow},
             [&] { EncodeMxInt8(states, bytes); });
  report.Add("decode MXINT8", "any", kTokens, {numbers, wide + narrow},
             [&] { RECOLLECT_CHECK(DecodeMxInt8(bytes, states)); });
}

}  // namespace

void BenchRowOps(OpReport& report) {
  BenchLayerRows(report);
  BenchHead(report);
  BenchChunkStates(report);
}

}  // namespace recollect::bench
