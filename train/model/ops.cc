// Two operations that PyTorch is slow at on the CPU: the gated scan and row gathering with its
// sum-scatter gradient. Single-threaded on purpose: the trainer runs one process per core.
#include <torch/extension.h>

#include <cstring>

// y_t = g_t y_{t-1} + (1 - g_t) x_t per channel, y_{-1} = 0. g, x: [B, T, C] fp32 contiguous.
at::Tensor scan_forward(const at::Tensor& g, const at::Tensor& x) {
  auto gc = g.contiguous(), xc = x.contiguous();
  auto y = at::empty_like(xc);
  const int64_t B = xc.size(0), T = xc.size(1), C = xc.size(2);
  const float *pg = gc.data_ptr<float>(), *px = xc.data_ptr<float>();
  float* py = y.data_ptr<float>();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      const int64_t at = (b * T + t) * C;
      const float *G = pg + at, *X = px + at;
      float* Y = py + at;
      if (t == 0) {
        for (int64_t c = 0; c < C; ++c) Y[c] = (1.f - G[c]) * X[c];
      } else {
        const float* P = Y - C;
        for (int64_t c = 0; c < C; ++c) Y[c] = X[c] + G[c] * (P[c] - X[c]);
      }
    }
  }
  return y;
}

// Gradient of scan_forward: with a_t = dy_t + g_{t+1} a_{t+1}: dx_t = (1 - g_t) a_t, dg_t =
// (y_{t-1} - x_t) a_t.
std::tuple<at::Tensor, at::Tensor> scan_backward(const at::Tensor& g, const at::Tensor& x,
                                                 const at::Tensor& y, const at::Tensor& dy) {
  auto gc = g.contiguous(), xc = x.contiguous(), yc = y.contiguous(), dc = dy.contiguous();
  auto dg = at::empty_like(gc), dx = at::empty_like(xc);
  const int64_t B = xc.size(0), T = xc.size(1), C = xc.size(2);
  std::vector<float> carry(C), zero(C, 0.f);
  for (int64_t b = 0; b < B; ++b) {
    std::fill(carry.begin(), carry.end(), 0.f);
    float* A = carry.data();
    for (int64_t t = T - 1; t >= 0; --t) {
      const int64_t at = (b * T + t) * C;
      const float *G = gc.data_ptr<float>() + at, *X = xc.data_ptr<float>() + at;
      const float* P = t ? yc.data_ptr<float>() + at - C : zero.data();
      const float* DY = dc.data_ptr<float>() + at;
      float *DG = dg.data_ptr<float>() + at, *DX = dx.data_ptr<float>() + at;
      for (int64_t c = 0; c < C; ++c) {
        const float a = A[c] + DY[c];
        DX[c] = (1.f - G[c]) * a;
        DG[c] = (P[c] - X[c]) * a;
        A[c] = G[c] * a;
      }
    }
  }
  return {dg, dx};
}

// out[i] = x[index[i]]. x: [R, W], index: [n] int64.
at::Tensor gather_forward(const at::Tensor& x, const at::Tensor& index) {
  auto xc = x.contiguous(), ic = index.contiguous();
  const int64_t n = ic.numel(), row = xc.size(1) * xc.element_size();
  auto out = at::empty({n, xc.size(1)}, xc.options());
  auto* src = static_cast<const char*>(xc.data_ptr());
  auto* dst = static_cast<char*>(out.data_ptr());
  const int64_t* id = ic.data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * row, src + id[i] * row, row);
  return out;
}

// Gradient of gather_forward: rows with the same index are summed in fp32. dy: [n, W] -> [rows, W].
at::Tensor gather_backward(const at::Tensor& dy, const at::Tensor& index, int64_t rows) {
  auto dc = dy.contiguous(), ic = index.contiguous();
  const int64_t n = ic.numel(), W = dc.size(1);
  auto sum = at::zeros({rows, W}, dc.options().dtype(at::kFloat));
  float* ps = sum.data_ptr<float>();
  const int64_t* id = ic.data_ptr<int64_t>();
  if (dc.scalar_type() == at::kFloat) {
    const float* pd = dc.data_ptr<float>();
    for (int64_t i = 0; i < n; ++i) {
      float* s = ps + id[i] * W;
      const float* d = pd + i * W;
      for (int64_t c = 0; c < W; ++c) s[c] += d[c];
    }
    return sum;
  }
  const auto* pd = reinterpret_cast<const uint16_t*>(dc.data_ptr<at::BFloat16>());
  for (int64_t i = 0; i < n; ++i) {
    float* s = ps + id[i] * W;
    const uint16_t* d = pd + i * W;
    for (int64_t c = 0; c < W; ++c) {
      const uint32_t bits = static_cast<uint32_t>(d[c]) << 16;
      float v;
      std::memcpy(&v, &bits, 4);
      s[c] += v;
    }
  }
  return sum.to(at::kBFloat16);
}

TORCH_LIBRARY(recollect, m) {
  m.def("scan(Tensor g, Tensor x) -> Tensor");
  m.def("scan_backward(Tensor g, Tensor x, Tensor y, Tensor dy) -> (Tensor, Tensor)");
  m.def("gather(Tensor x, Tensor index) -> Tensor");
  m.def("gather_backward(Tensor dy, Tensor index, int rows) -> Tensor");
}
TORCH_LIBRARY_IMPL(recollect, CPU, m) {
  m.impl("scan", scan_forward);
  m.impl("scan_backward", scan_backward);
  m.impl("gather", gather_forward);
  m.impl("gather_backward", gather_backward);
}
