// The engine's thread: refusals on the caller's thread, a bounded inbox, cancels at any time, sleep
// and wake, draining, stopping and a device that fails. Answers are compared elsewhere.
#include "engine/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "testing/toy_model.h"

namespace ashlar {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kVocabulary = 80;
constexpr int64_t kDecodable = 73;
constexpr int64_t kContext = 400;
constexpr auto kPatience = 60000ms;  // for what must happen; a slow machine is no failure

// A CPU device whose streams report a failure once told to.
class FailingDevice : public Device {
 public:
  FailingDevice() : cpu_(new_cpu_device(1)) {}
  void fail_now() { failing_ = true; }

  Backend backend() const override { return cpu_->backend(); }
  std::string name() const override { return "failing"; }
  Result<Buffer> allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  std::unique_ptr<Stream> new_stream() override {
    return std::make_unique<FailingStream>(*this, cpu_->new_stream());
  }
  void copy(Stream& stream, void* to, const void* from, size_t bytes) override {
    cpu_->copy(stream, to, from, bytes);
  }
  void copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                 size_t row_bytes, size_t rows) override {
    cpu_->copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, rows);
  }
  void clear(Stream& stream, void* data, size_t bytes) override {
    cpu_->clear(stream, data, bytes);
  }

 private:
  class FailingEvent : public Event {
   public:
    explicit FailingEvent(const std::atomic<bool>& failing) : failing_(failing) {}
    bool done() override { return true; }
    Status wait() override {
      if (failing_) return fail(ErrorCode::kDevice, "the device fell off the bus");
      return {};
    }
    double seconds_since(Event&) override { return 0; }

   private:
    const std::atomic<bool>& failing_;
  };
  class FailingStream : public Stream {
   public:
    FailingStream(FailingDevice& device, std::unique_ptr<Stream> stream)
        : device_(device), stream_(std::move(stream)) {}
    Device& device() override { return device_; }
    Status synchronize() override { return stream_->synchronize(); }
    std::unique_ptr<Event> record() override {
      return std::make_unique<FailingEvent>(device_.failing_);
    }
    void begin_recording() override { stream_->begin_recording(); }
    Result<std::unique_ptr<Recording>> end_recording() override { return stream_->end_recording(); }
    void replay(Recording& recording) override { stream_->replay(recording); }

   private:
    FailingDevice& device_;
    std::unique_ptr<Stream> stream_;
  };

  std::unique_ptr<Device> cpu_;
  std::atomic<bool> failing_ = false;
};

// Holds the engine's thread in an event until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t arrived_ = 0;
  bool open_ = false;
};

// What requests were told, by (request, choice).
class Book {
 public:
  std::function<void(const RequestEvent&)> writer() {
    return [this](const RequestEvent& e) { write(e); };
  }
  void write(const RequestEvent& e) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[{e.request, e.choice}];
    EXPECT_EQ(entry.finish, FinishReason::kNone) << "an event after the last one";
    entry.tokens += static_cast<int64_t>(e.tokens.size());
    entry.finish = e.finish;
    entry.error = e.error;
  }
  size_t ended(FinishReason reason) const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& [key, entry] : entries_) count += entry.finish == reason ? 1 : 0;
    return count;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }
  Error error(RequestId id) const {
    const std::lock_guard lock(mutex_);
    return entries_.at({id, 0}).error;
  }

 private:
  struct Entry {
    int64_t tokens = 0;
    FinishReason finish = FinishReason::kNone;
    Error error;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<RequestId, int64_t>, Entry> entries_;
};

