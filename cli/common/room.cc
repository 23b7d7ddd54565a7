#include "cli/common/room.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/numeric/bf16.h"
#include "base/numeric/mxint8.h"

namespace recollect::cli {
namespace {

constexpr int64_t kKeyBytes = 2;  // bf16, each number
constexpr int64_t kTokenBytes = 4;

TextSize Scaled(const TextSize& size, double factor) {
  const auto scaled = [&](int64_t n) { return std::llround(static_cast<double>(n) * factor); };
  return {scaled(size.bytes), scaled(size.tokens), scaled(size.chunks)};
}

std::string Readable(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMiB);
}

// Of chunk states on disk.
int64_t StatesBytes(int64_t numbers, const v1::Stats& stats) {
  return stats.chunk_states_format() == "mxint8"
             ? static_cast<int64_t>(MxInt8Bytes(static_cast<size_t>(numbers)))
             : numbers * int64_t{sizeof(Bf16)};
}

}  // namespace

TextSize ScaledToBytes(const TextSize& size, int64_t bytes) {
  return Scaled(size, static_cast<double>(bytes) / static_cast<double>(size.bytes));
}

Room RoomFor(const v1::ModelInfo& model, const v1::Stats& stats, const TextSize& size) {
  Room room;
  room.disk_bytes = size.bytes + size.tokens * kTokenBytes;
  if (model.groups() == 0) return room;
  room.landmark_bytes = size.chunks * model.retrieval_width() * kKeyBytes;
  room.disk_bytes += room.landmark_bytes + StatesBytes(size.tokens * model.width(), stats);
  // Sketches are in memory only.
  if (stats.landmark_sketch_chunks() > 0 && size.chunks >= stats.landmark_sketch_chunks()) {
    room.landmark_bytes += size.chunks * stats.landmark_sketch_key_bytes();
  }
  return room;
}

absl::Status CheckRoom(const std::string& what, const v1::Stats& stats, const Room& to_write,
                       const Room& whole) {
  if (stats.store_free_bytes() > 0 && to_write.disk_bytes > stats.store_free_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs about ", Readable(to_write.disk_bytes), " of disk, ",
                     Readable(stats.store_free_bytes()), " are free"));
  }
  if (whole.landmark_bytes > stats.landmark_budget_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs about ", Readable(whole.landmark_bytes),
                     " for its landmark keys, the budget (--landmark-budget) is ",
                     Readable(stats.landmark_budget_bytes())));
  }
  return absl::OkStatus();
}

}  // namespace recollect::cli
