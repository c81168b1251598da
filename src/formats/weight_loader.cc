// The one thread that talks to the device, and the threads that read for it.
//
// With twice as many slots as readers at best, all readers can be at work while as many pieces are
// on the device: when a reader finds no free slot, at least half of them are the device's, and the
// wait for the oldest is a wait for a copy.
#include "formats/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <system_error>
#include <thread>

#include "base/align.h"
#include "checkpoint/synthetic_tensor.h"
#include "device/cores.h"
#include "formats/piece_ring.h"
#include "kernels/fill_synthetic/fill_synthetic.h"
#include "tensor/buffer.h"

namespace ashlar {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostThreads = 16;
constexpr int64_t kSlotAlignment = 1024;
constexpr int64_t kGeneratedBytes = int64_t{64} << 20;
constexpr double kReportSeconds = 0.1;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Whether a device can make the rows by itself.
bool is_generated(const LoadJob& job) {
  return job.source.tensor->synthetic != nullptr && job.source.rows.rope_head_size == 0;
}

// Rows [first, first + count) of the matrix: where they are wanted as rows, else in staging.
TensorView rows_of(const LoadJob& job, int64_t first, int64_t count, void* staging) {
  if (!job.target.rows.empty()) return job.target.rows.slice_rows(first, count);
  return TensorView(staging, DType::kBF16, {count, job.inputs});
}

class Load {
 public:
  Load(Device& device, const LoadObserver& observer)
      : device_(device), observer_(observer), stream_(device.new_stream()) {}
  // Nothing of this load is in use any more when its buffers go.
  ~Load() {
    if (stream_->synchronize()) return;  // a failure was reported by a wait, or another one was
  }

  Status run(std::span<const LoadJob> jobs, std::span<const LoadJob> generated,
             const LoadLimits& limits);

 private:
  struct Slot {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    size_t piece = 0;
    std::unique_ptr<Event> done;
  };

  void clear_tiles(std::span<const LoadJob> jobs);
  Status generate(std::span<const LoadJob> jobs);
  Status prepare(std::span<const Piece> pieces, const LoadLimits& limits);
  Status start_readers(std::span<const Piece> pieces, PieceRing& ring,
                       std::vector<std::jthread>& threads);
  void read_pieces(std::span<const Piece> pieces, PieceRing& ring, PieceReader& reader);
  Status feed_device(std::span<const Piece> pieces, PieceRing& ring);
  void issue(const Piece& piece, Slot& slot);
  Status free_oldest(PieceRing& ring);
  Status report(bool last);

