// ashlar inspect MODEL: what a checkpoint holds, what would run, what memory it would take, and
// what is refused and why. Reads headers and builds the model (which only maps weights on the CPU,
// and only counts them for a GPU), but runs nothing and allocates no cache. With --export it writes
// the checkpoint as a Hugging Face folder instead, and builds nothing.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_export.h"
#include "console.h"
#include "device/counting_device.h"
#include "device_choice.h"
#include "flags.h"
#include "model_session.h"
#include "verbs.h"

namespace ashlar {

namespace {

struct InspectCommand {
  std::string model;
  DeviceOptions device;
  EngineOptions engine;  // as `serve` has them
  bool tensors = false;
  bool config = false;
  bool json = false;
  std::vector<std::string> export_folders;  // a list only so that an empty name is seen
};

OptionFields inspect_fields(InspectCommand& command) {
  OptionFields f;
  command.device.add_to(f);
  command.engine.max_batch = 64;
  OptionFields engine = command.engine.fields();
  std::erase_if(engine.list(),
                [](const OptionField& field) { return field.name == "max_waiting"; });
  f.append(engine);
  f.add("tensors", command.tensors, "list every tensor");
  f.add("config", command.config, "print the configuration as it is read");
  f.add("json", command.json, "print one JSON object");
  f.add("export", command.export_folders,
        "write a Hugging Face folder of this name and print its files");
  return f;
}

struct TypeTotal {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

std::map<std::string, TypeTotal> totals(const Checkpoint& checkpoint) {
  std::map<std::string, TypeTotal> out;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    TypeTotal& total = out[std::string(storage_name(tensor.type))];
    ++total.tensors;
    total.elements += tensor.elements();
    total.bytes += static_cast<int64_t>(tensor.bytes);
  }
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, " "));
}

std::string container_name(const Checkpoint& checkpoint) {
  return checkpoint.gguf() != nullptr ? "gguf" : checkpoint.container();
}

nlohmann::json checkpoint_json(const Checkpoint& checkpoint, bool tensors) {
  nlohmann::json out = {{"path", checkpoint.path()},
                        {"container", container_name(checkpoint)},
                        {"config", checkpoint.config()}};
  for (const auto& [name, total] : totals(checkpoint)) {
    out["types"][name] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  }
  if (!tensors) return out;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    out["tensors"].push_back({{"name", tensor.name},
                              {"type", storage_name(tensor.type)},
                              {"shape", tensor.shape},
                              {"bytes", tensor.bytes}});
  }
  return out;
}

nlohmann::json text_json(const OpenedModel& opened) {
  const Tokenizer& tokenizer = *opened.tokenizer;
  return {
      {"decodable", tokenizer.vocab_size()}, {"bos", tokenizer.bos_text()},
      {"eos", tokenizer.eos_text()},         {"adds_bos", tokenizer.adds_bos()},
      {"end_tokens", opened.end_tokens},     {"chat_template", opened.chat_template.has_value()}};
}

nlohmann::json model_json(const Model& model, const Device& device) {
  const ModelInfo& info = model.info();
  const StateNeeds& needs = model.state_needs();
  int64_t windowed = 0;
  for (const PagedState& state : needs.paged) windowed += state.window > 0;
  const int64_t position_bytes = needs.page_bytes() / kPagePositions;
  const int64_t scratch = model.workspace_bytes(512, 1);
  return {{"device", device.name()},
          {"family", info.family},
          {"layers", info.layers},
          {"hidden", info.hidden},
          {"vocabulary", info.vocabulary},
          {"decodable", info.decodable},
          {"context_length", info.context_length},
          {"weight_bytes_a_step", info.weight_bytes},
          {"weight_formats", info.weight_formats},
          {"kv_bytes_a_position", position_bytes},
          {"kv_bytes_full_context", position_bytes * info.context_length},
          {"attention_layers", needs.paged.size()},
          {"windowed_layers", windowed},
          {"scratch_bytes_512_rows", scratch}};
}

// What a server with these options would take; the reason where it is refused.
Result<MemoryPlan> plan_of(const InspectCommand& command,
                           const Result<std::unique_ptr<Model>>& model, const Device& device) {
  if (!model) return fail(ErrorCode::kUnsupported, "nothing would run");
  return plan_memory(command.engine, **model, device, 0);
}

