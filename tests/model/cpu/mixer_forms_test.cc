// RAT and RAttention against what they are by definition, and where their parameters make something
// simpler of them, written out in double without caches, recurrent states or ranges.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/cpu_model.h"
#include "tests/model/model_testing.h"

namespace recollect::model {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;  // by position

constexpr int64_t kLength = 40;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Softmax attention of row t to the rows first .. t.
Vector Attend(const Rows& q, const Rows& k, const Rows& v, int64_t first, int64_t t) {
  Vector mixed(v[0].size());
  double total = 0;
  for (int64_t p = std::max<int64_t>(first, 0); p <= t; ++p) {
    const double share = std::exp(Dot(q[t], k[p]) / std::sqrt(static_cast<double>(q[t].size())));
    for (size_t i = 0; i < mixed.size(); ++i) mixed[i] += share * v[p][i];
    total += share;
  }
  for (double& x : mixed) x /= total;
  return mixed;
}

// RoPE of every row at its own position, channels (j, j + half).
Rows Placed(Rows rows, double base) {
  for (size_t t = 0; t < rows.size(); ++t) {
    const size_t half = rows[t].size() / 2;
    for (size_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(t) * std::pow(base, -1.0 * j / half);
      const double a = rows[t][j], b = rows[t][j + half];
      rows[t][j] = a * std::cos(angle) - b * std::sin(angle);
      rows[t][j + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return rows;
}

// softmax(x), softmax(-x)
Vector Features(const Vector& x) {
  Vector features;
  for (const double sign : {1.0, -1.0}) {
    double total = 0;
    for (const double y : x) total += std::exp(sign * y);
    for (const double y : x) features.push_back(std::exp(sign * y) / total);
  }
  return features;
}

// One layer, whose FFN adds nothing, over random rows h.
class MixerFormTest : public ::testing::Test {
 protected:
  void Load(ModelConfig config) {
    config.n_low = 1;
    config.rope_pairs = kernels::RopePairs::kHalves;
    model_ = MakeChanged("form", config, [this](const std::string& name, FloatTensor& tensor) {
      if (name == "layers.0.ffn.out_proj.weight") std::ranges::fill(tensor.values, 0.0f);
      tensors_[name] = tensor.values;
    });
    h_.resize(static_cast<size_t>(kLength * config.d));
    model_->Embed(RandomTokens(kLength, 3), h_.data());
  }

  const ModelConfig& config() const { return model_->config(); }
  const std::vector<float>& Mixer(const std::string& name) const {
    return tensors_.at("layers.0.mixer." + name);
  }

  // x / RMS(x), times the gain at `gain`.
  static Vector Normed(Vector x, const float* gain, double eps) {
    const double rms = std::sqrt(Dot(x, x) / static_cast<double>(x.size()) + eps);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= gain[i] / rms;
    return x;
  }

  // Rows at .. at + count - 1 of in_proj RMS(h), for every position.
  Rows Projected(int64_t at, int64_t count) const {
    const int64_t d = config().d;
    Rows rows;
    for (int64_t t = 0; t < kLength; ++t) {
      const Vector x = Normed({h_.begin() + t * d, h_.begin() + (t + 1) * d},
                              tensors_.at("layers.0.mixer_norm.weight").data(), config().norm_eps);
      rows.push_back(Times(Mixer("in_proj.weight").data() + at * d, count, x));
    }
    return rows;
  }

  // What the layer makes of h must be h + out_proj mixed.
  void ExpectAdds(const Rows& mixed) {
    const int64_t d = config().d;
    LocalState state = LocalState::Create(config(), config().local, 1);
    kernels::OpContext ctx;
    std::vector<float> actual = h_;
    const Segment segment{&state.layers[0], kLength, nullptr};
    model_->RunLayer(ctx, 0, std::span(&segment, 1), actual.data());
    for (int64_t t = 0; t < kLength; ++t) {
      const Vector added = Times(Mixer("out_proj.weight").data(), d, mixed[t]);
      for (int64_t i = 0; i < d; ++i) {
        ASSERT_NEAR(actual[t * d + i], h_[t * d + i] + added[i], 1e-4) << t;
      }
    }
  }

  static Vector Times(const float* matrix, int64_t rows, const Vector& x) {
    Vector y;
    for (int64_t row = 0; row < rows; ++row, matrix += x.size()) {
      y.push_back(Dot({matrix, matrix + x.size()}, x));
    }
    return y;
  }

  std::map<std::string, std::vector<float>> tensors_;
  std::unique_ptr<CpuModel> model_;
  std::vector<float> h_;  // [kLength, d]
};

// What one head of RAT projects: its own rows of z, v and g, with the bias, and shared q and k.
struct RatHead {
  Rows z, v, g, q, k;
};

class RatFormTest : public MixerFormTest {
 protected:
  void LoadChunks(int64_t chunk) {
    ModelConfig config = TinyRatSwaConfig();
    config.architecture = "rat";
    config.mixers.resize(1);
    config.mixers[0].chunk = chunk;
    Load(config);
  }

  RatHead Head(int64_t head) const {
    const int64_t inner = config().inner(), dim = config().head_dim, at = head * dim;
    const int64_t shared = config().mixer(0).shared_heads;
    RatHead result{Projected(at, dim), Projected(inner + at, dim), Projected(2 * inner + at, dim),
                   Projected(3 * inner + head % shared * dim, dim),
                   Projected(3 * inner + (shared + head % shared) * dim, dim)};
    for (Vector& row : result.g) {
      for (int64_t i = 0; i < dim; ++i) row[i] = Sigmoid(row[i] + Mixer("gate_bias")[at + i]);
    }
    return result;
  }

  // Every head's attended rows behind its output gate, side by side.
  template <typename Attended>
  void ExpectMixes(const Attended& attended) {
    Rows mixed(kLength);
    for (int64_t head = 0; head < config().heads; ++head) {
      const RatHead rows = Head(head);
      const Rows y = attended(rows);
      for (int64_t t = 0; t < kLength; ++t) {
        for (size_t i = 0; i < y[t].size(); ++i) {
          mixed[t].push_back(Sigmoid(rows.z[t][i]) * y[t][i]);
        }
      }
    }
    ExpectAdds(mixed);
  }
};

TEST_F(RatFormTest, ChunksOfOneAreAttentionOverWhatTheGatesLetIn) {
  LoadChunks(1);
  ExpectMixes([&](RatHead rows) {
    for (int64_t t = 0; t < kLength; ++t) {
      for (size_t i = 0; i < rows.g[t].size(); ++i) {
        rows.k[t][i] *= 1 - rows.g[t][i];
        rows.v[t][i] *= 1 - rows.g[t][i];
      }
    }
    const Rows q = Placed(rows.q, config().rope_base), k = Placed(rows.k, config().rope_base);
    Rows attended;
    for (int64_t t = 0; t < kLength; ++t) attended.push_back(Attend(q, k, rows.v, 0, t));
    return attended;
  });
}

TEST_F(RatFormTest, OneChunkIsTheRecurrenceOfValuesAlone) {
  for (const int64_t chunk : {kLength, kLength + 9}) {
    LoadChunks(chunk);
    ExpectMixes([](const RatHead& rows) {
      Rows attended(kLength, Vector(rows.v[0].size()));
      for (int64_t t = 0; t < kLength; ++t) {
        for (size_t i = 0; i < rows.v[t].size(); ++i) {
          const double before = t == 0 ? 0 : attended[t - 1][i], g = rows.g[t][i];
          attended[t][i] = g * before + (1 - g) * rows.v[t][i];
        }
      }
      return attended;
    });
  }
}

ModelConfig Rattention(int64_t window) {
  ModelConfig config = TinyRattentionConfig();
  config.mixers = {{.kind = MixerKind::kRattention, .window = window}};
  return config;
}

// Softmax over t - W .. t and a sum, without denominator, over everything before: each token once.
// With W = -1 causal linear attention is all there is.
TEST_F(MixerFormTest, RattentionIsAWindowAndLinearAttentionBeforeIt) {
  for (const int64_t window : {int64_t{-1}, int64_t{0}, int64_t{5}, kLength}) {
    SCOPED_TRACE(window);
    Load(Rattention(window));
    const int64_t dim = config().head_dim, inner = config().inner();
    const float eps = config().head_norm_eps;
    Rows mixed(kLength);
    for (int64_t head = 0; head < config().heads; ++head) {
      const int64_t shared = head * config().kv_heads / config().heads * dim;
      const Rows q = Projected(head * dim, dim), k = Projected(inner + shared, dim);
      const Rows v = Projected(inner + config().kv_width() + shared, dim);
      const Rows placed_q = Placed(q, config().rope_base), placed_k = Placed(k, config().rope_base);
      for (int64_t t = 0; t < kLength; ++t) {
        Vector linear(static_cast<size_t>(dim));
        for (int64_t p = 0; p < t - window; ++p) {
          const double score = Dot(Features(q[t]), Features(k[p]));
          for (int64_t i = 0; i < dim; ++i) linear[i] += score * v[p][i];
        }
        Vector sum = Normed(linear, Mixer("rla_norm.weight").data() + head * dim, eps);
        if (window >= 0) {
          const Vector near = Normed(Attend(placed_q, placed_k, v, t - window, t),
                                     Mixer("swa_norm.weight").data() + head * dim, eps);
          for (int64_t i = 0; i < dim; ++i) sum[i] += near[i];
        }
        mixed[t].insert(mixed[t].end(), sum.begin(), sum.end());
      }
    }
    ExpectAdds(mixed);
  }
}

TEST_F(MixerFormTest, TheLinearBranchIsEmptyWhileTheWindowHoldsEverything) {
  constexpr int64_t kWindow = 11;
  Load(Rattention(kWindow));
  LocalState state = LocalState::Create(config(), config().local, 1);
  ResidualCache& cache = *state.layers[0].residual_cache();
  kernels::OpContext ctx;
  for (int64_t t = 0; t < kWindow + 3; ++t) {
    const Segment segment{&state.layers[0], 1, nullptr};
    model_->RunLayer(ctx, 0, std::span(&segment, 1), h_.data() + t * config().d);
    const std::span<const float> sum(cache.sum(), cache.sum_bytes() / sizeof(float));
    EXPECT_EQ(std::ranges::all_of(sum, [](float s) { return s == 0; }), t <= kWindow) << t;
  }
}

}  // namespace
}  // namespace recollect::model
