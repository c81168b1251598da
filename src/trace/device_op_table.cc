// Events are recorded last at the beginning and first at the end, so that bookkeeping is not timed
// where the device is the host.
#include "trace/device_op_table.h"

#include "base/check.h"

namespace ashlar {

void DeviceOpTable::op_begin(Stream& stream, const OpEvent& event) {
  Pending& pending = pending_.emplace_back();
  pending.call = {event.name, event.bytes, event.flops, 0};
  pending.begin = stream.record_timed();
}

void DeviceOpTable::op_end(Stream& stream, const OpEvent&) {
  std::unique_ptr<Event> end = stream.record_timed();
  CHECK(!pending_.empty() && pending_.back().end == nullptr);
  pending_.back().end = std::move(end);
}

Result<std::vector<DeviceOpTable::Call>> DeviceOpTable::take() {
  std::vector<Pending> pending;
  pending.swap(pending_);
  std::vector<Call> calls;
  // The last event stands for all before it; a failure of the device shows there.
  if (!pending.empty()) ASHLAR_TRY(pending.back().end->wait());
  for (Pending& p : pending) {
    p.call.seconds = p.end->seconds_since(*p.begin);
    calls.push_back(p.call);
  }
  return calls;
}

}  // namespace ashlar
