#include "engine/backend/cpu/faiss_lists.h"

#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>
#include <faiss/impl/FaissException.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::engine {
namespace {

// Measured in docs/decisions/0027-approximate-search.md.
constexpr double kListsPerRoot = 4;  // times the square root of the number of keys, at most …
constexpr int64_t kMaxLists = 4096;  // … for the time that making them takes
constexpr int64_t kSamplesPerList = 32;
constexpr int kRounds = 8;
constexpr float kWordsScale = 0.3f;
// Keys converted and compared at once.
constexpr int64_t kBatch = 4096;

class Lists {
 public:
  Lists(std::span<const Bf16> keys, int64_t d_k, int64_t d_r,
        const std::function<bool()>& cancelled)
      : keys_(keys),
        d_k_(d_k),
        d_r_(d_r),
        chunks_(static_cast<int64_t>(keys.size()) / d_k),
        lists_(std::clamp<int64_t>(
            std::llround(kListsPerRoot * std::sqrt(static_cast<double>(chunks_))), 1,
            std::min(chunks_, kMaxLists))),
        cancelled_(cancelled),
        nearest_(static_cast<int>(d_k)) {}

  absl::StatusOr<LandmarkLists> Make() {
    RETURN_IF_ERROR(Train());
    std::vector<int32_t> list_of(static_cast<size_t>(chunks_));
    RETURN_IF_ERROR(Assign(list_of));
    LandmarkLists lists;
    lists.d_k = d_k_;
    lists.begins.assign(static_cast<size_t>(lists_) + 1, 0);
    for (const int32_t list : list_of) ++lists.begins[static_cast<size_t>(list) + 1];
    for (size_t l = 0; l < static_cast<size_t>(lists_); ++l) lists.begins[l + 1] += lists.begins[l];
    lists.order.resize(list_of.size());
    std::vector<int64_t> next(lists.begins.begin(), lists.begins.end() - 1);
    for (size_t chunk = 0; chunk < list_of.size(); ++chunk) {
      const auto at = next[static_cast<size_t>(list_of[chunk])]++;
      lists.order[static_cast<size_t>(at)] = static_cast<int32_t>(chunk);
    }
    SetCentroids(lists);
    return lists;
  }

 private:
  absl::Status CheckCancelled() const {
    return cancelled_() ? absl::CancelledError("making lists of landmark keys") : absl::OkStatus();
  }

  // A key as it is compared.
  void Convert(int64_t chunk, float* to) const {
    const Bf16* key = keys_.data() + chunk * d_k_;
    for (int64_t i = 0; i < d_k_; ++i) to[i] = key[i].ToFloat() * (i < d_r_ ? 1.0f : kWordsScale);
  }

  // One round at a time, each going on from the centroids of the one before.
  absl::Status Train() {
    const int64_t samples = std::min(chunks_, lists_ * kSamplesPerList);
    std::vector<float> sample(static_cast<size_t>(samples * d_k_));
    for (int64_t i = 0; i < samples; ++i) Convert(i * chunks_ / samples, &sample[i * d_k_]);
    faiss::ClusteringParameters parameters;
    parameters.niter = 1;
    parameters.seed = 1;
    parameters.min_points_per_centroid = 1;
    parameters.max_points_per_centroid = static_cast<int>(kSamplesPerList);
    faiss::Clustering clustering(static_cast<int>(d_k_), static_cast<int>(lists_), parameters);
    for (int round = 0; round < kRounds; ++round) {
      RETURN_IF_ERROR(CheckCancelled());
      clustering.train(samples, sample.data(), nearest_);
    }
    return absl::OkStatus();
  }

  absl::Status Assign(std::vector<int32_t>& list_of) {
    std::vector<float> batch(static_cast<size_t>(kBatch * d_k_));
    std::vector<faiss::Index::idx_t> labels(static_cast<size_t>(kBatch));
    for (int64_t first = 0; first < chunks_; first += kBatch) {
      RETURN_IF_ERROR(CheckCancelled());
      const int64_t count = std::min(kBatch, chunks_ - first);
      for (int64_t i = 0; i < count; ++i) Convert(first + i, &batch[i * d_k_]);
      nearest_.assign(count, batch.data(), labels.data());
      for (int64_t i = 0; i < count; ++i) {
        const auto label = static_cast<int64_t>(labels[static_cast<size_t>(i)]);
        if (label < 0 || label >= lists_) {
          return absl::InternalError(
              absl::StrCat("landmark key ", first + i, " is near no list: is it finite?"));
        }
        list_of[static_cast<size_t>(first + i)] = static_cast<int32_t>(label);
      }
    }
    return absl::OkStatus();
  }

  void SetCentroids(LandmarkLists& lists) const {
    std::vector<float> sum(static_cast<size_t>(d_k_));
    lists.centroids.reserve(static_cast<size_t>(lists_ * d_k_));
    for (int64_t l = 0; l < lists_; ++l) {
      const int64_t begin = lists.begins[static_cast<size_t>(l)],
                    end = lists.begins[static_cast<size_t>(l) + 1];
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t at = begin; at < end; ++at) {
        const Bf16* key = keys_.data() + lists.order[static_cast<size_t>(at)] * d_k_;
        for (int64_t i = 0; i < d_k_; ++i) sum[static_cast<size_t>(i)] += key[i].ToFloat();
      }
      const float count = static_cast<float>(std::max<int64_t>(end - begin, 1));
      for (const float x : sum) lists.centroids.push_back(Bf16::FromFloat(x / count));
    }
  }

  const std::span<const Bf16> keys_;
  const int64_t d_k_, d_r_, chunks_, lists_;
  const std::function<bool()>& cancelled_;
  faiss::IndexFlatL2 nearest_;
};

}  // namespace

absl::StatusOr<LandmarkLists> FaissListMaker::Make(std::span<const Bf16> keys, int64_t d_k,
                                                   const std::function<bool()>& cancelled) {
  omp_set_num_threads(1);  // of this thread: the library takes all cores otherwise
  try {
    return Lists(keys, d_k, d_r_, cancelled).Make();
  } catch (const faiss::FaissException& e) {
    return absl::InternalError(absl::StrCat("FAISS: ", e.what()));
  }
}

}  // namespace recollect::engine
