// A CUDA stream keeps its first failure: work that follows is dropped, since it would run on what
// the failed call did not write, and the next wait reports the failure, once. A fault inside a
// kernel (a bad address, say) shows only at a wait, and then again at every call, because CUDA ends
// the device's context with it.
//
// CUDA events are taken from a list of the stream and put back, so that a step makes none.
//
// A recording is a CUDA graph captured from the stream. A kernel's first run loads its code and
// opts in to its shared memory, which a capture forbids: so only kernels that ran before are
// recorded.
#include "device/stream_cuda.h"

#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ashlar {

namespace {

constexpr size_t kSharedBytesWithoutOptIn = 48 << 10;

std::string shape_text(const LaunchShape& shape) {
  std::string text = fmt::format("grid {}x{}x{}, block {}x{}x{}, {} bytes of shared memory",
                                 shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
                                 shape.block.y, shape.block.z, shape.shared_bytes);
  if (shape.cluster > 1) text += fmt::format(", clusters of {}", shape.cluster);
  return text;
}

// Shared by a stream and its events, which may outlive it.
struct StreamState {
  int ordinal = 0;
  cudaStream_t stream = nullptr;
  std::optional<Error> failure;
  const char* last_op = nullptr;  // the kernel started last
  LaunchShape last_shape;
  std::vector<cudaEvent_t> free_events;
  bool recording = false;
  std::unordered_set<const void*> primed;  // kernels that ran, with all the shared memory they want

  ~StreamState() {
    if (use_cuda_device(ordinal) != cudaSuccess) return;
    for (cudaEvent_t event : free_events) cudaEventDestroy(event);
    if (stream != nullptr) cudaStreamDestroy(stream);
    cudaGetLastError();
  }

  bool failed() const { return failure.has_value(); }

  // `what` is the call and what it was called for.
  void keep(cudaError_t error, const std::string& what) {
    cudaGetLastError();  // else an unrelated later call would report it again
    if (failed()) return;
    failure = Error{ErrorCode::kDevice, fmt::format("{}: {} ({})", what, cudaGetErrorString(error),
                                                    cudaGetErrorName(error))};
  }

  void refuse(std::string message) {
    if (!failed()) failure = Error{ErrorCode::kDevice, std::move(message)};
  }

  // For calls that wait: the failure is of work that was issued earlier.
  void keep_found_by(const char* call, cudaError_t error) {
    keep(error, last_op == nullptr
                    ? std::string(call)
                    : fmt::format("{} (found there; the kernel started last was {}, {})", call,
                                  last_op, shape_text(last_shape)));
  }

  Status take_failure() {
    if (!failed()) return {};
    Error error = std::move(*failure);
    failure.reset();
    return tl::unexpected<Error>(std::move(error));
  }

  bool ready() {
    if (failed()) return false;
    const cudaError_t error = use_cuda_device(ordinal);
    if (error != cudaSuccess) keep(error, fmt::format("cudaSetDevice({})", ordinal));
    return error == cudaSuccess;
  }
};

class CudaEvent : public Event {
 public:
  // event: null when the stream had failed before; then the work before this point was dropped, and
  // whoever waits is told so, even when somebody else took the stream's failure meanwhile.
  CudaEvent(std::shared_ptr<StreamState> state, cudaEvent_t event, bool timed)
      : state_(std::move(state)), event_(event), timed_(timed) {
    if (event_ == nullptr) failure_ = state_->failure;
  }
  ~CudaEvent() override {
    if (event_ == nullptr) return;
    if (timed_) {
      cudaEventDestroy(event_);
    } else {
      state_->free_events.push_back(event_);
    }
  }

  bool done() override {
    if (event_ == nullptr || state_->failed()) return true;
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();  // it is no error
      return false;
    }
    if (error != cudaSuccess) state_->keep_found_by("cudaEventQuery", error);
    return true;
  }

  // Waits even when a failure is already known: what still runs must not outlive its memory.
  Status wait() override {
    if (event_ != nullptr) {
      const cudaError_t error = cudaEventSynchronize(event_);
      if (error != cudaSuccess) state_->keep_found_by("cudaEventSynchronize", error);
    }
    std::optional<Error> dropped = std::exchange(failure_, std::nullopt);
    ASHLAR_TRY(state_->take_failure());
    if (dropped) return tl::unexpected<Error>(*std::move(dropped));
    return {};
  }

