// The name tables. Two families use one GGUF name for different norms, hence a second table that is
// looked at first. Expert stacks keep one name for all experts of a layer, as the file does;
// Hugging Face has one tensor per expert.
#include "checkpoint/gguf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace ashlar {
namespace {

struct Name {
  std::string_view gguf;
  std::string_view hf;
};

constexpr Name kGlobal[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr Name kLayer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
};

// gemma2 and gemma3 have four norms a layer: ffn_norm is the one before the feed-forward part.
constexpr Name kGemmaLayer[] = {
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

std::string_view translate(std::span<const Name> table, std::string_view gguf) {
  const auto at = std::find_if(table.begin(), table.end(),
                               [gguf](const Name& name) { return name.gguf == gguf; });
  return at == table.end() ? std::string_view{} : at->hf;
}

// "0", "17"; no sign, no leading zero, so that no two file names become one name here.
bool is_layer_number(std::string_view text) {
  return !text.empty() && text.size() <= 6 && (text == "0" || text.front() != '0') &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string hf_tensor_name(std::string_view architecture, std::string_view gguf_name) {
  const size_t last_dot = gguf_name.rfind('.');
  if (last_dot == std::string_view::npos) return std::string(gguf_name);
  const std::string_view kind = gguf_name.substr(last_dot);  // ".weight", ".bias"
  std::string_view stem = gguf_name.substr(0, last_dot);
  if (const std::string_view hf = translate(kGlobal, stem); !hf.empty()) {
    return fmt::format("{}{}", hf, kind);
  }
  constexpr std::string_view kBlock = "blk.";
  if (!stem.starts_with(kBlock)) return std::string(gguf_name);
  stem.remove_prefix(kBlock.size());
  const size_t dot = stem.find('.');
  if (dot == std::string_view::npos) return std::string(gguf_name);
  const std::string_view layer = stem.substr(0, dot);
  const std::string_view part = stem.substr(dot + 1);
  if (!is_layer_number(layer)) return std::string(gguf_name);
  std::string_view hf;
  if (architecture == "gemma2" || architecture == "gemma3") hf = translate(kGemmaLayer, part);
  if (hf.empty()) hf = translate(kLayer, part);
  if (hf.empty()) return std::string(gguf_name);
  return fmt::format("model.layers.{}.{}{}", layer, hf, kind);
}

}  // namespace ashlar
