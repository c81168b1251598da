// Where a model argument points: an existing path, or a hub id in the local Hugging Face cache.
// The environment is read by the program and handed in; nothing here calls getenv, and nothing is
// downloaded.
#ifndef ASHLAR_CHECKPOINT_HUB_PATHS_H_
#define ASHLAR_CHECKPOINT_HUB_PATHS_H_

#include <string>

#include "base/error.h"

namespace ashlar {

// Values of HF_HOME, HF_HUB_CACHE, HOME and XDG_CACHE_HOME; empty means unset.
struct HubPaths {
  std::string hf_home;
  std::string hf_hub_cache;
  std::string home;
  std::string xdg_cache_home;
};

// The folder that holds models--org--name folders: HF_HUB_CACHE, else HF_HOME/hub, else
// XDG_CACHE_HOME or HOME/.cache followed by huggingface/hub. Empty if nothing is set.
std::string hub_cache_folder(const HubPaths& hub);

// The path of a folder or file for a model argument. A path that exists wins over a hub id. For a
// hub id it is the snapshot that refs/main names, or the only snapshot. Errors say what was looked
// for and where.
Result<std::string> resolve_model_path(const std::string& model_argument, const HubPaths& hub);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_HUB_PATHS_H_
