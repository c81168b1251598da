// What the row rule rests on: the tensor core gives an element of A B^T the same bits in every form
// in which our kernels ask for it. Compared with mma.sync m16n8k16 over the same k in the same
// order, element by element:
//
//   - the operands exchanged, (B A^T)^T
//   - wgmma at every N, A in shared memory, and A in registers with B as values lie in a slot
//   - a first instruction that overwrites (scale-d 0) against zeroed accumulators
//   - f16 instead of bf16
//   - zeros after the end of K, and whatever (NaN) in other rows of A and B
//
// Sums of FP8 are another matter: those of wgmma and of mma.sync differ, and no kernel here has
// either.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "device/launch_cuda.h"
#include "kernels/attention/attention_wgmma.cuh"
#include "kernels/hopper/copy.cuh"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "testing/cuda_device.h"
#include "testing/device_tensors.h"
#include "testing/random.h"

namespace ashlar {
namespace {

constexpr int kM = 64;   // rows of A
constexpr int kN = 256;  // rows of B, and columns of D
constexpr float kGarbage = 1e30f;

struct Operands {
  const uint16_t* a;  // [kM k]
  const uint16_t* b;  // [kN k]
  float* d;           // [kM kN], written
  int k;              // a multiple of 16
};

template <bool kHalf>
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kHalf) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

__device__ uint32_t pair_at(const uint16_t* row, int k) {
  return static_cast<uint32_t>(row[k]) | static_cast<uint32_t>(row[k + 1]) << 16;
}

// Grid [16-row blocks, 8-row blocks] of the two sides, a warp each. Exchanged: B is the side of 16.
template <bool kHalf, bool kExchanged>
__global__ void mma_kernel(Operands o) {
  wait_for_predecessor();
  const int g = static_cast<int>(threadIdx.x) / 4;
  const int q = static_cast<int>(threadIdx.x) % 4;
  const int wide = static_cast<int>(blockIdx.x) * 16;
  const int narrow = static_cast<int>(blockIdx.y) * 8;
  const uint16_t* from_wide = kExchanged ? o.b : o.a;
  const uint16_t* from_narrow = kExchanged ? o.a : o.b;
  const uint16_t* low = from_wide + static_cast<int64_t>(wide + g) * o.k;
  const uint16_t* high = low + 8 * static_cast<int64_t>(o.k);
  const uint16_t* column = from_narrow + static_cast<int64_t>(narrow + g) * o.k;
  float d[4] = {};
  for (int k = 2 * q; k < o.k; k += 16) {
    const uint32_t a[4] = {pair_at(low, k), pair_at(high, k), pair_at(low, k + 8),
                           pair_at(high, k + 8)};
    const uint32_t b[2] = {pair_at(column, k), pair_at(column, k + 8)};
    mma<kHalf>(d, a, b);
  }
  for (int i = 0; i < 4; ++i) {
    const int w = wide + g + i / 2 * 8;
    const int n = narrow + 2 * q + i % 2;
    o.d[kExchanged ? n * kN + w : w * kN + n] = d[i];
  }
}

// The f16 form of hopper::Wgmma, which no kernel has yet.
template <int N>
struct WgmmaHalf;

template <>
struct WgmmaHalf<8> {
  static __device__ __forceinline__ void run(float (&d)[4], uint64_t a, uint64_t b,
                                             int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
        "%0, %1, %2, %3"
        "}, %4, %5, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

template <>
struct WgmmaHalf<32> {
  static __device__ __forceinline__ void run(float (&d)[16], uint64_t a, uint64_t b,
                                             int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

// 64 elements of K of `rows` rows, as an operand that is K-major; zeros beyond k.
__device__ void stage_rows(uint16_t* tile, const uint16_t* from, int rows, int begin, int k) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * 64; i += 128) {
    const int r = i / 64;
    const int c = i % 64;
    const int at = r * 64 + ((c / 8) ^ (r % 8)) * 8 + c % 8;
    tile[at] = begin + c < k ? from[static_cast<int64_t>(r) * k + begin + c] : 0;
  }
}

// The same of B, an element of K a line, as attention finds values: blocks of 64 columns.
__device__ void stage_values(uint16_t* slot, const uint16_t* from, int columns, int begin, int k) {
  for (int i = static_cast<int>(threadIdx.x); i < columns * 64; i += 128) {
    const int n = i / 64;
    const int p = i % 64;
    const int at = n / 64 * 4096 + p * 64 + ((n % 64 / 8) ^ (p % 8)) * 8 + n % 8;
    slot[at] = begin + p < k ? from[static_cast<int64_t>(n) * k + begin + p] : 0;
  }
}

template <int N>
__device__ void store_accumulators(float* to, const float (&d)[N / 2]) {
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int column = 2 * (static_cast<int>(threadIdx.x) % 4);
  for (int i = 0; i < N / 2; ++i) {
    to[(row + i % 4 / 2 * 8) * kN + i / 4 * 8 + column + i % 2] = d[i];
  }
}

// One warpgroup; columns 0 to N - 1 of D.
template <template <int> class Instruction, int N>
__global__ void __launch_bounds__(128) wgmma_kernel(Operands o, bool zeroed) {
  __shared__ alignas(1024) uint16_t a[kM * 64];
  __shared__ alignas(1024) uint16_t b[N * 64];
  wait_for_predecessor();
  float d[N / 2];
  for (float& value : d) value = zeroed ? 0.0f : kGarbage;
  for (int begin = 0; begin < o.k; begin += 64) {
    __syncthreads();
    stage_rows(a, o.a, kM, begin, o.k);
    stage_rows(b, o.b, N, begin, o.k);
    hopper::store_fence();
    __syncthreads();
    hopper::hold_accumulators(d);
    hopper::wgmma_fence();
    for (int step = 0; step < 4 && begin + 16 * step < o.k; ++step) {
      Instruction<N>::run(d, hopper::wgmma_operand(a) + step * hopper::kOperandStep,
                          hopper::wgmma_operand(b) + step * hopper::kOperandStep,
                          zeroed || begin + step > 0 ? 1 : 0);
    }
    hopper::wgmma_commit();
    hopper::wgmma_wait<0>();
    hopper::hold_accumulators(d);
  }
  store_accumulators<N>(o.d, d);
}

// A in registers, B as values.
template <int N>
__global__ void __launch_bounds__(128) wgmma_weights_kernel(Operands o, bool zeroed) {
  constexpr int kBlocks = (N + 63) / 64;
  __shared__ alignas(1024) uint16_t b[kBlocks * 4096];
  wait_for_predecessor();
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const uint16_t* low = o.a + static_cast<int64_t>(row) * o.k;
  const uint16_t* high = low + 8 * static_cast<int64_t>(o.k);
  float d[N / 2];
  for (float& value : d) value = zeroed ? 0.0f : kGarbage;
  for (int begin = 0; begin < o.k; begin += 64) {
    __syncthreads();
    stage_values(b, o.b, N, begin, o.k);
    hopper::store_fence();
    __syncthreads();
    for (int step = 0; step < 4 && begin + 16 * step < o.k; ++step) {
      const int k = begin + 16 * step + 2 * (static_cast<int>(threadIdx.x) % 4);
      const uint32_t a[4] = {pair_at(low, k), pair_at(high, k), pair_at(low, k + 8),
                             pair_at(high, k + 8)};
      hopper::hold_accumulators(d);
      hopper::wgmma_fence();
      WgmmaWeights<N>::run(d, a, values_operand(b, 8192) + step * kValuesStep,
                           zeroed || begin + step > 0 ? 1 : 0);
      hopper::wgmma_commit();
      hopper::wgmma_wait<0>();
      hopper::hold_accumulators(d);
    }
  }
  store_accumulators<N>(o.d, d);
}

enum class Kind { kGaussian, kSpread, kTiny, kSignedZeros };
constexpr Kind kKinds[] = {Kind::kGaussian, Kind::kSpread, Kind::kTiny, Kind::kSignedZeros};

float draw(Random& random, Kind kind, bool half) {
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) sum += random.symmetric(1.0f);
  switch (kind) {
    case Kind::kGaussian:
      return sum;
    case Kind::kSpread:
      return std::ldexp(sum, static_cast<int>(random.below(half ? 25 : 81)) - (half ? 12 : 40));
    case Kind::kTiny:  // products below the least normal number, and elements for f16
      return std::ldexp(sum, half ? -20 : -70);
    case Kind::kSignedZeros:
      return random.below(3) == 0 ? sum : random.below(2) == 0 ? 0.0f : -0.0f;
  }
  return 0.0f;
}

uint16_t bits_of(float value, bool half) { return half ? to_f16(value).bits : to_bf16(value).bits; }

struct Matrices {
  Matrices(uint64_t seed, Kind kind, bool half, int columns)
      : a(static_cast<size_t>(kM * columns)), b(static_cast<size_t>(kN * columns)), k(columns) {
    Random random(seed);
    for (uint16_t& bits : a) bits = bits_of(draw(random, kind, half), half);
    for (uint16_t& bits : b) bits = bits_of(draw(random, kind, half), half);
  }
  std::vector<uint16_t> a, b;
  int k;
};

using Launch = std::function<void(Stream&, const Operands&)>;

std::vector<float> run(const Matrices& m, const Launch& launch_kernel) {
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  DeviceTensors tensors(*stream);
  const auto upload = [&](const std::vector<uint16_t>& bits) {
    std::vector<BF16> values(bits.size());  // bits of either type
    std::memcpy(values.data(), bits.data(), bits.size() * sizeof(uint16_t));
    return static_cast<const uint16_t*>(tensors.from(values).data());
  };
  const TensorView d = tensors.make(DType::kF32, {kM, kN});
  launch_kernel(*stream, {upload(m.a), upload(m.b), d.as<float>(), m.k});
  return tensors.read<float>(d);
}

template <bool kHalf, bool kExchanged>
void launch_mma(Stream& stream, const Operands& o) {
  constexpr int kWide = kExchanged ? kN : kM;
  constexpr int kNarrow = kExchanged ? kM : kN;
  launch(stream, "mma", mma_kernel<kHalf, kExchanged>,
         {.grid = dim3(kWide / 16, kNarrow / 8), .block = dim3(32)}, o);
}

template <template <int> class Instruction, int N>
Launch wgmma(bool zeroed) {
  return [zeroed](Stream& stream, const Operands& o) {
    launch(stream, "wgmma", wgmma_kernel<Instruction, N>, {.grid = dim3(1), .block = dim3(128)}, o,
           zeroed);
  };
}

template <int N>
Launch wgmma_weights(bool zeroed) {
  return [zeroed](Stream& stream, const Operands& o) {
    launch(stream, "wgmma_weights", wgmma_weights_kernel<N>, {.grid = dim3(1), .block = dim3(128)},
           o, zeroed);
  };
}

// Of the first `columns` columns.
void expect_same(const std::vector<float>& made, const std::vector<float>& wanted, int columns,
                 const char* what) {
  int64_t different = 0;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < columns; ++n) {
      const size_t at = static_cast<size_t>(m * kN + n);
      different += std::bit_cast<uint32_t>(made[at]) != std::bit_cast<uint32_t>(wanted[at]);
    }
  }
  EXPECT_EQ(different, 0) << what << " of " << kM * columns;
}

