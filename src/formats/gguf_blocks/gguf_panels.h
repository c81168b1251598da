// How the rows of GGUF blocks become panels, one source a type; the codecs in gguf_blocks.h refer
// to them. Internal to this folder.
#ifndef ASHLAR_FORMATS_GGUF_BLOCKS_GGUF_PANELS_H_
#define ASHLAR_FORMATS_GGUF_BLOCKS_GGUF_PANELS_H_

#include "kernels/panels/panels.h"

namespace ashlar {

extern const PanelSource q4_0_panels;
extern const PanelSource q4_1_panels;
extern const PanelSource q5_0_panels;
extern const PanelSource q5_1_panels;
extern const PanelSource q8_0_panels;
extern const PanelSource q4_k_panels;
extern const PanelSource q5_k_panels;
extern const PanelSource q6_k_panels;

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_GGUF_BLOCKS_GGUF_PANELS_H_
