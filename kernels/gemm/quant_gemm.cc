#include "kernels/gemm/quant_gemm.h"

#include <algorithm>
#include <cstring>

#include "base/numeric/round_up.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/onednn_isa.h"
#include "kernels/cpu/op_team.h"

namespace recollect::kernels {
namespace reference {
RoundQuantRows RoundRows;
MultiplyQuantPanels MultiplyQuant;
}  // namespace reference
namespace avx512 {
MultiplyQuantPanels MultiplyQuantByTiles;
}  // namespace avx512
RECOLLECT_CPU_CODE(RoundQuantRows, RoundRows, reference::RoundRows)
RECOLLECT_CPU_CODE(MultiplyQuantPanels, MultiplyQuant, reference::MultiplyQuant)

namespace {

constexpr ScratchName kCodes, kGroups, kPanel;

// Bytes of weights that a thread of a team multiplies at a time: microseconds.
constexpr int64_t kBytesShared = 48 << 10;

// Rows that are rounded together: their codes stay in the second-level cache beside a panel.
constexpr int64_t kRowsAtOnce = 256;

const std::vector<QuantCode>& CodesOf(Isa isa) {
  static const std::vector<QuantCode> codes[] = {QuantCodes(Isa::kScalar), QuantCodes(Isa::kAvx2),
                                                 QuantCodes(Isa::kAvx512)};
  return codes[static_cast<int>(isa)];
}

// Some outputs of a matrix, and which they are.
struct SomeOutputs {
  QuantPanels panels;
  int64_t first = 0;
};

int64_t PanelBytesOf(const QuantPanels& tensor, int64_t k) {
  return QuantPanelBytes(LayoutOf(tensor.format), k);
}

// Rounds up.
int64_t Quotient(int64_t a, int64_t b) { return RoundUp(a, b) / b; }

// How the outputs of a tensor are cut.
struct Cut {
  int64_t parts = 1;
  int64_t step = 0;  // outputs
};

// For a team, into an even number of parts if there are several, so that two threads have as much
// to do; for one thread, not at all.
Cut CutOf(const OpContext& ctx, const QuantPanels& tensor, int64_t k) {
  if (!ctx.has_team()) return {1, tensor.outputs};
  const int64_t panels = Quotient(tensor.outputs, kQuantPanel);
  const int64_t wanted = Quotient(panels * PanelBytesOf(tensor, k), kBytesShared);
  const int64_t step = Quotient(panels, wanted > 1 ? RoundUp(wanted, 2) : 1);
  return {Quotient(panels, step), step * kQuantPanel};
}

int PartsOf(const OpContext& ctx, const QuantMatrix& weights) {
  int64_t parts = 0;
  for (const QuantPanels& tensor : weights.parts()) parts += CutOf(ctx, tensor, weights.k()).parts;
  return static_cast<int>(parts);
}

// Part `part` of a tensor.
QuantPanels OutputsOf(const QuantPanels& tensor, const Cut& cut, int64_t k, int64_t part) {
  const int64_t first = part * cut.step;
  return {tensor.format, std::min(cut.step, tensor.outputs - first),
          tensor.bytes + first / kQuantPanel * PanelBytesOf(tensor, k)};
}

// Part `part` of the matrix, 0 <= part < PartsOf.
SomeOutputs OutputsOf(const OpContext& ctx, const QuantMatrix& weights, int64_t part) {
  int64_t first = 0;
  const QuantPanels* tensor = weights.parts().data();
  Cut cut = CutOf(ctx, *tensor, weights.k());
  for (; part >= cut.parts; cut = CutOf(ctx, *++tensor, weights.k())) {
    part -= cut.parts;
    first += tensor->outputs;
  }
  return {OutputsOf(*tensor, cut, weights.k(), part), first + part * cut.step};
}

// The bytes of the parts of those who serve a team: what is behind them in the matrix.
std::span<const uint8_t> SecondHalf(const OpContext& ctx, const QuantMatrix& weights) {
  const int first = TwoHalves::FirstOfSecond(PartsOf(ctx, weights));
  const uint8_t* const begin = OutputsOf(ctx, weights, first).panels.bytes;
  const QuantPanels& last = weights.parts().back();
  const uint8_t* const end =
      last.bytes + Quotient(last.outputs, kQuantPanel) * PanelBytesOf(last, weights.k());
  return {begin, end};
}

template <typename T>
T* Scratch(OpContext& ctx, const ScratchName& name, int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  return reinterpret_cast<T*>(ctx.Floats(name, (bytes + 3) / 4));
}

}  // namespace

std::vector<QuantCode> QuantCodes(Isa isa) {
  std::vector<QuantCode> codes = {{"scalar", kRoundRows.reference, kMultiplyQuant.reference}};
#if defined(RECOLLECT_SIMD)
  if (isa >= Isa::kAvx2) codes.push_back({"avx2", kRoundRows.avx2, kMultiplyQuant.avx2});
  // oneDNN also asks the operating system for AMX's registers.
  if (isa >= Isa::kAvx512 && OneDnnAllows(dnnl::cpu_isa::avx512_core_vnni)) {
    codes.push_back({"avx512_vnni", kRoundRows.avx512, kMultiplyQuant.avx512});
    if (OneDnnAllows(dnnl::cpu_isa::avx512_core_amx)) {
      codes.push_back({"amx", kRoundRows.avx512, avx512::MultiplyQuantByTiles, kFewestTileRows});
    }
  }
#endif
  return codes;
}

void QuantGemm(OpContext& ctx, const QuantMatrix& weights, const float* x, int64_t rows, float* y) {
  const std::vector<QuantCode>& codes = CodesOf(ctx.isa());
  size_t best = codes.size() - 1;
  while (codes[best].fewest_rows > rows && best > 0) --best;
  QuantGemmBy(ctx, codes[best], weights, x, rows, y);
}

void ReadQuantSoon(OpContext& ctx, const QuantMatrix& weights) {
  const std::span<const uint8_t> half = SecondHalf(ctx, weights);
  ctx.team()->ahead().Add(half.data(), std::ssize(half));
}

void QuantGemmBy(OpContext& ctx, const QuantCode& code, const QuantMatrix& weights, const float* x,
                 int64_t rows, float* y) {
  const int64_t n = weights.n(), k = weights.k(), groups = k / kQuantGroup;
  const int parts = PartsOf(ctx, weights);
  if (ctx.has_team()) ctx.team()->ahead().Reached(SecondHalf(ctx, weights).data());
  for (int64_t r = 0; r < rows; r += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - r);
    // Code for few rows reads no more of them.
    const int64_t padded = code.fewest_rows > 0 ? RoundUp(count, kQuantTileRows) : count;
    auto* codes = Scratch<int8_t>(ctx, kCodes, padded * k);
    auto* scales = Scratch<QuantGroup>(ctx, kGroups, padded * groups);
    code.round(x + r * k, count, k, codes, scales);
    std::memset(codes + count * k, 0, (padded - count) * k);
    std::fill_n(scales + count * groups, (padded - count) * groups, QuantGroup{});
    TwoHalves order(parts);
    ctx.Share(parts, [&](OpContext& own, int) {
      const SomeOutputs some = OutputsOf(ctx, weights, order.Next(own));
      code.multiply(some.panels, {codes, scales, count, k}, y + r * n + some.first, n,
                    Scratch<uint8_t>(own, kPanel, QuantScratchBytes(k)));
    });
  }
}

}  // namespace recollect::kernels
