// Divides landmark keys into lists by k-means, with FAISS.
#pragma once

#include <functional>
#include <span>

#include "engine/backend/landmark_lists.h"

namespace recollect::engine {

// The same keys give the same lists on one machine: the seed is fixed, and one thread computes.
class FaissListMaker final : public ListMaker {
 public:
  // `d_r`: the numbers at the front of a key that are its meaning; the others are its words, which
  // count for less when keys are compared.
  explicit FaissListMaker(int64_t d_r) : d_r_(d_r) {}
  absl::StatusOr<LandmarkLists> Make(std::span<const Bf16> keys, int64_t d_k,
                                     const std::function<bool()>& cancelled) override;

 private:
  const int64_t d_r_;
};

}  // namespace recollect::engine
