// The CUDA operations at the sizes of the RAT+ operator's published numbers and of served models,
// beside the published times, the targets and this device's own ceilings; and what uploads and
// launches cost, by the wall clock.
//
//   cuda_bench [--json FILE] [--commit TEXT] [--cases PART ...]
//
// Answers are checked on a few rows before anything is timed. A case that does not fit into the
// device's memory says so, and the others go on. Exits with 0, with 1 when an answer was wrong or a
// case failed, with 2 when there is no device.
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/kernels/cuda_cases.h"
#include "bench/kernels/cuda_device_cases.h"
#include "bench/kernels/family_cases.h"
#include "bench/kernels/sparse_case.h"
#include "kernels/cuda/cuda_device.h"

namespace recollect::bench {
namespace {

const char* NameOf(DType dtype) { return dtype == DType::kBf16 ? "" : ", fp32"; }

void BenchAttention(Report& report) {
  constexpr int64_t kTokens = 262144;
  Case scan;
  scan.name = absl::StrCat("gated scan, ", kTokens, " x ", kWidth);
  scan.published_ms = 15.7;
  scan.target = "<= 2 ms";
  report.Try(scan, [&] { return Scan(report, scan, kTokens); });
  const auto decode = [&](DType dtype, int64_t batch, int64_t tokens, double published_ms,
                          const char* target) {
    const int64_t entries = tokens / 16;
    Case c;
    c.name = absl::StrCat("decode, ", batch, " x ", tokens, " tokens, D 16", NameOf(dtype));
    if (dtype == DType::kBf16) c.peer = absl::StrCat("decode, ", batch, " x ", entries);
    c.published_ms = published_ms;
    c.target = target;
    const bool graph = batch == 1 || tokens <= 16384;
    report.Try(c, [&] { return Decode(report, c, dtype, batch, entries, graph); });
  };
  const auto prefill = [&](DType dtype, int64_t dilation, double published_ms, const char* target) {
    Case c;
    c.name = absl::StrCat("prefill, ", kTokens, " tokens, D ", dilation, NameOf(dtype));
    if (dilation == 1) c.peer = absl::StrCat("prefill, ", kTokens);
    c.published_ms = published_ms;
    c.target = target;
    report.Try(c, [&] { return Prefill(report, c, dtype, kTokens, dilation); });
  };
  const DType bf16 = DType::kBf16, fp32 = DType::kFloat32;
  decode(bf16, 1, 4096, 0, "<= 0.05 ms by graph");
  decode(bf16, 512, 4096, 0.45, ">= 90 % of copy");
  decode(bf16, 512, 16384, 1.29, ">= 90 % of copy");
  decode(bf16, 512, 65536, 4.71, ">= 90 % of copy");
  decode(bf16, 512, 262144, 18.15, ">= 90 % of copy");
  decode(bf16, 128, 262144, 0, ">= 90 % of copy");  // where 512 such caches have no room
  prefill(bf16, 64, 107.9, "<= 15 ms");
  prefill(bf16, 16, 143.6, "<= 36 ms");
  prefill(bf16, 1, 942.0, "");
  // What models in fp32 run.
  decode(fp32, 512, 4096, 0, "");
  decode(fp32, 512, 16384, 0, "");
  prefill(fp32, 64, 0, "");
}

void BenchMemory(Report& report) {
  Case blocks;
  blocks.name = "gca bf16, 512 blocks of 64 x 8 chunks x 64";
  blocks.target = ">= 50 % of gemm";
  report.Try(blocks, [&] { return GroupedCrossAttention(report, blocks, 512, 64, 1024); });
  Case decode;  // each row with chunks of its own
  decode.name = "gca bf16, 512 rows x 8 chunks x 64";
  report.Try(decode, [&] { return GroupedCrossAttention(report, decode, 512, 1, 4096); });
  // The first is what 16 million tokens have.
  for (int64_t keys : {int64_t{266305}, int64_t{1} << 20, int64_t{1} << 22}) {
    for (int64_t queries : {1, 64}) {
      Case top;
      top.name = absl::StrCat("landmark top-8, ", keys, " x 256, ", queries,
                              queries == 1 ? " query" : " queries");
      report.Try(top, [&] { return LandmarkSearch(report, top, keys, queries); });
    }
  }
  for (const auto& [words, width] : {std::pair{5, 0}, {63, 0}, {63, 256}}) {
    Case sparse;
    sparse.name = absl::StrCat("sparse top-8, 290000 blocks, ", words, " words",
                               width > 0 ? absl::StrCat(" and ", width, " channels") : "");
    report.Try(sparse, [&] { return SparseSearchOf16M(report, sparse, words, width); });
  }
}

// Of the 7M model that is served (d 256, FFN 640, vocabulary 4096), and of one with H = 2048.
void BenchProducts(Report& report) {
  const absl::StatusOr<kernels::CublasLt> lt = kernels::CublasLt::Create();
  for (auto [n, k] : {std::pair<int64_t, int64_t>{1280, 256},
                      {256, 640},
                      {4096, 256},
                      {6144, 2048},
                      {2048, 5632},
                      {11264, 2048}}) {
    for (int64_t rows : {1, 64, 512, 8192}) {
      Case c;
      c.name = absl::StrCat("gemm bf16, ", rows, " x ", k, " x ", n);
      report.Try(c, [&, shape = kernels::GemmShape{n, k, DType::kBf16}, rows] {
        return lt.ok() ? Product(report, *lt, c, shape, rows, 1) : lt.status();
      });
    }
    // What one takes without its launch: the time of the graph, by 16.
    for (int64_t rows : {1, 64}) {
      Case c;
      c.name = absl::StrCat("16 products, ", rows, " x ", k, " x ", n);
      report.Try(c, [&, shape = kernels::GemmShape{n, k, DType::kBf16}, rows] {
        return lt.ok() ? Product(report, *lt, c, shape, rows, 16) : lt.status();
      });
    }
  }
}

// What goes through kernels/device/device.h.
class DeviceBench {
 public:
  explicit DeviceBench(Report& report) : report_(report), device_(kernels::OpenCudaDevice(0)) {}

