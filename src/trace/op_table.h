// OpTable: adds up what the operations of a stream took, moved and computed, and prints one line an
// operation.
//
// It observes one stream (Stream::set_observer) on the thread that issues work. On a device that
// runs behind the host, times are those of issuing; device times come with that device's own
// tracer.
#ifndef ASHLAR_TRACE_OP_TABLE_H_
#define ASHLAR_TRACE_OP_TABLE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "device/device.h"

namespace ashlar {

class OpTable : public StreamObserver {
 public:
  struct Row {
    int64_t calls = 0;
    int64_t bytes = 0;
    int64_t flops = 0;
    double seconds = 0;
  };

  void op_begin(Stream& stream, const OpEvent& event) override;
  void op_end(Stream& stream, const OpEvent& event) override;

  const std::map<std::string, Row, std::less<>>& rows() const { return rows_; }
  std::string text() const;  // a table for people, slowest first

 private:
  std::map<std::string, Row, std::less<>> rows_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace ashlar

#endif  // ASHLAR_TRACE_OP_TABLE_H_
