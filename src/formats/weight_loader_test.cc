// The way of weights from files to a device: every piece arrives where it should whatever the sizes
// of ring and pieces, host memory is bounded, and whatever goes wrong ends the load with its
// reason.
#include "formats/weight_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <thread>

#include "formats/dense/dense.h"
#include "formats/gguf_blocks/gguf_blocks.h"
#include "testing/cuda_stand_in.h"
#include "testing/random_packed.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

// Work of its streams is done when somebody waits for it, as late as a GPU may do it: a slot of the
// ring that is filled again too early shows. Remembers the host memory that was asked for.
class LateDevice : public CudaStandIn {
 public:
  Result<Buffer> allocate_host(size_t bytes) override {
    host_bytes_ += bytes;
    return CudaStandIn::allocate_host(bytes);
  }
  std::unique_ptr<Stream> new_stream() override {
    return std::make_unique<LateStream>(*this, CudaStandIn::new_stream());
  }
  void copy(Stream& stream, void* to, const void* from, size_t bytes) override {
    static_cast<LateStream&>(stream).work.push_back([=, this] {
      std::this_thread::sleep_for(delay_);
      std::memcpy(to, from, bytes);
    });
  }
  size_t host_bytes() const { return host_bytes_; }
  void set_delay(std::chrono::milliseconds delay) { delay_ = delay; }

 private:
  struct LateStream : Stream {
    LateStream(Device& device, std::unique_ptr<Stream> stream)
        : owner(device), real(std::move(stream)) {}
    ~LateStream() override { run(work.size()); }
    Device& device() override { return owner; }
    Status synchronize() override {
      run(work.size());
      return {};
    }
    std::unique_ptr<Event> record() override {
      return std::make_unique<LateEvent>(*this, finished + work.size());
    }
    void begin_recording() override {}
    Result<std::unique_ptr<Recording>> end_recording() override { return real->end_recording(); }
    void replay(Recording&) override {}
    void run(size_t count) {
      for (; count > 0; --count, ++finished) {
        work.front()();
        work.pop_front();
      }
    }
    Device& owner;
    std::unique_ptr<Stream> real;
    std::deque<std::function<void()>> work;
    size_t finished = 0;
  };
  struct LateEvent : Event {
    LateEvent(LateStream& s, size_t p) : stream(s), place(p) {}
    bool done() override { return stream.finished >= place; }
    Status wait() override {
      if (!done()) stream.run(place - stream.finished);
      return {};
    }
    double seconds_since(Event&) override { return 0; }
    LateStream& stream;
    size_t place;
  };

  size_t host_bytes_ = 0;
  std::chrono::milliseconds delay_{0};
};

struct Wanted {
  std::string name;
  StorageType type;
  const RowCodec* codec;
  int64_t rows;
  int64_t columns;
};

class WeightLoading : public testing::Test {
 protected:
  // One shard a tensor, named so that the last one wanted is the first on the disk.
  void write(const std::vector<Wanted>& tensors) {
    tensors_ = tensors;
    std::string map;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Wanted& t = tensors[i];
      SafetensorsWriter writer;
      writer.add_tensor(t.name, t.type, std::vector<int64_t>{t.rows, t.columns},
                        random_packed(t.type, t.rows * t.columns, static_cast<uint32_t>(i + 1)));
      const std::string file = fmt::format("model-{}.safetensors", tensors.size() - i);
      files_.push_back(dir_.write(file, writer.build()));
      map += fmt::format("{}\"{}\": \"{}\"", map.empty() ? "" : ", ", t.name, file);
    }
    dir_.write("config.json", "{}");
    dir_.write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
    auto opened = Checkpoint::open(dir_.path().string(), {});
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    checkpoint_ = *opened;
  }

  // All tensors as rows, each in a matrix of its own.
  std::vector<LoadJob> jobs(Device& device) {
    std::vector<LoadJob> list;
    for (const Wanted& t : tensors_) {
      const StoredTensor& tensor = *checkpoint_->find(t.name);
      LoadJob job;
      job.source.rows = {.codec = t.codec,
                         .data = nullptr,
                         .rows = t.rows,
                         .row_bytes = static_cast<int64_t>(tensor.row_bytes())};
      job.source.tensor = &tensor;
      job.inputs = t.columns;
      buffers_.push_back(device.allocate(static_cast<size_t>(t.rows * t.columns * 2)).value());
      std::memset(buffers_.back().data(), 0xee, buffers_.back().bytes());
      job.target.rows = buffers_.back().view(DType::kBF16, {t.rows, t.columns});
      list.push_back(job);
    }
    return list;
  }
  Status load(Device& device, const LoadLimits& limits, const LoadObserver& observer = {}) {
    WeightLoader loader(device, limits);
    for (LoadJob& job : jobs(device)) loader.add(job);
    return loader.run(observer);
  }
  // Every row of the last load against the truth, rounded once.
  void check() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Wanted& t = tensors_[i];
      const StoredTensor& tensor = *checkpoint_->find(t.name);
      const Buffer& loaded = buffers_[buffers_.size() - tensors_.size() + i];
      std::vector<float> row(static_cast<size_t>(t.columns));
      int64_t wrong = 0;
      for (int64_t r = 0; r < t.rows; ++r) {
        t.codec->truth(tensor.data() + static_cast<size_t>(r) * tensor.row_bytes(),
                       t.columns / t.codec->block_elements, row.data());
        for (int64_t k = 0; k < t.columns; ++k) {
          wrong += static_cast<const BF16*>(loaded.data())[r * t.columns + k].bits !=
                   to_bf16(row[static_cast<size_t>(k)]).bits;
        }
      }
      EXPECT_EQ(wrong, 0) << t.name;
    }
  }

  TempDir dir_;
  std::vector<std::string> files_;
  std::vector<Wanted> tensors_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::vector<Buffer> buffers_;
};

