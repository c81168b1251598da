// SIGINT and SIGTERM as something to wait for. The first asks for a graceful stop; a second one
// ends the process at once, whatever its threads are doing.
#ifndef ASHLAR_APPS_STOP_SIGNAL_H_
#define ASHLAR_APPS_STOP_SIGNAL_H_

#include <chrono>

namespace ashlar {

// From here on the two signals no longer end the process by themselves. SIGPIPE is ignored.
void install_stop_signals();

// Waits; true once a signal has come.
bool wait_stop_signal(std::chrono::milliseconds patience);

}  // namespace ashlar

#endif  // ASHLAR_APPS_STOP_SIGNAL_H_
