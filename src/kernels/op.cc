// What a violated contract says. These calls end the process: a wrong shape here is a mistake in
// nn/ or models/, since models refuse a file's wrong shapes when they are built.
#include "kernels/op.h"

namespace ashlar {

void ShapeCheck::violated(const char* what) const {
  check_failed(op_, 0, "contract", fmt::format("operation {} requires {}", op_, what));
}

void ShapeCheck::violated_shape(const TensorView& view, const Shape& wanted,
                                const char* name) const {
  check_failed(op_, 0, "contract",
               fmt::format("operation {}: {} has shape {}, wanted {}", op_, name,
                           view.shape().text(), wanted.text()));
}

void ShapeCheck::violated_dtype(const TensorView& view, DType wanted, const char* name) const {
  check_failed(op_, 0, "contract",
               fmt::format("operation {}: {} has type {}, wanted {}", op_, name,
                           dtype_name(view.dtype()), dtype_name(wanted)));
}

void missing_cell(const char* op, Backend wanted, bool has_cpu, bool has_cuda) {
  check_failed(op, 0, "cell",
               fmt::format("operation {} has no kernel for {}; it has:{}{}", op,
                           backend_name(wanted), has_cpu ? " cpu" : "", has_cuda ? " cuda" : ""));
}

}  // namespace ashlar
