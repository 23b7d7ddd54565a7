// How to lay out chunk records of 32 KiB in RocksDB: in the tables or in blob files, plain or LZ4.
// The numbers of docs/decisions/0010-chunk-records-inline.md.
//
//   store_layout_bench [--dir DIR] [--records 8192]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "base/check.h"
#include "bench/store/disk.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "store/format.h"

namespace {

using namespace recollect;
using namespace recollect::bench;

constexpr int kBatch = 16;  // records of one write and of one read
constexpr int kReads = 400;
constexpr int64_t kWidth = 256;

struct Layout {
  const char* name;
  bool blobs;
  rocksdb::CompressionType compression;
  bool interleaved;  // two documents written by turns, as concurrent ingests do
};

std::string Record(const std::string& key, std::mt19937_64& random) {
  store::ChunkRecord chunk;
  chunk.rows = kChunkTokens;
  chunk.states.resize(static_cast<size_t>(chunk.rows * kWidth));
  std::normal_distribution<float> normal;
  for (Bf16& x : chunk.states) x = Bf16::FromFloat(normal(random));
  return store::EncodeChunk(key, chunk);
}

void Run(const std::string& parent, const Layout& layout, int64_t records) {
  const std::string directory = parent + "/layout";
  std::filesystem::remove_all(directory);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = layout.compression;
  options.write_buffer_size = size_t{32} << 20;
  options.target_file_size_base = size_t{64} << 20;
  options.level_compaction_dynamic_level_bytes = true;
  options.statistics = rocksdb::CreateDBStatistics();
  if (layout.blobs) {
    options.enable_blob_files = true;
    options.min_blob_size = 4096;
    options.blob_compression_type = layout.compression;
    options.enable_blob_garbage_collection = true;
  }
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* raw = nullptr;
  RECOLLECT_CHECK(rocksdb::DB::Open(options, directory, &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);

  std::mt19937_64 random(1);
  const auto key_of = [&](int64_t i) {
    const int64_t owner = layout.interleaved ? i / kBatch % 2 + 1 : 1;
    return store::PieceKey(OwnerId{static_cast<uint64_t>(owner)}, i);
  };
  // Made before the clock starts; a few hundred different ones are enough to mean noise.
  std::vector<std::string> pool;
  for (int i = 0; i < 256; ++i) pool.push_back(Record(key_of(i), random));
  const double start = Seconds();
  for (int64_t i = 0; i < records; i += kBatch) {
    rocksdb::WriteBatch batch;
    for (int64_t k = i; k < i + kBatch; ++k) batch.Put(key_of(k), pool[k % 256]);
    RECOLLECT_CHECK(db->Write(rocksdb::WriteOptions(), &batch).ok());
  }
  RECOLLECT_CHECK(db->Flush(rocksdb::FlushOptions()).ok());
  uint64_t pending = 1;
  while (pending != 0) {
    db->GetIntProperty("rocksdb.num-running-compactions", &pending);
    usleep(10000);
  }
  const double written = Seconds() - start;
  const auto ticker = [&](auto t) {
    return static_cast<double>(options.statistics->getTickerCount(t));
  };
  const double user = static_cast<double>(records) * static_cast<double>(pool[0].size());
  // Blob files count in these too.
  const double amplification =
      (ticker(rocksdb::FLUSH_WRITE_BYTES) + ticker(rocksdb::COMPACT_WRITE_BYTES)) / user;

  rocksdb::ReadOptions read;
  read.fill_cache = false;
  double result[2][2];
  for (const bool cold : {false, true}) {
    std::vector<double> times;
    for (int r = 0; r < (cold ? kReads / 2 : kReads); ++r) {
      std::vector<int64_t> indices(kBatch);
      for (int64_t& index : indices) {
        index = static_cast<int64_t>(random() % static_cast<uint64_t>(records));
      }
      std::vector<std::string> keys;
      for (const int64_t index : indices) keys.push_back(key_of(index));
      std::sort(keys.begin(), keys.end());
      const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
      std::vector<rocksdb::PinnableSlice> values(kBatch);
      std::vector<rocksdb::Status> statuses(kBatch);
      if (cold) DropCaches(directory);
      const double begin = Seconds();
      db->MultiGet(read, db->DefaultColumnFamily(), kBatch, slices.data(), values.data(),
                   statuses.data(), true);
      times.push_back(Seconds() - begin);
      for (const auto& status : statuses) RECOLLECT_CHECK(status.ok());
    }
    result[cold][0] = Percentile(times, 0.5) * 1e3;
    result[cold][1] = Percentile(times, 0.99) * 1e3;
  }
  std::printf("%-26s %8.0f %8.2f %9.2f %10.2f %8.2f %10.2f %8.2f\n", layout.name,
              user / written / 1e6, amplification, DirectoryBytes(directory) / user, result[0][0],
              result[0][1], result[1][0], result[1][1]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string parent = "/tmp";
  int64_t records = 8192;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--dir") == 0) parent = argv[i + 1];
    if (std::strcmp(argv[i], "--records") == 0) records = std::atoll(argv[i + 1]) / kBatch * kBatch;
  }
  parent += "/recollect-layout-bench";
  std::filesystem::create_directories(parent);
  std::printf("%-26s %8s %8s %9s %10s %8s %10s %8s\n", "layout", "MB/s in", "written", "on disk",
              "warm p50", "p99 ms", "cold p50", "p99 ms");
  for (const Layout& layout : {Layout{"tables", false, rocksdb::kNoCompression, false},
                               Layout{"tables, 2 documents", false, rocksdb::kNoCompression, true},
                               Layout{"blobs", true, rocksdb::kNoCompression, false},
                               Layout{"blobs, 2 documents", true, rocksdb::kNoCompression, true},
                               Layout{"tables, LZ4", false, rocksdb::kLZ4Compression, false}}) {
    Run(parent, layout, records);
  }
  std::filesystem::remove_all(parent);
}
