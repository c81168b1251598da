// The walkthrough's family: embeds, adds one mixed and clamped copy of itself, and reads the result
// out. No attention, so nothing to keep between steps.
#include "models/decoder_config.h"
#include "models/families.h"
#include "nn/clamped.h"

namespace ashlar {

namespace {

constexpr const char* kModelTypes[] = {"toy"};

class Toy : public Model {
 public:
  Status load(std::shared_ptr<Checkpoint> checkpoint, Device& device, const ModelOptions& options);

  void forward(Step& step, TensorView logits) override {  // logits: [R V]
    const Workspace::Scope scope(step.workspace);
    const TensorView x = embed_(step);  // [T D]
    const TensorView mixed = step.workspace.take(DType::kF32, x.shape());
    mix_(step, x, mixed);
    clamped_(step, mixed);
    head_(step, norm_(step, output_rows(step, mixed)), logits);
  }

  int64_t workspace_bytes(int64_t rows, int64_t output_rows) const override {
    return 2 * f32_workspace_bytes(rows, info_.hidden) + mix_.workspace_bytes(rows) +
           2 * norm_.workspace_bytes(output_rows) + head_.workspace_bytes(output_rows);
  }

 private:
  Embedding embed_;
  Linear mix_;
  Norm norm_;
  Head head_;
  Clamped clamped_;
};

Status Toy::load(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                 const ModelOptions& options) {
  const ConfigReader config(checkpoint->config(), checkpoint->config_name());
  ASHLAR_ASSIGN(const int64_t hidden, config.require<int64_t>("hidden_size"));
  ASHLAR_ASSIGN(const int64_t vocabulary, config.require<int64_t>("vocab_size"));
  ASHLAR_ASSIGN(const double limit, config.require<double>("limit"));
  config.ignore({"model_type"});
  ASHLAR_TRY(config.finish());
  clamped_ = Clamped(limit);

  ModelBuilder builder(*checkpoint, device, options.kv_type);
  ASHLAR_ASSIGN(embed_, builder.embedding("embed", vocabulary, hidden, 1.0, true));
  ASHLAR_ASSIGN(mix_, builder.linear({{.name = "mix", .outputs = hidden}}, hidden, false));
  ASHLAR_ASSIGN(norm_, builder.norm("norm", hidden, 1e-6, NormWeight::kPlain));
  ASHLAR_ASSIGN(head_, builder.head("head", embed_, true, options.decodable));
  ASHLAR_TRY(builder.finish());
  adopt({.family = "toy",
         .layers = 1,
         .hidden = hidden,
         .vocabulary = vocabulary,
         .decodable = vocabulary,
         .context_length = 64,
         .weight_bytes = builder.weight_bytes(),
         .weight_formats = builder.weight_formats()},
        builder, std::move(checkpoint));
  return {};
}

}  // namespace

const ModelFamily toy_family = {"toy", kModelTypes, "Toy", build_model<Toy>};

}  // namespace ashlar