  double seconds_since(Event& earlier) override {
    CudaEvent& from = static_cast<CudaEvent&>(earlier);
    CHECK(timed_ && from.timed_);
    if (event_ == nullptr || from.event_ == nullptr) return 0;
    float milliseconds = 0;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, from.event_, event_);
    if (error != cudaSuccess) state_->keep(error, "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  std::shared_ptr<StreamState> state_;
  cudaEvent_t event_;
  bool timed_;
  std::optional<Error> failure_;
};

class CudaRecording : public Recording {
 public:
  CudaRecording(std::shared_ptr<StreamState> state, cudaGraphExec_t graph, int64_t ops)
      : state_(std::move(state)), graph_(graph), ops_(ops) {}
  ~CudaRecording() override {
    if (cudaGraphExecDestroy(graph_) != cudaSuccess) cudaGetLastError();
  }
  int64_t ops() const override { return ops_; }
  cudaGraphExec_t graph() const { return graph_; }

 private:
  std::shared_ptr<StreamState> state_;
  cudaGraphExec_t graph_;
  int64_t ops_;
};

class CudaStream : public Stream {
 public:
  CudaStream(Device& device, const CudaTraits& traits)
      : device_(device), traits_(traits), state_(std::make_shared<StreamState>()) {
    state_->ordinal = traits.ordinal;
    if (!state_->ready()) return;
    const cudaError_t error = cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) state_->keep(error, "cudaStreamCreateWithFlags");
  }

  Device& device() override { return device_; }
  const CudaTraits& traits() const { return traits_; }
  StreamState& state() { return *state_; }

  // Waits then as well.
  Status synchronize() override {
    if (state_->ready() || state_->failed()) {
      const cudaError_t error = cudaStreamSynchronize(state_->stream);
      if (error != cudaSuccess) state_->keep_found_by("cudaStreamSynchronize", error);
    }
    return state_->take_failure();
  }

  std::unique_ptr<Event> record() override { return new_event(false); }
  std::unique_ptr<Event> record_timed() override { return new_event(true); }

  // Calls of this thread that could wait for the device fail meanwhile, by name.
  void begin_recording() override {
    CHECK(!state_->recording);
    state_->recording = true;
    if (!state_->ready()) return;
    const cudaError_t error =
        cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) state_->keep(error, "cudaStreamBeginCapture");
  }

  Result<std::unique_ptr<Recording>> end_recording() override {
    CHECK(state_->recording);
    state_->recording = false;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = nullptr;
    if (cudaStreamIsCapturing(state_->stream, &status) != cudaSuccess ||
        status != cudaStreamCaptureStatusNone) {
      const cudaError_t error = cudaStreamEndCapture(state_->stream, &graph);
      if (error != cudaSuccess) state_->keep(error, "cudaStreamEndCapture");
    }
    size_t nodes = 0;
    cudaGraphExec_t exec = nullptr;
    if (!state_->failed() && graph != nullptr) {
      cudaError_t error = cudaGraphGetNodes(graph, nullptr, &nodes);
      if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
      if (error == cudaSuccess) error = cudaGraphUpload(exec, state_->stream);
      if (error != cudaSuccess) {
        state_->keep(error, fmt::format("cudaGraphInstantiate of {} kernels", nodes));
      }
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (state_->failed() || exec == nullptr) {
      if (exec != nullptr) cudaGraphExecDestroy(exec);
      ASHLAR_TRY(state_->take_failure());
      return fail(ErrorCode::kDevice, "nothing was recorded: no capture had begun");
    }
    return std::make_unique<CudaRecording>(state_, exec, static_cast<int64_t>(nodes));
  }

  void replay(Recording& recording) override {
    CHECK(!state_->recording);
    if (!state_->ready()) return;
    const CudaRecording& cuda = static_cast<CudaRecording&>(recording);
    const cudaError_t error = cudaGraphLaunch(cuda.graph(), state_->stream);
    if (error != cudaSuccess) {
      return state_->keep(error, fmt::format("cudaGraphLaunch of {} kernels", cuda.ops()));
    }
    state_->last_op = "one of a recording";
    state_->last_shape = {};
  }

 private:
  std::unique_ptr<Event> new_event(bool timed) {
    cudaEvent_t event = nullptr;
    if (state_->ready()) event = record_event(timed);
    return std::make_unique<CudaEvent>(state_, event, timed);
  }

  cudaEvent_t record_event(bool timed) {
    std::vector<cudaEvent_t>& free_events = state_->free_events;
    cudaEvent_t event = nullptr;
    if (!timed && !free_events.empty()) {
      event = free_events.back();
      free_events.pop_back();
    } else if (const cudaError_t error = cudaEventCreateWithFlags(
                   &event, timed ? cudaEventDefault : cudaEventDisableTiming);
               error != cudaSuccess) {
      state_->keep(error, "cudaEventCreateWithFlags");
      return nullptr;
    }
    if (const cudaError_t error = cudaEventRecord(event, state_->stream); error != cudaSuccess) {
      state_->keep(error, "cudaEventRecord");
    }
    return event;
  }

  Device& device_;
  CudaTraits traits_;
  std::shared_ptr<StreamState> state_;
};