const std::vector<Wanted>& three_shards() {
  static const std::vector<Wanted> tensors = {{"a", StorageType::kBF16, &bf16_rows, 301, 40},
                                              {"b", StorageType::kF32, &f32_rows, 77, 24},
                                              {"c", StorageType::kBF16, &bf16_rows, 1, 4096}};
  return tensors;
}

TEST_F(WeightLoading, EveryPieceArrivesWhateverTheSizes) {
  write(three_shards());
  for (const LoadLimits& limits :
       {LoadLimits{}, LoadLimits{.ring_bytes = 1, .piece_bytes = 1, .threads = 1},
        LoadLimits{.ring_bytes = 4096, .piece_bytes = 1000, .threads = 3},
        LoadLimits{.ring_bytes = 1 << 20, .piece_bytes = 333, .threads = 5}}) {
    LateDevice device;
    LoadProgress last;
    const Status status = load(device, limits, [&](const LoadProgress& progress) {
      last = progress;
      return true;
    });
    ASSERT_TRUE(status.has_value()) << status.error().message;
    check();
    EXPECT_EQ(last.done_bytes, 301 * 80 + 77 * 96 + 8192);
    EXPECT_EQ(last.total_bytes, last.done_bytes);
    EXPECT_GE(last.threads, 1);
  }
}

TEST_F(WeightLoading, HostMemoryIsTheRingAlone) {
  write({{"a", StorageType::kBF16, &bf16_rows, 5000, 512}});
  LateDevice device;
  ASSERT_TRUE(load(device, {.ring_bytes = 1 << 20, .piece_bytes = 64 << 10, .threads = 4}));
  EXPECT_LE(device.host_bytes(), size_t{1} << 20);
  EXPECT_GE(device.host_bytes(), size_t{256} << 10) << "a few pieces are on their way";
  check();
  LateDevice other;
  ASSERT_TRUE(load(other, {.ring_bytes = 1, .piece_bytes = 64 << 10, .threads = 4}));
  EXPECT_EQ(other.host_bytes(), size_t{128} << 10) << "two pieces at least";
  check();
}

TEST_F(WeightLoading, PiecesFollowTheFiles) {
  write(three_shards());
  LateDevice device;
  const std::vector<LoadJob> list = jobs(device);
  const std::vector<Piece> pieces = cut_pieces(list, 8000);
  std::vector<std::string> seen;
  for (const Piece& piece : pieces) {
    seen.push_back(
        fmt::format("{} {}+{}", piece.job->source.tensor->name, piece.begin, piece.count));
  }
  const std::vector<std::string> wanted = {"c 0+1",     "b 0+77",    "a 0+100",
                                           "a 100+100", "a 200+100", "a 300+1"};
  EXPECT_EQ(seen, wanted);
}

TEST_F(WeightLoading, HeadsInRotationPairsStayWhole) {
  write({{"q", StorageType::kBF16, &bf16_rows, 24, 8}});
  LateDevice device;
  std::vector<LoadJob> list = jobs(device);
  list.front().source.rows.rope_head_size = 8;
  WeightLoader loader(device, {.ring_bytes = 1, .piece_bytes = 20, .threads = 2});
  loader.add(list.front());
  ASSERT_TRUE(loader.run());
  const auto* from = reinterpret_cast<const BF16*>(checkpoint_->find("q")->data());
  const auto* to = static_cast<const BF16*>(buffers_.back().data());
  for (int64_t r = 0; r < 24; ++r) {
    EXPECT_EQ(std::memcmp(to + r * 8, from + rope_pairs_row(r, 8) * 8, 16), 0) << r;
  }
}