  // One decode step of a layer, between its products. What 8 sequences read stays in the caches of
  // a large device: then more than all of copy.
  void BenchDecode() const {
    constexpr int64_t kTokens = 4096, kDilation = 16;
    for (int64_t batch : {8, 64}) {
      Case c;
      c.name = absl::StrCat("decode step, ", batch, " x ", kTokens, " tokens, D ", kDilation);
      if (batch == 8) c.target = "<= 0.05 ms by graph";
      const DecodeSizes sizes = {.batch = batch,
                                 .heads = kHeads,
                                 .head_dim = kHeadDim,
                                 .position = kTokens - 1,
                                 .entries = kTokens / kDilation};
      const bool graph = true;
      Operation(
          c, [&](kernels::Device& device) { return RatPlusDecodeCase(device, sizes); }, graph);
    }
  }

  // Of a model of 1.5 billion parameters: 16 heads of 128.
  void BenchFamilies() const {
    for (bool mean : {false, true}) {
      const kernels::BlockBoundsSizes sizes = {
          .blocks = 1024, .block = 64, .width = 2048, .mean = mean};
      Operation({.name = absl::StrCat("block bounds, 1024 x 64 x 2048", mean ? ", mean" : "")},
                [&](kernels::Device& device) { return BlockBoundsCase(device, sizes); });
    }
    for (bool shared : {false, true}) {
      const kernels::BlockTopKSizes sizes = {.rows = shared ? 512 : 64,
                                             .heads = 16,
                                             .head_dim = 128,
                                             .block = 64,
                                             .count = 16,
                                             .max_position = 65535};
      Operation({.name = absl::StrCat("block top-16 of 1024, ", sizes.rows,
                                      shared ? " rows of one" : " sequences")},
                [&](kernels::Device& device) { return BlockTopKCase(device, sizes, shared); });
    }
    for (auto [name, map] : {std::pair{"softmax", kernels::FeatureMap::kSoftmax},
                             std::pair{"relu", kernels::FeatureMap::kRelu}}) {
      Operation({.name = absl::StrCat("features, ", name, ", 16384 x 2048")},
                [map = map](kernels::Device& device) {
                  return FeaturesCase(device, map, 16384, 16, 128);
                });
    }
    for (auto [sequences, rows] : {std::pair<int64_t, int64_t>{64, 1}, {8, 1024}}) {
      const kernels::LinearAttentionSizes sizes = {
          .segments = sequences, .shape = {.heads = 16, .kv_heads = 16, .head_dim = 128}};
      Operation({.name = absl::StrCat("linear attention, ", sequences, " x ", rows,
                                      rows == 1 ? " row" : " rows")},
                [&, rows = rows](kernels::Device& device) {
                  return LinearAttentionCase(device, sizes, rows);
                });
    }
  }

  // Chunks of the 7M model that is served: 63 states of 256 Bf16.
  void BenchByClock() const {
    double link_bytes = 0;
    for (auto [name, chunks, numbers] :
         {std::tuple<const char*, int64_t, int64_t>{"64 MiB", 1, int64_t{32} << 20},
          {"1 chunk of 63 x 256", 1, 63 * 256},
          {"64 chunks of 63 x 256", 64, 63 * 256}}) {
      Try({.name = absl::StrCat("upload, ", name)},
          [&, name = name, chunks = chunks, numbers = numbers](kernels::Device& device) {
            return Uploads(report_, device, name, chunks, numbers, link_bytes);
          });
    }
    Try({.name = "96 operations on 1024 floats"},
        [&](kernels::Device& device) { return Launches(report_, device, 96, 1024); });
  }

 private:
  template <typename Bench>
  void Try(const Case& c, const Bench& bench) const {
    report_.Try(c, [&] { return device_.ok() ? bench(**device_) : device_.status(); });
  }
  void Operation(const Case& c, const MakeCase& make, bool graph = false) const {
    Try(c, [&](kernels::Device& device) { return OnDevice(report_, device, c, make, graph); });
  }

  Report& report_;
  const absl::StatusOr<std::shared_ptr<kernels::Device>> device_;
};

int Main(int argc, char** argv) {
  std::string json_path, commit = "unknown";
  CLI::App app("Times the operations of a CUDA device.");
  app.add_option("--json", json_path);
  app.add_option("--commit", commit);
  std::vector<std::string> cases;
  app.add_option("--cases", cases, "only cases with one of these in their names");
  CLI11_PARSE(app, argc, argv);
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "NOT RUN: no CUDA device (%s)\n", cudaGetErrorString(error));
    return 2;
  }
  const absl::StatusOr<kernels::CudaStream> stream = kernels::CreateStream();
  absl::StatusOr<Report> report = stream.ok() ? Report::Create(stream->get(), commit, json_path)
                                              : absl::StatusOr<Report>(stream.status());
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
    return 1;
  }
  report->Choose(std::move(cases));
  BenchProducts(*report);
  BenchMemory(*report);
  BenchAttention(*report);
  const DeviceBench device(*report);
  device.BenchDecode();
  device.BenchFamilies();
  device.BenchByClock();
  return report->failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) { return recollect::bench::Main(argc, argv); }