  Device& device_;
  const LoadObserver& observer_;
  const Clock::time_point start_ = Clock::now();
  LoadProgress progress_;
  double reported_ = 0;
  std::atomic<int64_t> reading_ns_ = 0;
  Buffer host_;
  Buffer staging_;
  Buffer generated_;
  std::vector<Slot> slots_;
  std::deque<size_t> with_device_;  // slots, oldest first
  std::vector<std::unique_ptr<PieceReader>> readers_;
  std::unique_ptr<Stream> stream_;
};

void Load::clear_tiles(std::span<const LoadJob> jobs) {
  for (const LoadJob& job : jobs) {
    if (job.first == 0 && !job.target.tiles.data.empty()) {
      tile_clear(*stream_, {.weight = job.target.tiles});
    }
  }
}

Status Load::generate(std::span<const LoadJob> jobs) {
  Buffer& staging = generated_;  // one is enough: the stream does everything in order
  for (const LoadJob& job : jobs) {
    const int64_t rows = job.source.rows.rows;
    const bool staged = job.target.rows.empty();
    const int64_t at_once =
        staged ? std::clamp<int64_t>(kGeneratedBytes / job.bf16_row_bytes(), 1, rows) : rows;
    const auto bytes = static_cast<size_t>(at_once * job.bf16_row_bytes());
    if (staged && staging.bytes() < bytes) {
      ASHLAR_TRY(stream_->synchronize());  // the smaller one may be in use
      ASHLAR_ASSIGN(staging, device_.allocate(bytes));
    }
    for (int64_t begin = 0; begin < rows; begin += at_once) {
      const int64_t count = std::min(at_once, rows - begin);
      const TensorView to = rows_of(job, job.first + begin, count, staging.data());
      fill_synthetic(
          *stream_,
          {.values = job.source.tensor->synthetic->values(), .first = begin * job.inputs, .y = to});
      if (!job.target.tiles.data.empty()) {
        tile_pack(*stream_, {.rows = to, .first = job.first + begin, .weight = job.target.tiles});
      }
      progress_.done_bytes += count * job.source.rows.row_bytes;
      ASHLAR_TRY(report(false));
    }
  }
  return stream_->synchronize();
}

Status Load::prepare(std::span<const Piece> pieces, const LoadLimits& limits) {
  int64_t slot_bytes = 0;
  bool staged = false;
  for (const Piece& piece : pieces) {
    slot_bytes = std::max(slot_bytes, piece.bf16_bytes());
    staged |= piece.job->target.rows.empty();
  }
  slot_bytes = round_up(slot_bytes, kSlotAlignment);
  const int wanted = limits.threads > 0 ? limits.threads : std::min(usable_cores(), kMostThreads);
  const auto count = static_cast<int64_t>(pieces.size());
  const int64_t slots =
      std::min(count, std::clamp<int64_t>(limits.ring_bytes / slot_bytes, 2, 2 * int64_t{wanted}));
  progress_.threads = static_cast<int>(std::min<int64_t>(wanted, slots));
  progress_.ring_bytes = slots * slot_bytes;
  ASHLAR_ASSIGN(host_, device_.allocate_host(static_cast<size_t>(progress_.ring_bytes)));
  if (staged) {
    ASHLAR_ASSIGN(staging_, device_.allocate(static_cast<size_t>(progress_.ring_bytes)));
  }
  for (int64_t i = 0; i < slots; ++i) {
    Slot slot;
    slot.host = static_cast<std::byte*>(host_.data()) + i * slot_bytes;
    if (staged) slot.device = static_cast<std::byte*>(staging_.data()) + i * slot_bytes;
    slots_.push_back(std::move(slot));
  }
  for (int i = 0; i < progress_.threads; ++i) {
    readers_.push_back(std::make_unique<PieceReader>(pieces));
  }
  return {};
}

void Load::read_pieces(std::span<const Piece> pieces, PieceRing& ring, PieceReader& reader) {
  while (const auto place = ring.take()) {
    const auto start = Clock::now();
    const Status read = reader.read(pieces[place->piece], slots_[place->slot].host);
    reading_ns_ += (Clock::now() - start).count();
    if (!read) return ring.fail(read.error());
    ring.deliver(*place);
  }
}

// At least one starts, or it is an error; fewer than wanted only cost time.
Status Load::start_readers(std::span<const Piece> pieces, PieceRing& ring,
                           std::vector<std::jthread>& threads) {
  for (const auto& reader : readers_) {
    try {
      threads.emplace_back([this, pieces, &ring, &reader] { read_pieces(pieces, ring, *reader); });
    } catch (const std::system_error& error) {
      if (threads.empty()) {
        return fail(ErrorCode::kResourceExhausted, "no thread to read weights can be started: {}",
                    error.what());
      }
      break;
    }
  }
  return {};
}

void Load::issue(const Piece& piece, Slot& slot) {
  const LoadJob& job = *piece.job;
  const int64_t first = job.first + piece.begin;
  const TensorView rows = rows_of(job, first, piece.count, slot.device);
  device_.copy(*stream_, rows.data(), slot.host, static_cast<size_t>(piece.bf16_bytes()));
  if (!job.target.tiles.data.empty()) {
    tile_pack(*stream_, {.rows = rows, .first = first, .weight = job.target.tiles});
  }
  slot.done = stream_->record();
}

Status Load::free_oldest(PieceRing& ring) {
  const size_t slot = with_device_.front();
  ASHLAR_TRY(slots_[slot].done->wait());
  with_device_.pop_front();
  ring.release(slot);
  return {};
}

Status Load::feed_device(std::span<const Piece> pieces, PieceRing& ring) {
  for (size_t issued = 0; issued < pieces.size();) {
    auto before = Clock::now();
    PieceRing::Place place;
    const PieceRing::Next next = ring.next(!with_device_.empty(), place);
    progress_.read_wait_seconds += seconds_since(before);
    if (next == PieceRing::Next::kReaderFailed) return tl::unexpected<Error>(ring.failure());
    if (next == PieceRing::Next::kReady) {
      issue(pieces[place.piece], slots_[place.slot]);
      with_device_.push_back(place.slot);
      progress_.done_bytes += pieces[place.piece].file_bytes();
      ++issued;
      while (!with_device_.empty() && slots_[with_device_.front()].done->done()) {
        ASHLAR_TRY(free_oldest(ring));
      }
    } else if (next == PieceRing::Next::kFreeOne) {
      before = Clock::now();
      ASHLAR_TRY(free_oldest(ring));
      progress_.device_wait_seconds += seconds_since(before);
    }
    ASHLAR_TRY(report(false));
  }
  const auto before = Clock::now();
  ASHLAR_TRY(stream_->synchronize());
  progress_.device_wait_seconds += seconds_since(before);
  return {};
}

Status Load::report(bool last) {
  progress_.seconds = seconds_since(start_);
  progress_.reading_seconds = 1e-9 * static_cast<double>(reading_ns_.load());
  if (!observer_ || (!last && progress_.seconds - reported_ < kReportSeconds)) return {};
  reported_ = progress_.seconds;
  if (observer_(progress_)) return {};
  return fail(ErrorCode::kCancelled, "loading was stopped after {} of {} bytes",
              progress_.done_bytes, progress_.total_bytes);
}

Status Load::run(std::span<const LoadJob> jobs, std::span<const LoadJob> generated,
                 const LoadLimits& limits) {
  for (const LoadJob& job : jobs) progress_.total_bytes += job.file_bytes();
  for (const LoadJob& job : generated) progress_.total_bytes += job.file_bytes();
  clear_tiles(jobs);
  clear_tiles(generated);
  ASHLAR_TRY(generate(generated));
  const std::vector<Piece> pieces = cut_pieces(jobs, limits.piece_bytes);
  if (!pieces.empty()) {
    ASHLAR_TRY(prepare(pieces, limits));
    PieceRing ring(pieces.size(), slots_.size());
    std::vector<std::jthread> threads;  // joins before the ring goes
    Status status = start_readers(pieces, ring, threads);
    if (status) status = feed_device(pieces, ring);
    ring.stop();
    if (!status) return status;
  }
  return report(true);
}

}  // namespace

Status WeightLoader::run(const LoadObserver& observer) {
  const std::vector<LoadJob> jobs = std::exchange(jobs_, {});
  if (jobs.empty()) return {};
  std::vector<LoadJob> generated;
  std::vector<LoadJob> stored;
  for (const LoadJob& job : jobs) (is_generated(job) ? generated : stored).push_back(job);
  return Load(device_, observer).run(stored, generated, limits_);
}

}  // namespace ashlar
