#include "kernels/gemm/gemm_cuda_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace recollect::kernels {
namespace {

constexpr int64_t kBf16Multiple = 8;
constexpr int64_t kMaxSide = int64_t{1} << 28;  // bytes of a matrix stay within 64 bits

// Around the sides of the tiles that algorithms have, and what decode steps and prefills bring.
constexpr int64_t kTestedRows[] = {1,   2,   3,   4,   5,   7,   8,    12,   16,
                                   17,  24,  32,  33,  48,  63,  64,   65,   96,
                                   127, 128, 192, 256, 384, 512, 1000, 2048, 4096};
// What a product costs besides its rows, in rows: an estimate that no device has measured.
constexpr int64_t kProductRows = 64;
// What a plan may cost that ends the search for others: in multiples of one product without
// padding.
constexpr double kGoodCost = 1.5;

// A product is never of more rows than were tested, and what is tested takes device memory for y.
constexpr int64_t kMaxRows = 8192, kMinRows = 512;
constexpr int64_t kTestBytes = int64_t{256} << 20;

const char* NameOf(DType dtype) { return dtype == DType::kBf16 ? "bf16" : "fp32"; }

// The row's bits in products of a number of rows, by algorithm; tried once each.
class Trials {
 public:
  // `counts`: the numbers of rows, from few to many.
  Trials(int algorithms, std::vector<int64_t> counts, const GemmTrial& trial)
      : counts_(std::move(counts)),
        trial_(trial),
        bits_(static_cast<size_t>(algorithms), std::vector<std::optional<std::string>>(size())) {}

  int algorithms() const { return static_cast<int>(bits_.size()); }
  size_t size() const { return counts_.size(); }

  // Empty: the algorithm does not run, or the row's bits differ with its place. One row alone has
  // only one place, which is tried as often as the others: a result must repeat, too.
  absl::StatusOr<std::string> Bits(int algorithm, size_t count) {
    std::optional<std::string>& known = bits_[static_cast<size_t>(algorithm)][count];
    if (known.has_value()) return *known;
    std::string bits;
    const int64_t rows = counts_[count];
    for (int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
      absl::StatusOr<std::string> row = trial_(algorithm, rows, place);
      if (!row.ok() && !absl::IsUnimplemented(row.status())) return row.status();
      const bool same = row.ok() && (bits.empty() || *row == bits);
      bits = same ? *std::move(row) : "";
      if (!same) break;
    }
    known = bits;
    return bits;
  }

  absl::StatusOr<bool> AgreesOnAll(int algorithm) {
    ASSIGN_OR_RETURN(const std::string first, Bits(algorithm, 0));
    for (size_t count = 0; count < size(); ++count) {
      ASSIGN_OR_RETURN(const std::string bits, Bits(algorithm, count));
      if (bits.empty() || bits != first) return false;
    }
    return true;
  }

  absl::Status TryAll() {
    for (int algorithm = 0; algorithm < algorithms(); ++algorithm) {
      for (size_t count = 0; count < size(); ++count) {
        RETURN_IF_ERROR(Bits(algorithm, count).status());
      }
    }
    return absl::OkStatus();
  }

  // Of what was tried, all bits that any algorithm gave, in its order.
  std::vector<std::string> KnownBits() const {
    std::vector<std::string> all;
    for (const auto& of_algorithm : bits_) {
      for (const std::optional<std::string>& bits : of_algorithm) {
        if (!bits.has_value() || bits->empty()) continue;
        if (std::find(all.begin(), all.end(), *bits) == all.end()) all.push_back(*bits);
      }
    }
    return all;
  }

  // Every number of rows that has these bits, in as few ranges as can be. Numbers between two that
  // were tried belong to a range only if its algorithm had the bits at both.
  absl::StatusOr<GemmPlan> PlanOf(const std::string& wanted) {
    GemmPlan plan;
    for (size_t begin = 0; begin < size();) {
      size_t best_end = begin;
      GemmRange best;
      for (int algorithm = 0; algorithm < algorithms() && best_end < size(); ++algorithm) {
        size_t end = begin;
        for (; end < size(); ++end) {
          ASSIGN_OR_RETURN(const std::string bits, Bits(algorithm, end));
          if (bits != wanted) break;
        }
        if (end <= best_end) continue;
        best_end = end;
        best = {counts_[begin], counts_[end - 1], algorithm};
        if (plan.ranges.empty() || plan.piece_rows() != counts_[begin - 1]) continue;
        ASSIGN_OR_RETURN(const std::string before, Bits(algorithm, begin - 1));
        if (before == wanted) best.min_rows = counts_[begin - 1] + 1;
      }
      if (best_end > begin) plan.ranges.push_back(best);
      begin = std::max(best_end, begin + 1);
    }
    return plan;
  }

  // What a call costs, in multiples of one product without padding, on average over the numbers of
  // rows.
  double Cost(const GemmPlan& plan) const {
    double cost = 0;
    for (const int64_t rows : counts_) {
      int64_t computed = 0;
      GemmPiece piece;
      for (int64_t first = 0; first < rows; first += piece.rows) {
        piece = PieceAt(plan, first, rows);
        computed += piece.product_rows + kProductRows;
      }
      cost += static_cast<double>(computed) / static_cast<double>(rows + kProductRows);
    }
    return cost / static_cast<double>(size());
  }

