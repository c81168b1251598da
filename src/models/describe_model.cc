// What can be said about a built model, for `inspect` and reports. Apart from decoder_config.cc,
// which reads configurations and needs nothing that is built.
#include <algorithm>

#include "models/decoder_config.h"

namespace ashlar {

ModelInfo describe_model(const char* family, const DecoderConfig& config,
                         const ModelOptions& options, const ModelBuilder& builder) {
  return {.family = family,
          .layers = config.layers,
          .hidden = config.hidden,
          .vocabulary = config.vocabulary,
          .decodable = options.decodable > 0 ? std::min(options.decodable, config.vocabulary)
                                             : config.vocabulary,
          .context_length = usable_context(config, options),
          .weight_bytes = builder.weight_bytes(),
          .weight_formats = builder.weight_formats()};
}

}  // namespace ashlar
