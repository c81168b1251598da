// The weight of a CUDA device: rows of any storage, rounded to bf16 once when they are loaded, in
// the layout of tile_matmul, as plain rows where they are looked up, or as both (a tied head: twice
// the memory, 2 x 2 bytes an element).
//
// Host code over operations and Device alone, so that a CPU device and the operations' references
// can stand in for a GPU in tests.
#ifndef ASHLAR_FORMATS_TILE_WEIGHT_H_
#define ASHLAR_FORMATS_TILE_WEIGHT_H_

#include <memory>
#include <vector>

#include "formats/format.h"
#include "formats/piece_reader.h"

namespace ashlar {

class WeightLoader;

// Fuses the parts in the order of the outputs. Refuses by name what the layout cannot hold: rows
// that are no multiple of 8 inputs, gates that are no multiple of 8. The rows are there when the
// loader has run, whose run the weight must outlive; without a loader, when this returns.
Result<std::unique_ptr<Weight>> make_tile_weight(std::vector<TileSource> parts, int64_t inputs,
                                                 WeightUse use, Device& device,
                                                 WeightLoader* loader);

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_TILE_WEIGHT_H_
