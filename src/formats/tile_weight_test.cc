// Loading of a GPU's weights on the CPU, by the operations' references: every storage type arrives
// rounded once, parts fuse, gates and rotation pairs lie where they should.
#include "testing/tile_weights.h"

#include <gtest/gtest.h>

#include "testing/cuda_stand_in.h"

namespace ashlar {
namespace {

TEST(TileWeight, EveryStorageIsRoundedOnce) {
  CudaStandIn device;
  check_every_storage(device);
}

TEST(TileWeight, PartsFuseInOrder) {
  CudaStandIn device;
  check_fused_parts(device);
}

TEST(TileWeight, RotationPairsAreMoved) {
  CudaStandIn device;
  check_rotation_pairs(device);
}

TEST(TileWeight, GatesMeetTheirUps) {
  CudaStandIn device;
  check_gates(device);
}

TEST(TileWeight, ManyRowsTakeSeveralChunks) {
  CudaStandIn device;
  check_many_rows(device);
}

TEST(TileWeight, GeneratedTensorsAreGivenBack) {
  CudaStandIn device;
  check_synthetic(device);
}

TEST(TileWeight, NamesWhatTheLayoutCannotHold) {
  CudaStandIn device;
  check_refusals(device);
}

}  // namespace
}  // namespace ashlar
