// config.json as the decoders of all families read it: strict JSON, then every typed reader of
// sizes, rotary positions and windows.
#include <nlohmann/json.hpp>

#include "checkpoint/config_reader.h"
#include "checkpoint/json_text.h"
#include "fuzz/targets.h"
#include "models/decoder_config.h"

namespace ashlar {

void fuzz_config(std::string_view input) {
  const Result<nlohmann::json> object = parse_json_object(input, "config.json");
  fuzz_check_foreseen(object);
  if (!object) return;
  const ConfigReader config(*object, "config.json");
  const auto sizes = read_decoder_config(config, {});
  fuzz_check_foreseen(sizes);
  fuzz_check_foreseen(read_rope(config, 10000.0, sizes ? sizes->context_length : 4096));
  // What a family asks for only when the sizes are right.
  if (sizes) {
    fuzz_check_foreseen(read_qwen_windows(config, sizes->layers));
    const std::vector<int64_t> none(static_cast<size_t>(sizes->layers), 0);
    fuzz_check_foreseen(read_windows(config, 512, none));
  }
  config.unread();
  fuzz_check_foreseen(config.finish());
}

}  // namespace ashlar
