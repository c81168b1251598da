// How many cores this process may use: its affinity mask, cut by the CPU quota of its control
// group. A container that may use 2 of 64 cores gets 2 threads.
#ifndef ASHLAR_DEVICE_CORES_H_
#define ASHLAR_DEVICE_CORES_H_

namespace ashlar {

int usable_cores();

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_CORES_H_