void print_text(const InspectCommand& command, const Checkpoint& checkpoint,
                const nlohmann::json& text, const nlohmann::json& model,
                const Result<MemoryPlan>& plan) {
  print_out("{}: {}\n", checkpoint.path(), checkpoint.container());
  print_out("\nstored as      tensors     elements        bytes\n");
  for (const auto& [name, total] : totals(checkpoint)) {
    print_out("{:<12} {:>9} {:>12} {:>12}\n", name, total.tensors, total.elements, total.bytes);
  }
  const auto print_object = [](std::string_view title, const nlohmann::json& object) {
    print_out("\n{}\n", title);
    for (const auto& [key, value] : object.items()) {
      print_out("  {:<24} {}\n", key,
                value.is_string() ? value.get<std::string>() : json_text(value));
    }
  };
  print_object("text", text);
  print_object("would run", model);
  print_out("\n{}",
            plan ? memory_plan_text(*plan)
                 : fmt::format("memory\n  refused                  {}\n", plan.error().message));
  if (command.config) print_out("\nconfig\n{}\n", json_text(checkpoint.config(), 2));
  if (!command.tensors) return;
  print_out("\n{:<10} {:<20} name\n", "type", "shape");
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    print_out("{:<10} {:<20} {}\n", storage_name(tensor.type), shape_text(tensor.shape),
              tensor.name);
  }
}

Status check_export(const InspectCommand& command) {
  if (command.export_folders.size() > 1 || command.export_folders.front().empty()) {
    return fail(ErrorCode::kInvalidArgument, "--export takes the name of one folder");
  }
  if (command.tensors || command.config) {
    return fail(ErrorCode::kInvalidArgument,
                "--export shows nothing else: leave out --tensors and --config");
  }
  const DeviceOptions unset;
  if (command.device.device != unset.device || command.device.threads != unset.threads ||
      command.device.kv_type != unset.kv_type) {
    return fail(ErrorCode::kInvalidArgument,
                "--export runs nothing: leave out --device, --threads and --kv-type");
  }
  InspectCommand fresh;
  inspect_fields(fresh);
  EngineOptions engine = command.engine;
  if (options_json(engine.fields()) != options_json(fresh.engine.fields())) {
    return fail(ErrorCode::kInvalidArgument,
                "--export runs nothing: leave out what says how much memory would be taken");
  }
  return {};
}

Result<int> export_model(const InspectCommand& command) {
  ASHLAR_TRY(check_export(command));
  const std::string& folder = command.export_folders.front();
  ASHLAR_ASSIGN(const auto checkpoint, Checkpoint::open(command.model, read_environment().hub));
  ASHLAR_ASSIGN(const std::vector<ExportedFile> files, export_hf_folder(*checkpoint, folder));
  if (command.json) {
    nlohmann::json out = {{"path", folder}, {"files", nlohmann::json::array()}};
    for (const ExportedFile& file : files) {
      out["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
    }
    print_out("{}\n", json_text(out, 2));
    return 0;
  }
  for (const ExportedFile& file : files) print_out("{:>14} {}\n", file.bytes, file.name);
  return 0;
}

// Prints what can be known even when a part is refused; the exit code then says so.
Result<int> inspect(const InspectCommand& command) {
  const Environment environment = read_environment();
  ASHLAR_ASSIGN(const auto checkpoint,
                Checkpoint::open(command.model, environment.hub, TensorUse::kShapes));
  int exit_code = 0;
  nlohmann::json text = nlohmann::json::object();
  nlohmann::json model = nlohmann::json::object();
  Result<OpenedModel> opened = open_model(command.model, environment, TensorUse::kShapes);
  if (opened) {
    text = text_json(*opened);
  } else {
    text["refused"] = opened.error().message;
    exit_code = 1;
  }
  ASHLAR_ASSIGN(const auto device, open_device(command.device));
  CountingDevice counter(*device);
  const bool counts = device->memory().total_bytes > 0;
  Device& target = counts ? counter : *device;
  // Without a tokenizer every row of the head counts as decodable.
  const auto built = build_model(
      opened ? opened->checkpoint : checkpoint, opened ? opened->tokenizer->vocab_size() : 0,
      target, command.device, command.engine.max_context, {.values = !counts, .observer = {}});
  if (built) {
    model = model_json(**built, target);
  } else {
    model["refused"] = built.error().message;
    exit_code = 1;
  }
  const Result<MemoryPlan> plan = plan_of(command, built, target);
  if (!plan) exit_code = 1;
  if (command.json) {
    nlohmann::json out = checkpoint_json(*checkpoint, command.tensors);
    out["text"] = text;
    out["model"] = model;
    out["memory"] =
        plan ? memory_plan_json(*plan) : nlohmann::json{{"refused", plan.error().message}};
    print_out("{}\n", json_text(out, 2));
  } else {
    print_text(command, *checkpoint, text, model, plan);
  }
  return exit_code;
}

}  // namespace

int inspect_verb(const Words& words) {
  InspectCommand command;
  CommandLine line = {
      "inspect",
      "Shows what a checkpoint holds and what would run.",
      {{"MODEL", "a folder, a .gguf file, a hub id in the local cache, or synthetic:PRESET",
        &command.model, true}},
      inspect_fields(command)};
  const Result<Parsed> parsed = parse_command_line(line, words);
  if (!parsed) return report(parsed.error());
  if (*parsed == Parsed::kHelpShown) return 0;
  const Result<int> code =
      command.export_folders.empty() ? inspect(command) : export_model(command);
  return code ? *code : report(code.error());
}

}  // namespace ashlar
