#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/convert.h"
#include "kernels/elementwise/elementwise.h"

namespace recollect::kernels::reference {
namespace {

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double GeluOf(double x) {
  // erfc keeps its digits where 1 + erf loses them; the product of -inf and 0 would be NaN.
  const double phi = 0.5 * std::erfc(-x / std::numbers::sqrt2);
  return phi == 0 ? 0 : x * phi;
}

}  // namespace

void RmsNorm(OpContext&, const float* x, const float* gain, float eps, int64_t rows, int64_t width,
             float* y) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) {
      y[i] = static_cast<float>(x[i] * scale * (gain == nullptr ? 1.0 : gain[i]));
    }
  }
}

void SwiGlu(OpContext&, const float* x, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
    for (int64_t i = 0; i < width; ++i) {
      y[i] = static_cast<float>(x[i] * Sigmoid(x[i]) * x[width + i]);
    }
  }
}

void GeGlu(OpContext&, const float* x, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
    for (int64_t i = 0; i < width; ++i) y[i] = static_cast<float>(GeluOf(x[i]) * x[width + i]);
  }
}

void Gelu(OpContext&, const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(GeluOf(x[i]));
}

void SigmoidGate(OpContext&, const float* gate, int64_t gate_stride, const float* x, int64_t rows,
                 int64_t width, float* y) {
  for (int64_t r = 0; r < rows; ++r, gate += gate_stride, x += width, y += width) {
    for (int64_t i = 0; i < width; ++i) y[i] = static_cast<float>(Sigmoid(gate[i]) * x[i]);
  }
}

float LogSumExp(OpContext&, const float* x, int64_t count) {
  const double most = *std::max_element(x, x + count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - most);
  return static_cast<float>(most + std::log(sum));
}

void Add(OpContext&, const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

void RoundToBf16(OpContext&, float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = recollect::RoundToBf16(x[i]);
}

void ConvertToBf16(OpContext&, const float* x, int64_t count, Bf16* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = Bf16::FromFloat(x[i]);
}

void ConvertToFloat(OpContext&, const Bf16* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i].ToFloat();
}

}  // namespace recollect::kernels::reference
