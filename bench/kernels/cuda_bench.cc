// The CUDA operations at the sizes of the RAT+ operator's published numbers and of served models,
// beside the published times, the targets and this device's own ceilings.
//
//   cuda_bench [--json FILE] [--commit TEXT]
//
// Answers are checked on a few rows before anything is timed. A case that does not fit into the
// device's memory says so, and the others go on. Exits with 0, with 1 when an answer was wrong or a
// case failed, with 2 when there is no device.
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "bench/kernels/cuda_cases.h"

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
        return lt.ok() ? Product(report, *lt, c, shape, rows) : lt.status();
      });
    }
  }
}

int Main(int argc, char** argv) {
  std::string json_path, commit = "unknown";
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && std::strcmp(argv[i], "--json") == 0) {
      json_path = argv[i + 1];
    } else if (i + 1 < argc && std::strcmp(argv[i], "--commit") == 0) {
      commit = argv[i + 1];
    } else {
      std::fprintf(stderr, "usage: cuda_bench [--json FILE] [--commit TEXT]\n");
      return 1;
    }
  }
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
  BenchProducts(*report);
  BenchMemory(*report);
  BenchAttention(*report);
  return report->failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace recollect::bench

int main(int argc, char** argv) { return recollect::bench::Main(argc, argv); }
