// Bf16 weights on a GPU: the checks that tile_weight_test.cc makes with a stand-in.
#include "testing/tile_weights.h"

#include <gtest/gtest.h>

#include "testing/cuda_device.h"

namespace ashlar {
namespace {

TEST(TileWeightCuda, EveryStorageIsRoundedOnce) {
  ASHLAR_NEEDS_CUDA();
  check_every_storage(cuda_device());
}

TEST(TileWeightCuda, PartsFuseInOrder) {
  ASHLAR_NEEDS_CUDA();
  check_fused_parts(cuda_device());
}

TEST(TileWeightCuda, RotationPairsAreMoved) {
  ASHLAR_NEEDS_CUDA();
  check_rotation_pairs(cuda_device());
}

TEST(TileWeightCuda, GatesMeetTheirUps) {
  ASHLAR_NEEDS_CUDA();
  check_gates(cuda_device());
}

TEST(TileWeightCuda, ManyRowsTakeSeveralChunks) {
  ASHLAR_NEEDS_CUDA();
  check_many_rows(cuda_device());
}

TEST(TileWeightCuda, GeneratedTensorsAreGivenBack) {
  ASHLAR_NEEDS_CUDA();
  check_synthetic(cuda_device());
}

TEST(TileWeightCuda, NamesWhatTheLayoutCannotHold) {
  ASHLAR_NEEDS_CUDA();
  check_refusals(cuda_device());
}

}  // namespace
}  // namespace ashlar
