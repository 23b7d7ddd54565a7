// The pointer head's effect on the logits of one row (docs/model-format.md, "Pointer head"; Merity
// et al., "Pointer Sentinel Mixture Models", equation 1). The sentinel s is the logit of an id that
// no text has; z are the other logits, and Z = ln Σ exp(z_v). A token v that is pointed to with a
// score e_v gets
//   z'_v = ln(exp(z_v) + exp(e_v + Z - s)),
// all others keep theirs and s becomes -infinity: softmax(z') is then the mixture
// g softmax(z) + (1 - g) softmax(e) with g = exp(s) / (exp(s) + Σ exp(e_v)).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

struct PointedToken {
  int32_t token = 0;
  float score = 0;  // e_v, finite, in nats
  friend bool operator==(const PointedToken&, const PointedToken&) = default;
};

// In place on logits[vocab] fp32, finite. REQUIRES: vocab >= 2; tokens are different from each
// other and from `sentinel`, all of them in [0, vocab).
void MixPointed(OpContext& ctx, int64_t vocab, int32_t sentinel,
                std::span<const PointedToken> pointed, float* logits);

}  // namespace recollect::kernels
