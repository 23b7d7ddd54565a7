#include "kernels/gemm/gemm_strips.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/sync/mutex.h"

namespace recollect::kernels {
namespace {

using dnnl::memory;

// Outputs of a strip: two blocks of oneDNN's layouts. A product of one row then takes some
// microseconds, longer than handing it to a thread.
constexpr int64_t kStripOutputs = 128;

// Where outputs from `first` on begin, in bytes.
int64_t ByteOf(const memory::desc& whole, int64_t k, int64_t first, int64_t outputs) {
  const memory::desc part = whole.submemory_desc({k, outputs}, {0, first});
  const int64_t numbers = part.data.offset0 - whole.data.offset0;
  return numbers * static_cast<int64_t>(memory::data_type_size(whole.data_type()));
}

memory PartOf(const memory& packed, const memory::desc& layout, int64_t at_byte) {
  return {layout, GemmEngine(), static_cast<char*>(packed.get_data_handle()) + at_byte};
}

// A strip whose plan is still to be compared.
struct UntestedStrip {
  int64_t first = 0;
  int64_t outputs = 0;
  int64_t at_byte = 0;
  std::shared_ptr<Plan> plan;
};

// Cuts the outputs; strips of as many outputs share a plan.
std::vector<UntestedStrip> Cut(const Plan& whole, int64_t n, int64_t k, DType dtype) try {
  std::vector<UntestedStrip> strips;
  for (int64_t first = 0; first < n; first += kStripOutputs) {
    const int64_t outputs = std::min(kStripOutputs, n - first);
    UntestedStrip& strip = strips.emplace_back();
    strip = {first, outputs, ByteOf(whole.weights, k, first, outputs), nullptr};
    const bool alike = strips.size() > 1 && strips.front().outputs == outputs;
    strip.plan =
        alike ? strips.front().plan
              : DescribePlan(outputs, k, dtype, whole.weights.submemory_desc({k, outputs}, {0, 0}));
  }
  return strips;
} catch (const dnnl::error&) {
  return {};  // the layout has no such parts, or there is no kernel for them
}

bool HasColumns(const std::vector<float>& whole, int64_t n, const UntestedStrip& strip,
                const std::vector<float>& columns) {
  for (int row = 0; row < kTileRows[0]; ++row) {
    if (std::memcmp(whole.data() + row * n + strip.first, columns.data() + row * strip.outputs,
                    static_cast<size_t>(strip.outputs) * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

// Keeps only tiles that give a strip the bits of the whole: for small products oneDNN chooses among
// its kernels by their size.
void KeepAgreeingTiles(const Plan& whole, int64_t n, int64_t k, DType dtype,
                       std::vector<UntestedStrip>& strips) {
  TestProduct test(n, k, dtype, whole.weights);
  int size = 0;
  while (!whole.tiles[size].usable) ++size;
  const std::vector<float> expected = test.Outputs(whole, size, test.weights(), n);
  for (UntestedStrip& strip : strips) {
    const memory weights = PartOf(test.weights(), strip.plan->weights, strip.at_byte);
    for (size = 0; size < kTileSizes; ++size) {
      Tile& tile = strip.plan->tiles[size];
      if (!tile.usable) continue;
      tile.usable =
          HasColumns(expected, n, strip, test.Outputs(*strip.plan, size, weights, strip.outputs));
    }
  }
}

std::vector<Strip> MakeStrips(const Plan& plan, int64_t n, int64_t k, DType dtype) {
  std::vector<UntestedStrip> cut = Cut(plan, n, k, dtype);
  if (cut.empty()) return {};
  KeepAgreeingTiles(plan, n, k, dtype, cut);
  std::vector<Strip> strips;
  for (const UntestedStrip& strip : cut) {
    if (!strip.plan->tiles[kReferenceTile].usable) return {};
    strips.push_back({strip.first, strip.outputs, strip.at_byte, strip.plan});
  }
  return strips;
}

}  // namespace

std::shared_ptr<const std::vector<Strip>> StripsFor(const Plan& plan, int64_t n, int64_t k,
                                                    DType dtype) {
  using Strips = std::shared_ptr<const std::vector<Strip>>;
  using Key = std::tuple<int64_t, int64_t, DType>;
  static auto* const mutex = new Mutex;
  static auto* const known = new std::map<Key, Strips>;
  MutexLock lock(*mutex);
  Strips& strips = (*known)[{n, k, dtype}];
  if (strips == nullptr) {
    strips = std::make_shared<const std::vector<Strip>>(MakeStrips(plan, n, k, dtype));
  }
  return strips;
}

memory WeightsOf(const Strip& strip, const memory& packed) {
  return PartOf(packed, strip.plan->weights, strip.at_byte);
}

}  // namespace recollect::kernels