TEST_F(WeightLoading, AShardThatBecameShorterEndsTheLoad) {
  write(three_shards());
  std::filesystem::resize_file(files_[0], std::filesystem::file_size(files_[0]) - 500);
  LateDevice device;
  const Status status = load(device, {.ring_bytes = 4096, .piece_bytes = 1000, .threads = 3});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find(files_[0] + ": tensor \"a\" needs "), std::string::npos);
  EXPECT_NE(status.error().message.find(
                fmt::format("the file ends at {}", std::filesystem::file_size(files_[0]))),
            std::string::npos)
      << status.error().message;
}

TEST_F(WeightLoading, ScalesThatAreNoNumbersEndTheLoad) {
  write({{"a", StorageType::kBF16, &bf16_rows, 64, 64}});
  StoredTensor tensor = *checkpoint_->find("a");
  std::vector<std::byte> blocks(17 * 8 * 10, std::byte{100});
  blocks[17 * 77] = std::byte{255};
  tensor.mapped = blocks.data();
  tensor.bytes = blocks.size();
  tensor.mapping = nullptr;
  LateDevice device;
  LoadJob job = jobs(device).front();
  job.source = {{.codec = &mxfp4_rows, .data = nullptr, .rows = 40, .row_bytes = 34}, &tensor};
  WeightLoader loader(device, {.ring_bytes = 4096, .piece_bytes = 300, .threads = 3});
  loader.add(job);
  const Status status = loader.run();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message,
            tensor.file + ": tensor a has a block scale that is not a number");
  blocks[17 * 77] = std::byte{100};
  loader.add(job);
  EXPECT_TRUE(loader.run().has_value()) << "and with it right the same load works";
}

TEST_F(WeightLoading, TheObserverMayStopIt) {
  write({{"a", StorageType::kBF16, &bf16_rows, 400, 64}});
  LateDevice device;
  device.set_delay(std::chrono::milliseconds(10));
  int calls = 0;
  const Status status = load(device, {.ring_bytes = 1, .piece_bytes = 1280, .threads = 2},
                             [&](const LoadProgress& progress) {
                               EXPECT_LT(progress.done_bytes, progress.total_bytes);
                               return ++calls < 3;
                             });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 3);
}

// Made on the device, part by part of a fused matrix, with the bits of the host.
TEST_F(WeightLoading, GeneratedTensorsPassNoRing) {
  checkpoint_ = Checkpoint::open("synthetic:qwen3-0.6b?layers=1&vocab=512", {}).value();
  CudaStandIn device;
  constexpr int64_t kInputs = 1024;
  int64_t rows = 0;
  std::vector<LoadJob> list;
  std::vector<std::byte> wanted;
  for (const char* name : {"q", "k", "v"}) {
    const StoredTensor& tensor =
        *checkpoint_->find(fmt::format("model.layers.0.self_attn.{}_proj.weight", name));
    LoadJob job;
    job.source.rows = {
        .codec = &bf16_rows, .data = nullptr, .rows = tensor.rows(), .row_bytes = kInputs * 2};
    job.source.tensor = &tensor;
    job.inputs = kInputs;
    job.first = rows;
    rows += tensor.rows();
    list.push_back(job);
    wanted.insert(wanted.end(), tensor.data(), tensor.data() + tensor.bytes);
  }
  const Buffer buffer = device.allocate(wanted.size()).value();
  WeightLoader loader(device);
  for (LoadJob& job : list) {
    job.target.rows = buffer.view(DType::kBF16, {rows, kInputs});
    loader.add(job);
  }
  LoadProgress last;
  ASSERT_TRUE(loader.run([&](const LoadProgress& progress) {
    last = progress;
    return true;
  }));
  EXPECT_EQ(std::memcmp(buffer.data(), wanted.data(), wanted.size()), 0);
  EXPECT_EQ(last.done_bytes, static_cast<int64_t>(wanted.size()));
  EXPECT_EQ(last.ring_bytes, 0);
}

TEST_F(WeightLoading, NothingToLoadIsDoneAtOnce) {
  LateDevice device;
  EXPECT_TRUE(WeightLoader(device).run([](const LoadProgress&) { return false; }).has_value());
  EXPECT_EQ(device.host_bytes(), 0u);
}

}  // namespace
}  // namespace ashlar
