#include "kernels/gemm/quant_gemm.h"

#include <algorithm>
#include <cstring>

#include "base/numeric/round_up.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/onednn_isa.h"

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

// Panels that a thread of a team multiplies at a time, some 50 KB of weights: microseconds.
constexpr int64_t kPanelsShared = 8;

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

// Cuts the outputs of a matrix for a team; for one thread, parts stay whole.
std::vector<SomeOutputs> CutOutputs(const OpContext& ctx, const QuantMatrix& weights) {
  std::vector<SomeOutputs> all;
  int64_t first = 0;
  for (const QuantPanels& part : weights.parts()) {
    const int64_t step = ctx.has_team() ? kPanelsShared * kQuantPanel : part.outputs;
    for (int64_t at = 0; at < part.outputs; at += step) {
      const uint8_t* bytes =
          part.bytes + at / kQuantPanel * QuantPanelBytes(LayoutOf(part.format), weights.k());
      all.push_back({{part.format, std::min(step, part.outputs - at), bytes}, first + at});
    }
    first += part.outputs;
  }
  return all;
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

void QuantGemmBy(OpContext& ctx, const QuantCode& code, const QuantMatrix& weights, const float* x,
                 int64_t rows, float* y) {
  const int64_t n = weights.n(), k = weights.k(), groups = k / kQuantGroup;
  const std::vector<SomeOutputs> outputs = CutOutputs(ctx, weights);
  for (int64_t r = 0; r < rows; r += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - r);
    const int64_t padded = RoundUp(count, kQuantTileRows);
    auto* codes = Scratch<int8_t>(ctx, kCodes, padded * k);
    auto* scales = Scratch<QuantGroup>(ctx, kGroups, padded * groups);
    code.round(x + r * k, count, k, codes, scales);
    std::memset(codes + count * k, 0, (padded - count) * k);
    std::fill_n(scales + count * groups, (padded - count) * groups, QuantGroup{});
    ctx.Share(static_cast<int>(outputs.size()), [&](OpContext& own, int part) {
      const SomeOutputs& some = outputs[static_cast<size_t>(part)];
      code.multiply(some.panels, {codes, scales, count, k}, y + r * n + some.first, n,
                    Scratch<uint8_t>(own, kPanel, QuantScratchBytes(k)));
    });
  }
}

}  // namespace recollect::kernels