CudaStream& as_cuda(Stream& stream) {
  CHECK(stream.device().backend() == Backend::kCuda);
  return static_cast<CudaStream&>(stream);
}

// Lets a kernel use more than 48 KB. All that there is, so that streams that start the same kernel
// with different sizes do not undo each other's setting; it reserves nothing.
cudaError_t opt_in(const void* kernel, const CudaTraits& traits) {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  const size_t most = traits.shared_bytes_per_block - attributes.sharedSizeBytes;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(most));
}

}  // namespace

cudaError_t use_cuda_device(int ordinal) {
  thread_local int current = -1;
  if (current == ordinal) return cudaSuccess;
  const cudaError_t error = cudaSetDevice(ordinal);
  current = error == cudaSuccess ? ordinal : -1;
  return error;
}

std::unique_ptr<Stream> new_cuda_stream(Device& device, const CudaTraits& traits) {
  return std::make_unique<CudaStream>(device, traits);
}

void copy_on_cuda(Stream& stream, void* to, const void* from, size_t bytes) {
  StreamState& state = as_cuda(stream).state();
  if (bytes == 0 || !state.ready()) return;
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state.stream);
  if (error != cudaSuccess) {
    state.keep(error, fmt::format("cudaMemcpyAsync of {} bytes from {} to {}", bytes, from, to));
  }
}

void copy_rows_on_cuda(Stream& stream, void* to, size_t to_pitch, const void* from,
                       size_t from_pitch, size_t row_bytes, size_t rows) {
  StreamState& state = as_cuda(stream).state();
  if (row_bytes == 0 || rows == 0 || !state.ready()) return;
  const cudaError_t error = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, row_bytes, rows,
                                              cudaMemcpyDefault, state.stream);
  if (error != cudaSuccess) {
    state.keep(error, fmt::format("cudaMemcpy2DAsync of {} rows of {} bytes from {} to {}", rows,
                                  row_bytes, from, to));
  }
}

void clear_on_cuda(Stream& stream, void* data, size_t bytes) {
  StreamState& state = as_cuda(stream).state();
  if (bytes == 0 || !state.ready()) return;
  const cudaError_t error = cudaMemsetAsync(data, 0, bytes, state.stream);
  if (error != cudaSuccess) {
    state.keep(error, fmt::format("cudaMemsetAsync of {} bytes at {}", bytes, data));
  }
}

cudaStream_t cuda_stream(Stream& stream) { return as_cuda(stream).state().stream; }

const CudaTraits& cuda_traits(Stream& stream) { return as_cuda(stream).traits(); }

void keep_failure(Stream& stream, cudaError_t error, const char* call, const char* op) {
  if (error != cudaSuccess) as_cuda(stream).state().keep(error, fmt::format("{} for {}", call, op));
}

void* find_driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : nullptr;
}

namespace launch_detail {

void launch_kernel(Stream& stream, const char* op, const void* kernel, const LaunchShape& shape,
                   void** arguments) {
  CudaStream& cuda = as_cuda(stream);
  StreamState& state = cuda.state();
  CHECK(kernel != nullptr && shape.cluster >= 1);
  CHECK_EQ(shape.grid.x % static_cast<unsigned>(shape.cluster), 0u);
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0 || !state.ready()) return;

  const auto keep = [&](cudaError_t error, const char* call) {
    state.keep(error, fmt::format("{} of {} ({})", call, op, shape_text(shape)));
  };
  const bool primed = state.primed.contains(kernel);
  if (!primed && state.recording) {
    return state.refuse(fmt::format(
        "{} ({}) cannot be recorded: this kernel of it has not run on this stream before", op,
        shape_text(shape)));
  }
  if (!primed && shape.shared_bytes > kSharedBytesWithoutOptIn) {
    const cudaError_t error = opt_in(kernel, cuda.traits());
    if (error != cudaSuccess) return keep(error, "cudaFuncSetAttribute");
  }
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = state.stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster > 1 ? 2 : 1;
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  if (error != cudaSuccess) return keep(error, "cudaLaunchKernelExC");
  if (!primed) state.primed.insert(kernel);
  state.last_op = op;
  state.last_shape = shape;
}

}  // namespace launch_detail

}  // namespace ashlar
