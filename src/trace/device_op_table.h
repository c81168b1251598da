// DeviceOpTable: what each operation of a stream took on its device, by timed events around it. It
// serves devices that run behind the host, and the CPU alike.
//
// Events between kernels switch off their overlap and cost a microsecond or two each time, so the
// times of a step's operations may add up to more than the step takes. The host must stay ahead of
// the device, or what it takes to issue an operation counts as the operation's: give the device
// something long to do first. It observes one stream; while a stream records, nothing is seen.
#ifndef ASHLAR_TRACE_DEVICE_OP_TABLE_H_
#define ASHLAR_TRACE_DEVICE_OP_TABLE_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace ashlar {

class DeviceOpTable : public StreamObserver {
 public:
  struct Call {
    std::string_view name;  // of the operation, for ever
    int64_t bytes = 0;
    int64_t flops = 0;
    double seconds = 0;
  };

  void op_begin(Stream& stream, const OpEvent& event) override;
  void op_end(Stream& stream, const OpEvent& event) override;

  // Waits for the device. The operations since the last call, in the order in which they were
  // issued.
  Result<std::vector<Call>> take();

 private:
  struct Pending {
    Call call;
    std::unique_ptr<Event> begin;
    std::unique_ptr<Event> end;
  };
  std::vector<Pending> pending_;
};

}  // namespace ashlar

#endif  // ASHLAR_TRACE_DEVICE_OP_TABLE_H_