void expect_close(const Matrices& m, const std::vector<float>& made) {
  const auto value = [](uint16_t bits) { return static_cast<double>(to_float(BF16{bits})); };
  for (int i = 0; i < kM; i += 21) {
    for (int j = 0; j < kN; j += 17) {
      double exact = 0;
      double magnitude = 0;
      for (int k = 0; k < m.k; ++k) {
        const double product = value(m.a[static_cast<size_t>(i * m.k + k)]) *
                               value(m.b[static_cast<size_t>(j * m.k + k)]);
        exact += product;
        magnitude += std::abs(product);
      }
      EXPECT_NEAR(made[static_cast<size_t>(i * kN + j)], exact, magnitude * 1e-5) << i << " " << j;
    }
  }
}

TEST(TensorCoreBits, AreTheSameInEveryFormOfBf16) {
  ASHLAR_NEEDS_CUDA();
  for (const Kind kind : kKinds) {
    for (const int k : {32, 4096}) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", K " << k);
      const Matrices m(static_cast<uint64_t>(k) + 7, kind, false, k);
      const std::vector<float> wanted = run(m, launch_mma<false, false>);
      if (kind == Kind::kGaussian) expect_close(m, wanted);
      expect_same(run(m, launch_mma<false, true>), wanted, kN, "exchanged");
      for (const bool zeroed : {false, true}) {
        expect_same(run(m, wgmma<hopper::Wgmma, 8>(zeroed)), wanted, 8, "wgmma 8");
        expect_same(run(m, wgmma<hopper::Wgmma, 16>(zeroed)), wanted, 16, "wgmma 16");
        expect_same(run(m, wgmma<hopper::Wgmma, 32>(zeroed)), wanted, 32, "wgmma 32");
        expect_same(run(m, wgmma<hopper::Wgmma, 64>(zeroed)), wanted, 64, "wgmma 64");
        expect_same(run(m, wgmma<hopper::Wgmma, 96>(zeroed)), wanted, 96, "wgmma 96");
        expect_same(run(m, wgmma<hopper::Wgmma, 128>(zeroed)), wanted, 128, "wgmma 128");
        expect_same(run(m, wgmma<hopper::Wgmma, 256>(zeroed)), wanted, 256, "wgmma 256");
        expect_same(run(m, wgmma_weights<64>(zeroed)), wanted, 64, "A in registers, 64");
        expect_same(run(m, wgmma_weights<96>(zeroed)), wanted, 96, "A in registers, 96");
        expect_same(run(m, wgmma_weights<128>(zeroed)), wanted, 128, "A in registers, 128");
      }
    }
  }
}