class EngineThreadTest : public testing::Test {
 protected:
  void start(EngineOptions options = {}) {
    if (options.kv_positions == 0) options.kv_positions = 1024;
    auto engine = Engine::create(model_, device_, {}, options);
    ASSERT_TRUE(engine) << engine.error().message;
    auto thread = EngineThread::start(*std::move(engine));
    ASSERT_TRUE(thread) << thread.error().message;
    thread_ = *std::move(thread);
  }
  Request request(int64_t prompt = 5, int64_t tokens = 4) {
    Request r;
    for (int64_t i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(i * 7 % 70));
    r.max_tokens = tokens;
    r.on_event = book_.writer();
    return r;
  }
  // Stops the engine's thread at its second event, when the first step has been published.
  Request gated() {
    Request r = request();
    r.on_event = [this, events = 0](const RequestEvent& e) mutable {
      book_.write(e);
      if (++events == 2) gate_.pass();
    };
    return r;
  }
  void TearDown() override { gate_.open(); }
  void expect_all_back() {
    ASSERT_TRUE(thread_->wait_idle(kPatience));
    const EngineStats stats = thread_->stats();
    EXPECT_EQ(stats.pages_free, stats.pages_total);
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.waiting, 0);
  }
  Error refusal(Request r) {
    const Result<RequestId> id = thread_->submit(std::move(r));
    return id ? Error{ErrorCode::kInternal, "accepted"} : id.error();
  }

  ToyModel model_{kVocabulary, kDecodable, kContext};
  FailingDevice device_;
  Book book_;
  Gate gate_;
  std::unique_ptr<EngineThread> thread_;
};

TEST_F(EngineThreadTest, AnswersManyThreads) {
  start();
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kEach; ++i) {
        Request r = request(1 + i, 1 + t);
        r.choices = 1 + i % 2;
        EXPECT_TRUE(thread_->submit(std::move(r)));
        thread_->stats();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  expect_all_back();
  EXPECT_EQ(book_.ended(FinishReason::kLength), size_t{kThreads * (kEach + kEach / 2)});
  EXPECT_EQ(thread_->stats().finished, kThreads * (kEach + kEach / 2));
}

