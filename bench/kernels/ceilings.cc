#include "bench/kernels/ceilings.h"

#include <omp.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "bench/kernels/timing.h"
#include "kernels/cpu/onednn_isa.h"
#include "kernels/gemm/gemm.h"

namespace recollect::bench {
namespace {

double ProductFlops(dnnl::memory::data_type type) {
  using dnnl::memory;
  const bool integers = type == memory::data_type::s8;
  constexpr int64_t kM = 768, kN = 1024, kK = 1024;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc x({kM, kK}, type, memory::format_tag::ab);
  const memory::desc w({kK, kN}, type, memory::format_tag::any);
  const memory::desc y({kM, kN}, integers ? memory::data_type::s32 : memory::data_type::f32,
                       memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, y), engine);
  const dnnl::matmul product(description);
  const memory xm(x, engine), wm(description.weights_desc(), engine), ym(y, engine);
  const auto clear = [](const memory& m) {
    auto* bytes = static_cast<uint8_t*>(m.get_data_handle());
    std::fill(bytes, bytes + m.get_desc().get_size(), uint8_t{0});
  };
  clear(xm);
  clear(wm);
  const Timing timing = Measure([&] {
    product.execute(stream, {{DNNL_ARG_SRC, xm}, {DNNL_ARG_WEIGHTS, wm}, {DNNL_ARG_DST, ym}});
    stream.wait();
  });
  return 2.0 * kM * kN * kK / timing.median_s;
}

double ReadBytes() {
  const std::vector<uint64_t> memory((size_t{256} << 20) / sizeof(uint64_t), 1);
  volatile uint64_t sink = 0;
  const Timing timing = Measure(
      [&] {
        uint64_t sums[8] = {};
        for (size_t i = 0; i < memory.size(); i += 8) {
          for (size_t j = 0; j < 8; ++j) sums[j] += memory[i + j];
        }
        for (uint64_t sum : sums) sink = sink + sum;
      },
      7);
  return static_cast<double>(memory.size() * sizeof(uint64_t)) / timing.median_s;
}

double CacheBytes() {
  const std::vector<char> memory(size_t{512} << 10, 0);
  const void* volatile found = nullptr;
  const Timing timing = Measure([&] { found = std::memchr(memory.data(), 1, memory.size()); });
  return static_cast<double>(memory.size()) / timing.median_s;
}

}  // namespace

Ceilings MeasureCeilings() {
  omp_set_num_threads(1);
  Ceilings ceilings;
  ceilings.fp32_flops = ProductFlops(dnnl::memory::data_type::f32);
  if (kernels::Bf16Supported()) ceilings.bf16_flops = ProductFlops(dnnl::memory::data_type::bf16);
  ceilings.int8_flops = ProductFlops(dnnl::memory::data_type::s8);
  ceilings.read_bytes = ReadBytes();
  ceilings.cache_bytes = CacheBytes();
  return ceilings;
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string ProductIsa() {
  if (kernels::OneDnnAllows(dnnl::cpu_isa::avx512_core_amx)) return "amx";
  if (kernels::OneDnnAllows(dnnl::cpu_isa::avx512_core_bf16)) return "avx512_bf16";
  return kernels::OneDnnAllows(dnnl::cpu_isa::avx512_core) ? "avx512" : "avx2";
}

}  // namespace recollect::bench