TEST(TensorCoreBits, AreTheSameInEveryFormOfF16) {
  ASHLAR_NEEDS_CUDA();
  for (const Kind kind : kKinds) {
    for (const int k : {32, 4096}) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", K " << k);
      const Matrices m(static_cast<uint64_t>(k) + 3, kind, true, k);
      const std::vector<float> wanted = run(m, launch_mma<true, false>);
      expect_same(run(m, launch_mma<true, true>), wanted, kN, "exchanged");
      for (const bool zeroed : {false, true}) {
        expect_same(run(m, wgmma<WgmmaHalf, 8>(zeroed)), wanted, 8, "wgmma 8");
        expect_same(run(m, wgmma<WgmmaHalf, 32>(zeroed)), wanted, 32, "wgmma 32");
      }
    }
  }
}

// Weights are filled up with zeros to whole blocks, and short segments with whole steps of them.
TEST(TensorCoreBits, ZerosBehindTheEndChangeNothing) {
  ASHLAR_NEEDS_CUDA();
  for (const Kind kind : kKinds) {
    const Matrices m(11, kind, false, 96);
    Matrices longer(11, kind, false, 224);
    std::fill(longer.a.begin(), longer.a.end(), 0);
    std::fill(longer.b.begin(), longer.b.end(), 0);
    for (int r = 0; r < kN; ++r) {
      std::copy_n(m.b.begin() + r * m.k, m.k, longer.b.begin() + r * longer.k);
      if (r < kM) std::copy_n(m.a.begin() + r * m.k, m.k, longer.a.begin() + r * longer.k);
    }
    const std::vector<float> wanted = run(m, launch_mma<false, false>);
    expect_same(run(longer, launch_mma<false, false>), wanted, kN, "mma.sync");
    expect_same(run(longer, wgmma<hopper::Wgmma, 64>(false)), wanted, 64, "wgmma");
    expect_same(run(longer, wgmma_weights<64>(false)), wanted, 64, "A in registers");
  }
}

// An element sees its own row of A and of B alone.
TEST(TensorCoreBits, OtherRowsDoNotReachAnElement) {
  ASHLAR_NEEDS_CUDA();
  const Matrices m(13, Kind::kSpread, false, 64);
  Matrices poisoned = m;
  const uint16_t nan = to_bf16(NAN).bits;
  for (int r = 0; r < kN; ++r) {
    if (r % 2 == 0) continue;
    std::fill_n(poisoned.b.begin() + r * m.k, m.k, nan);
    if (r < kM) std::fill_n(poisoned.a.begin() + r * m.k, m.k, nan);
  }
  const std::vector<float> wanted = run(m, launch_mma<false, false>);
  for (const Launch& form : {Launch(launch_mma<false, false>), wgmma<hopper::Wgmma, 256>(false)}) {
    const std::vector<float> made = run(poisoned, form);
    for (int i = 0; i < kM; i += 2) {
      for (int j = 0; j < kN; j += 2) {
        const size_t at = static_cast<size_t>(i * kN + j);
        ASSERT_EQ(std::bit_cast<uint32_t>(made[at]), std::bit_cast<uint32_t>(wanted[at]));
      }
    }
  }
}

}  // namespace
}  // namespace ashlar
