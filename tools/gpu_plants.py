"""The bugs that tools/gpu_plant.py plants, and the variants that it times.

An edit replaces a text that occurs exactly once in its file (tools/tests/gpu_plant_test.py checks that),
so a plant whose code has changed is noticed. The filter names the tests that should see it, all of the
unit's, not only the one that is expected to.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Plant:
    name: str
    what: str
    program: str
    tests: str  # a GoogleTest filter
    edits: tuple


K = "src/kernels/"
ATTENTION = "Cases/AttentionCudaCase.*:AttentionCuda.*"
MATMUL = "TileMatmulCuda.*"
SAMPLER = "SampleTokensCuda.*:CountTokensCuda.*:PlantedPad.*"


def plant(name, what, tests, file, old, new, *more, program="kernels_cuda_test"):
    edits = [Edit(file, old, new)] + [Edit(*edit) for edit in more]
    return Plant(name, what, program, tests, tuple(edits))


PLANTS = [
    plant("window", "the window is one position wider", ATTENTION,
          K + "attention/attention_score.cuh",
          "max(0, position - window + 1)", "max(0, position - window)"),
    plant("prefill_mask", "a row of a prompt does not see itself", ATTENTION,
          K + "attention/attention_prefill_cuda_sm90a.cu",
          "position <= rows.last[row]", "position < rows.last[row]"),
    plant("decode_mask", "a row of decode does not see itself", ATTENTION,
          K + "attention/attention_decode_cuda_sm90a.cu",
          "position <= last[i % 2]", "position < last[i % 2]"),
    plant("clear_unseen", "values that no row sees are left as they are", ATTENTION,
          K + "attention/attention_tiles.cuh",
          "if (position >= visible.first && position <= visible.last) continue;",
          "if (position >= 0) continue;"),
    plant("attention_arrivals", "the counter of a cut key is not put back", ATTENTION,
          K + "attention/attention_decode_cuda_sm90a.cu",
          "if (is_last) arrivals[first_cta] = 0;", ""),
    plant("fold_keep", "what was gathered is scaled as the new split", ATTENTION,
          K + "attention/attention_score.cuh",
          "device_exp2_approximate(maximum - larger)", "device_exp2_approximate(split - larger)"),
    plant("load_tile", "the page of the last position is not loaded", ATTENTION,
          K + "attention/attention_tiles.cuh",
          "min(begin + kTilePositions - 1, visible.last) / source.page_positions",
          "min(begin + kTilePositions - 1, visible.last - 1) / source.page_positions"),
    plant("page_table", "a sequence reads the pages of the first", ATTENTION,
          K + "attention/attention_tiles.cuh",
          "source.table[page] * source.page_heads", "source.table[0] * source.page_heads"),

    plant("matmul_mask", "the first column beyond the decodable is not masked", MATMUL,
          K + "tile_matmul/tile_args.cuh", "n < args.computed ?", "n <= args.computed ?"),
    plant("matmul_arrivals", "the counter of a tile's segments is not put back", MATMUL,
          K + "tile_matmul/split_rows.cuh",
          "if (shared.last != 0) split_rows_arrivals[place] = 0;", ""),
    plant("matmul_order", "few rows take the four steps of a block backwards", MATMUL,
          K + "tile_matmul/split_rows.cuh",
          "a + i * (8192 >> 4) + k * hopper::kOperandStep",
          "a + i * (8192 >> 4) + (3 - k) * hopper::kOperandStep",
          (K + "tile_matmul/split_rows.cuh",
           "b + i * (Shape::kBoxBytes >> 4) + k * hopper::kOperandStep",
           "b + i * (Shape::kBoxBytes >> 4) + (3 - k) * hopper::kOperandStep")),
    plant("matmul_bias", "a bias is added to the output before its own", MATMUL,
          K + "tile_matmul/tile_args.cuh",
          "__fadd_rn(sum, args.bias[output])", "__fadd_rn(sum, args.bias[output == 0 ? 0 : output - 1])"),

    plant("norm_tree", "unaligned rows square with two roundings", "RmsNormCuda.*",
          K + "rms_norm/rms_norm_cuda.cu",
          "sum = __fmaf_rn(x[d], x[d], sum)", "sum = __fadd_rn(__fmul_rn(x[d], x[d]), sum)"),
    plant("rope_sign", "positions turn the other way in half of the pairs", "QkNormRopeStoreCuda.*",
          K + "qk_norm_rope_store/qk_norm_rope_store_cuda.cu",
          "__fsub_rn(__fmul_rn(x, c), __fmul_rn(y, s))", "__fadd_rn(__fmul_rn(x, c), __fmul_rn(y, s))"),
    plant("kv_offset", "keys and values are stored one line further", "QkNormRopeStoreCuda.*",
          K + "qk_norm_rope_store/qk_norm_rope_store_cuda.cu",
          "static_cast<int64_t>(position % args.page_positions) * args.size",
          "static_cast<int64_t>((position + 1) % args.page_positions) * args.size"),
    plant("synthetic_index", "every second element is the one before", "FillSyntheticCuda.*",
          K + "fill_synthetic/fill_synthetic_cuda.cu", "index + 2 * i + 1", "index + 2 * i"),
    plant("step_drafts", "a draft row takes the next draft", "StepRowsCuda.*",
          K + "step_rows/step_rows_cuda.cu", "args.draft_stride + index - 1]", "args.draft_stride + index]"),
    plant("step_padding", "a padding sequence is accepted", "StepRowsCuda.*",
          K + "step_rows/step_rows_cuda.cu", "  if (slot < 0) {\n    args.accepted[s] = 0;",
          "  if (slot < -1) {\n    args.accepted[s] = 0;"),
    plant("step_length", "accepted drafts do not lengthen their sequence", "StepRowsCuda.*",
          K + "step_rows/step_rows_cuda.cu", "    ++length;\n", ""),

    plant("sampler_width", "columns beyond the decodable are sampled", SAMPLER,
          "src/sampling/sample_tokens_cuda_sm90a.cu",
          "divide_up(args.decodable, cluster)", "divide_up(args.logits.dim(1), cluster)",
          ("src/sampling/sample_tokens_cuda_sm90a.cu",
           "static_cast<int32_t>(args.decodable),", "static_cast<int32_t>(args.logits.dim(1)),"),
          program="sampling_cuda_test"),
    plant("sampler_mask", "a mask is read a bit off from the 31st token on", SAMPLER,
          "src/sampling/sample_tokens_cuda_sm90a.cu",
          ">> (id % 32) & 1u", ">> (id % 31) & 1u", program="sampling_cuda_test"),
    plant("sampler_ties", "of equal logits the highest id wins", SAMPLER,
          "src/sampling/sample_tokens_cuda_sm90a.cu",
          "    if (v > x) {", "    if (v >= x) {", program="sampling_cuda_test"),
    plant("sampler_drafts", "drafts before a row are not counted for its penalties", SAMPLER,
          "src/sampling/sample_tokens_cuda_sm90a.cu",
          "static_cast<int32_t>(row.first) + i ? 1 : 0", "static_cast<int32_t>(row.first) + i ? 0 : 0",
          program="sampling_cuda_test"),
    plant("sampler_top_p", "top-p takes its part of the whole row, not of the first k", SAMPLER,
          "src/sampling/draw_cuda.cuh",
          "mass_target(cuts.top_p, kept.mass)", "mass_target(cuts.top_p, mass)",
          program="sampling_cuda_test"),
    plant("count_prompt", "the first token of the output counts as prompt", SAMPLER,
          "src/sampling/count_tokens_cuda.cu", "if (i < prompt_tokens)", "if (i <= prompt_tokens)",
          program="sampling_cuda_test"),
]

# What the row rule costs, against variants that give other bits for other numbers of rows. Matmul: each
# number of segments for every shape, where the table's choice has to suit all numbers of rows at once.
# Decode attention: a run folds its tiles by itself, where the rule wants all tiles folded left to right.
DECODE = K + "attention/attention_decode_cuda_sm90a.cu"
TIMED = [
    plant(f"segments_{count}", f"{count} segments for every shape", "TileMatmulSpeed.DISABLED_Shapes",
          K + "tile_matmul/tile_layout.h",
          "constexpr int64_t segment_count(const TileShape& shape) {",
          "constexpr int64_t segment_count(const TileShape& shape) {\n"
          f"  if (shape.outputs > 0) return {count};")
    for count in (1, 2, 4)
] + [
    plant("run_folds", "each run of decode folds its own tiles", "AttentionSpeed.DISABLED_Decode", DECODE,
          """      if (run_begin == key.begin) {
        fold_part<kHeadSize>(state, split);
      } else {
        store_part<kHeadSize>(PartView<kHeadSize>::of_run(args, blockIdx.x, work - run_begin),
                              split, at, key.pairs);
      }
""", "      fold_part<kHeadSize>(state, split);\n",
          (DECODE, """    if (run_begin == key.begin) {
      store_part<kHeadSize>(PartView<kHeadSize>::state(args, blockIdx.x), state, at, key.pairs);
    }
""", """    store_part<kHeadSize>(run_begin == key.begin
                              ? PartView<kHeadSize>::state(args, blockIdx.x)
                              : PartView<kHeadSize>::of_run(args, blockIdx.x, 0),
                          state, at, key.pairs);
"""),
          (DECODE, "if (work >= key.end) continue;", "if (work >= key.end || work != begin) continue;")),
]
