// PanelWeight: block-quantised rows, re-laid at load into panels for integer kernels
// (kernels/panels/).
//
// The copy takes about the bytes of the file's tensor. What was read of the file is given back to
// the system on the way, so that loading needs no more memory than the copies and a few megabytes.
// Nothing refers to the file afterwards.
#ifndef ASHLAR_FORMATS_PANEL_WEIGHT_H_
#define ASHLAR_FORMATS_PANEL_WEIGHT_H_

#include <memory>
#include <span>

#include "formats/format.h"
#include "kernels/packed/packed_rows.h"

namespace ashlar {

// Whether rows of K inputs of all these parts can become panels.
bool fits_panels(std::span<const PackedRows> parts, int64_t inputs);

// parts: what fits_panels() accepts, in the order of the outputs; their data lies in mapped files.
Result<std::unique_ptr<Weight>> make_panel_weight(std::span<const PackedRows> parts, int64_t inputs,
                                                  Device& device);

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_PANEL_WEIGHT_H_