 private:
  const std::vector<int64_t> counts_;
  const GemmTrial& trial_;
  std::vector<std::vector<std::optional<std::string>>> bits_;
};

absl::Status CheckAligned(const GemmShape& shape, const char* what, const void* pointer,
                          int64_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("product of ", NameOf(shape), ": ", what, " begin ",
                   reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment),
                   " bytes past a multiple of ", alignment));
}

}  // namespace

absl::Status CheckGemmShape(const GemmShape& shape) {
  const std::string name = NameOf(shape);
  if (shape.n < 1 || shape.k < 1 || shape.n > kMaxSide || shape.k > kMaxSide) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", expected sides of 1 to ", kMaxSide));
  }
  if (shape.in == DType::kBf16 && (shape.n % kBf16Multiple != 0 || shape.k % kBf16Multiple != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", expected multiples of ", kBf16Multiple));
  }
  if (shape.in == DType::kFloat32 && shape.out == DType::kBf16) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", expected fp32 from fp32"));
  }
  if (shape.add && shape.out == DType::kBf16) {
    return absl::InvalidArgumentError(
        absl::StrCat("product of ", name, ", added, expected to be added to fp32"));
  }
  return absl::OkStatus();
}

std::string NameOf(const GemmShape& shape) {
  return absl::StrCat(shape.n, " x ", shape.k, " ", NameOf(shape.in), " to ", NameOf(shape.out));
}

int64_t BytesOf(DType dtype) { return dtype == DType::kBf16 ? 2 : 4; }

int64_t RowAlignment(int64_t row_bytes) { return std::min<int64_t>(16, row_bytes & -row_bytes); }

absl::Status CheckGemmAddresses(const GemmShape& shape, const void* weights, const void* x,
                                const void* y) {
  RETURN_IF_ERROR(CheckAligned(shape, "weights", weights, kGemmWeightsAlignment));
  RETURN_IF_ERROR(CheckAligned(shape, "x", x, RowAlignment(shape.k * BytesOf(shape.in))));
  return CheckAligned(shape, "y", y, RowAlignment(shape.n * BytesOf(shape.out)));
}

int64_t MostTestedRows(const GemmShape& shape) {
  return std::clamp(kTestBytes / (shape.n * BytesOf(shape.out)), kMinRows, kMaxRows);
}

absl::StatusOr<GemmPlan> ChooseGemm(const GemmShape& shape, int algorithms,
                                    const GemmTrial& trial) {
  const int64_t most_rows = MostTestedRows(shape);
  std::vector<int64_t> tested;
  for (int64_t rows : kTestedRows) {
    if (rows < most_rows) tested.push_back(rows);
  }
  tested.push_back(most_rows);
  Trials trials(algorithms, std::move(tested), trial);
  for (int algorithm = 0; algorithm < algorithms; ++algorithm) {
    ASSIGN_OR_RETURN(const bool agrees, trials.AgreesOnAll(algorithm));
    if (agrees) return GemmPlan{{{1, most_rows, algorithm}}};
  }
  GemmPlan best;
  double best_cost = 0;
  for (const bool all : {false, true}) {  // first with what is known by now
    if (all) RETURN_IF_ERROR(trials.TryAll());
    for (const std::string& bits : trials.KnownBits()) {
      ASSIGN_OR_RETURN(GemmPlan plan, trials.PlanOf(bits));
      const double cost = trials.Cost(plan);
      if (!best.ranges.empty() && cost >= best_cost) continue;
      best = std::move(plan);
      best_cost = cost;
      if (best.padded_rows() == 0 && best.piece_rows() == most_rows) return best;
    }
    if (!best.ranges.empty() && best_cost <= kGoodCost) return best;
  }
  if (!best.ranges.empty()) return best;
  return absl::UnimplementedError(absl::StrCat("product of ", NameOf(shape), ": none of ",
                                               algorithms, " algorithms runs here"));
}

int64_t GemmPlan::padded_rows() const {
  int64_t padded = 0, below = 0;
  for (const GemmRange& range : ranges) {
    if (range.min_rows > below + 1) padded = range.min_rows;
    below = range.max_rows;
  }
  return padded;
}

std::string NameOf(const GemmPlan& plan) {
  return absl::StrJoin(plan.ranges, "; ", [](std::string* out, const GemmRange& range) {
    absl::StrAppend(out, range.min_rows, " to ", range.max_rows, " rows: algorithm ",
                    range.algorithm);
  });
}

GemmPiece PieceAt(const GemmPlan& plan, int64_t first, int64_t rows) {
  const int64_t filled = std::min(plan.piece_rows(), rows - first);
  const auto range = std::find_if(plan.ranges.begin(), plan.ranges.end(),
                                  [&](const GemmRange& r) { return filled <= r.max_rows; });
  return {filled, std::max(filled, range->min_rows), range->algorithm};
}

}  // namespace recollect::kernels