TEST_F(EngineThreadTest, SleepsWithoutWorkAndWakesAtOnce) {
  start();
  for (int round = 0; round < 3; ++round) {
    timespec before{};
    timespec after{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    std::this_thread::sleep_for(100ms);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                        1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
    EXPECT_LT(used, 0.05) << "an idle engine spins";
    ASSERT_TRUE(thread_->submit(request()));
    ASSERT_TRUE(thread_->wait_idle(kPatience));
  }
  EXPECT_EQ(book_.ended(FinishReason::kLength), 3u);
}

TEST_F(EngineThreadTest, RefusesOnTheCallersThreadWhileTheEngineIsBusy) {
  EngineOptions options;
  options.kv_positions = 128;
  options.max_waiting = 3;
  start(options);
  ASSERT_TRUE(thread_->submit(gated()));
  gate_.wait_for_arrival();  // from here on the engine's thread is stuck, and nobody else may be
  Error e = refusal(request(128));
  EXPECT_EQ(e.code, ErrorCode::kOutOfRange);
  EXPECT_EQ(e.message, "the prompt has 128 tokens, but the context holds 128, the answer included");
  EXPECT_EQ(refusal(request(0)).code, ErrorCode::kInvalidArgument);
  Request r = request();
  r.prompt[2] = kVocabulary;
  EXPECT_EQ(refusal(r).code, ErrorCode::kInvalidArgument);
  r = request();
  r.stop = {"x"};
  EXPECT_EQ(refusal(r).code, ErrorCode::kInvalidArgument);

  EXPECT_EQ(thread_->stats().waiting, 0);
  Request two = request();
  two.choices = 2;
  ASSERT_TRUE(thread_->submit(two));
  EXPECT_EQ(thread_->stats().waiting, 2);
  e = refusal(two);
  EXPECT_EQ(e.code, ErrorCode::kUnavailable);
  EXPECT_EQ(e.message, "the queue is full: 2 answers wait, and 2 more exceed max_waiting 3");
  ASSERT_TRUE(thread_->submit(request()));
  EXPECT_EQ(refusal(request()).code, ErrorCode::kUnavailable);
  EXPECT_FALSE(thread_->wait_idle(1ms));
  gate_.open();
  expect_all_back();
  EXPECT_EQ(book_.size(), 4u) << "a refused request got an event";
  ASSERT_TRUE(thread_->submit(request())) << "the queue has room again";
  expect_all_back();
}

TEST_F(EngineThreadTest, CancelsWaitingRunningAndInboxRequests) {
  EngineOptions options;
  options.max_batch = 1;
  start(options);
  const RequestId running = *thread_->submit(gated());
  gate_.wait_for_arrival();
  Request two = request();
  two.choices = 2;
  const RequestId inbox = *thread_->submit(two);
  const RequestId survivor = *thread_->submit(request());
  thread_->cancel(running);
  thread_->cancel(running);
  thread_->cancel(inbox);
  thread_->cancel(12345);
  gate_.open();
  expect_all_back();
  EXPECT_EQ(book_.ended(FinishReason::kCancelled), 3u);
  EXPECT_EQ(book_.ended(FinishReason::kLength), 1u);
  thread_->cancel(survivor);  // finished: nothing happens
  expect_all_back();
}

TEST_F(EngineThreadTest, AnEventMayCancelAndSubmit) {
  start();
  std::atomic<int> chained = 0;
  Request r = request(5, 50);
  r.on_event = [&](const RequestEvent& e) {
    book_.write(e);
    if (e.finish != FinishReason::kNone) return;
    thread_->cancel(e.request);
    if (++chained == 1) {
      EXPECT_TRUE(thread_->submit(request(3, 2)));
    }
  };
  ASSERT_TRUE(thread_->submit(std::move(r)));
  expect_all_back();
  EXPECT_EQ(book_.ended(FinishReason::kCancelled), 1u);
  EXPECT_EQ(book_.ended(FinishReason::kLength), 1u);
  EXPECT_EQ(thread_->stats().running, 0);
}

TEST_F(EngineThreadTest, DrainsWhatItHas) {
  EngineOptions options;
  options.max_batch = 1;
  start(options);
  ASSERT_TRUE(thread_->submit(gated()));
  ASSERT_TRUE(thread_->submit(request()));
  gate_.wait_for_arrival();
  ASSERT_TRUE(thread_->submit(request()));
  thread_->drain();
  const Error e = refusal(request());
  EXPECT_EQ(e.code, ErrorCode::kUnavailable);
  EXPECT_EQ(e.message, "the engine is stopping and takes no more requests");
  gate_.open();
  expect_all_back();
  EXPECT_EQ(book_.ended(FinishReason::kLength), 3u);
  thread_->stop();
  EXPECT_EQ(refusal(request()).code, ErrorCode::kUnavailable);
}

TEST_F(EngineThreadTest, StopTellsEveryone) {
  EngineOptions options;
  options.max_batch = 2;
  start(options);
  ASSERT_TRUE(thread_->submit(gated()));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(thread_->submit(request(40, 300)));
  gate_.wait_for_arrival();
  Request three = request(3, 200);
  three.choices = 3;
  ASSERT_TRUE(thread_->submit(three));  // still in the inbox
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    gate_.open();
  });
  thread_->stop();
  opener.join();
  EXPECT_EQ(book_.ended(FinishReason::kCancelled), 7u);
  EXPECT_EQ(refusal(request()).code, ErrorCode::kUnavailable);
  thread_->cancel(0);
  expect_all_back();
  thread_->stop();  // once more does nothing
}

TEST_F(EngineThreadTest, MayBeDestroyedWithWorkLeft) {
  start();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(thread_->submit(request(10, 300)));
  thread_.reset();
  EXPECT_EQ(book_.ended(FinishReason::kCancelled), 5u);
}

TEST_F(EngineThreadTest, AFailedDeviceIsToldToEveryoneAndEndsSubmission) {
  EngineOptions options;
  options.max_batch = 1;
  start(options);
  ASSERT_TRUE(thread_->submit(gated()));
  ASSERT_TRUE(thread_->submit(request()));
  gate_.wait_for_arrival();
  const RequestId inbox = *thread_->submit(request());
  EXPECT_EQ(thread_->failure(), "");
  device_.fail_now();
  gate_.open();
  ASSERT_TRUE(thread_->wait_idle(kPatience));
  EXPECT_EQ(thread_->failure(), "the device fell off the bus");
  EXPECT_EQ(book_.ended(FinishReason::kError), 3u);
  EXPECT_EQ(book_.error(inbox).code, ErrorCode::kDevice);
  EXPECT_EQ(book_.error(inbox).message, "the device fell off the bus");
  const Error e = refusal(request());
  EXPECT_EQ(e.code, ErrorCode::kDevice);
  EXPECT_EQ(e.message, "the device fell off the bus");
  thread_->cancel(inbox);
  thread_->stop();
}

}  // namespace
}  // namespace ashlar
