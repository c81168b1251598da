// The call path: contract first, then the observer, then the cell; the reference fills a missing
// CPU cell, and a missing cell of another backend ends the process by name.
#include "kernels/op.h"

#include <gtest/gtest.h>

#include <vector>

namespace ashlar {
namespace {

struct ScaleArgs {
  TensorView x;  // [N] f32, in place
  float factor = 1;
};

void contract(const ScaleArgs& args, const ShapeCheck& check) {
  check.dtype(args.x, DType::kF32, "x");
  check.require(args.factor != 0, "a factor that is not zero");
}
OpCost cost(const ScaleArgs& args) { return {args.x.shape().count() * 8, args.x.shape().count()}; }
void reference(Stream&, const ScaleArgs& args) {
  for (int64_t i = 0; i < args.x.shape().count(); ++i) args.x.as<float>()[i] *= args.factor;
}
void twice(Stream&, const ScaleArgs& args) {
  for (int64_t i = 0; i < args.x.shape().count(); ++i) args.x.as<float>()[i] *= 2 * args.factor;
}

constexpr Op<ScaleArgs> kPlain = {"scale", contract, cost, reference, {nullptr, nullptr}};
constexpr Op<ScaleArgs> kWithCell = {"scale", contract, cost, reference, {twice, nullptr}};

class Recorder : public StreamObserver {
 public:
  void op_begin(Stream&, const OpEvent& event) override { begun.push_back(event); }
  void op_end(Stream&, const OpEvent& event) override { ended.push_back(event); }
  std::vector<OpEvent> begun, ended;
};

TEST(Op, ReferenceFillsAMissingCpuCell) {
  const auto device = new_cpu_device(1);
  const auto stream = device->new_stream();
  float x[3] = {1, 2, 3};
  kPlain(*stream, {TensorView(x, DType::kF32, {3}), 3.0f});
  EXPECT_EQ(x[2], 9.0f);
  kWithCell(*stream, {TensorView(x, DType::kF32, {3}), 1.0f});
  EXPECT_EQ(x[2], 18.0f);
}

TEST(Op, TellsTheObserverBytesAndFlops) {
  const auto device = new_cpu_device(1);
  const auto stream = device->new_stream();
  Recorder recorder;
  stream->set_observer(&recorder);
  float x[3] = {1, 2, 3};
  kPlain(*stream, {TensorView(x, DType::kF32, {3}), 3.0f});
  ASSERT_EQ(recorder.begun.size(), 1u);
  EXPECT_EQ(recorder.ended.size(), 1u);
  EXPECT_EQ(recorder.begun[0].name, "scale");
  EXPECT_EQ(recorder.begun[0].bytes, 24);
  EXPECT_EQ(recorder.begun[0].flops, 3);
}

TEST(Op, ARecordedCallRunsAtEachReplayWithTheArgumentsItHad) {
  const auto device = new_cpu_device(1);
  const auto stream = device->new_stream();
  float x[3] = {1, 2, 3};
  stream->begin_recording();
  for (const float factor : {3.0f, 0.5f}) {
    kWithCell(*stream, {TensorView(x, DType::kF32, {3}), factor});
  }
  const auto recording = stream->end_recording();
  ASSERT_TRUE(recording);
  EXPECT_EQ((*recording)->ops(), 2);
  EXPECT_EQ(x[2], 3.0f) << "nothing runs while it is recorded";
  stream->replay(**recording);
  EXPECT_EQ(x[2], 18.0f);
  x[2] = 1.0f;
  stream->replay(**recording);
  EXPECT_EQ(x[2], 6.0f) << "what is in memory now, not then";
  kWithCell(*stream, {TensorView(x, DType::kF32, {3}), 1.0f});
  EXPECT_EQ(x[2], 12.0f) << "after it, calls run again";
}

TEST(OpDeathTest, ContractsAndMissingCellsEndTheProcessByName) {
  const auto device = new_cpu_device(1);
  const auto stream = device->new_stream();
  int32_t wrong[3] = {};
  float x[3] = {};
  EXPECT_DEATH(kPlain(*stream, {TensorView(wrong, DType::kI32, {3}), 1.0f}),
               "operation scale: x has type i32, wanted f32");
  EXPECT_DEATH(kPlain(*stream, {TensorView(x, DType::kF32, {3}), 0.0f}),
               "operation scale requires a factor that is not zero");
  EXPECT_DEATH(missing_cell("scale", Backend::kCuda, true, false),
               "operation scale has no kernel for cuda; it has: cpu");
}

}  // namespace
}  // namespace ashlar
