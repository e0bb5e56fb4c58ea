#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/regex.h"
#include "libshard/base/text/text.h"
#include "libshard/check/finding.h"
#include "libshard/check/model_check.h"
#include "libshard/check/promised_model.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/quantize_options.h"
#include "tools/options/source.h"
#include "tools/reports/planning/model_summary.h"

namespace moepack::cli {
namespace list_tensors_command {
namespace {

// ---- Which tensors are shown

struct FilterArguments {
  std::vector<std::string> parts;  // names of moepack::Part
  std::string layers, expert_ids;  // "0-3,7"
  std::string regex;
};

// A tensor must pass every given filter.
class TensorFilter {
 public:
  // kInvalidArgument names the option at fault.
  static Result<TensorFilter> Make(const FilterArguments& arguments);

  // A packed tensor holds all experts of its layer, so any id below their number accepts it.
  // kInvalidArgument for an expression that takes too long.
  Result<bool> Accepts(const MoeModel& model, const ModelTensor& tensor) const;

  // The requested layers that contain no tensor of the model.
  ExpertIds MissingLayers(const MoeModel& model) const;
  // The requested experts that no layer has.
  ExpertIds MissingExperts(const MoeModel& model) const;

 private:
  Result<bool> AcceptsName(const std::string& name) const;
  bool AcceptsExpert(const MoeModel& model, const ModelTensor& tensor) const;

  std::vector<std::string> parts_;
  std::optional<ExpertIds> layers_, expert_ids_;
  std::optional<Regex> regex_;
};

constexpr uint32_t kMaxId = 1u << 20;

Result<std::optional<ExpertIds>> ParseRange(const char* option, const std::string& text) {
  if (text.empty()) return std::optional<ExpertIds>();
  auto ids = ParseIds(option, text, kMaxId);
  if (!ids) return Error{Code::kInvalidArgument, ids.error().message, "try 0-3,7"};
  return std::optional(std::move(ids).value());
}

Result<TensorFilter> TensorFilter::Make(const FilterArguments& arguments) {
  TensorFilter filter;
  filter.parts_ = arguments.parts;
  SHARD_TRY(filter.layers_, ParseRange("--layer", arguments.layers));
  SHARD_TRY(filter.expert_ids_, ParseRange("--expert", arguments.expert_ids));
  if (arguments.regex.empty()) return filter;
  auto regex = Regex::Compile(arguments.regex);
  if (!regex) return std::move(regex).error().Within("--regex");
  filter.regex_ = *std::move(regex);
  return filter;
}

Result<bool> TensorFilter::Accepts(const MoeModel& model, const ModelTensor& tensor) const {
  if (!parts_.empty() &&
      std::find(parts_.begin(), parts_.end(), PartName(tensor.part)) == parts_.end())
    return false;
  if (layers_ && (!tensor.layer || !Contains(*layers_, *tensor.layer))) return false;
  if (expert_ids_ && !AcceptsExpert(model, tensor)) return false;
  return AcceptsName(model.entry(tensor).name);
}

Result<bool> TensorFilter::AcceptsName(const std::string& name) const {
  if (!regex_) return true;
  Result<bool> found = regex_->Search(name);
  if (!found) return std::move(found).error().Within("--regex");
  return found;
}

ExpertIds TensorFilter::MissingLayers(const MoeModel& model) const {
  if (!layers_) return {};
  std::set<uint32_t> layers;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.layer) layers.insert(*tensor.layer);
  }
  ExpertIds missing;
  std::set_difference(layers_->begin(), layers_->end(), layers.begin(), layers.end(),
                      std::back_inserter(missing));
  return missing;
}

ExpertIds TensorFilter::MissingExperts(const MoeModel& model) const {
  if (!expert_ids_) return {};
  ExpertIds missing;
  std::copy_if(
      expert_ids_->begin(), expert_ids_->end(), std::back_inserter(missing), [&](uint32_t id) {
        return std::none_of(model.layers().begin(), model.layers().end(),
                            [&](const MoeLayer& layer) { return id < layer.expert_count; });
      });
  return missing;
}

bool TensorFilter::AcceptsExpert(const MoeModel& model, const ModelTensor& tensor) const {
  if (tensor.part != moepack::Part::kExpert || expert_ids_->empty()) return false;
  if (tensor.expert) return Contains(*expert_ids_, *tensor.expert);
  const MoeLayer* layer = model.FindLayer(tensor.layer);
  return layer != nullptr && expert_ids_->front() < layer->expert_count;
}

// ----

// ---- What --check prints

std::string PassedText(const MoeModel& model) {
  const std::string config = model.config_path().filename().string();
  std::string text = Cat("ok: ", Plural(model.tensors().size(), "tensor"), ", ",
                         Plural(model.config().layers, "layer"), ", ",
                         Plural(model.max_experts(), "expert"), " as ", Shown(config), " says");
  if (model.checkpoint().names_only()) text += " (names only: shapes unchecked)";
  return text + "\n";
}

std::string CheckTotal(const MoeModel& model, const std::vector<CheckFinding>& findings) {
  const bool unchecked = model.checkpoint().names_only();
  return Cat(Plural(findings.size(), "finding"),
             unchecked ? " (names only: shapes unchecked)" : "");
}

Status WriteCheck(const MoeModel& model, const std::vector<CheckFinding>& findings) {
  if (findings.empty()) return WriteReport(PassedText(model));
  std::vector<std::string> texts;
  for (const CheckFinding& finding : findings)
    texts.push_back(Shown(moepack::FindingText(finding)));
  const std::string total = CheckTotal(model, findings);
  return WriteReport(Cat(moepack::Join(texts, "\n"), "\n\n", total, "\n"), total + FirstOf(texts));
}

Json CheckJson(const MoeModel& model, const std::vector<CheckFinding>& findings) {
  Json list = Json::array();
  for (const CheckFinding& finding : findings) {
    list.push_back({{"kind", FindingKindName(finding.kind)},
                    {"what", finding.what},
                    {"expected", finding.expected},
                    {"found", finding.found}});
  }
  return {{"source", model.checkpoint().source().string()},
          {"family", model.family().name},
          {"ok", findings.empty()},
          {"tensors", model.tensors().size()},
          {"layers", model.config().layers},
          {"experts", model.max_experts()},
          {"shapes_checked", !model.checkpoint().names_only()},
          {"findings", std::move(list)}};
}

// ----

struct Arguments {
  SourceArguments source;
  FilterArguments filter;
  NodeSizeOptions nodes;
  bool summary = false, check = false;
  bool json = false;
};

using Selection = std::vector<const moepack::ModelTensor*>;

std::string_view FileOf(const MoeModel& model, const TensorEntry& entry) {
  const auto& files = model.checkpoint().files();
  return entry.file < files.size() ? std::string_view(files[entry.file].name) : "-";
}

std::string NumberOrDash(std::optional<uint32_t> number) {
  return number ? std::to_string(*number) : "-";
}

// Makes one row of the table after the other. The row of a model with a hundred thousand tensors
// borrows what it can.
class RowMaker {
 public:
  explicit RowMaker(const MoeModel& model) : model_(model) {}

  // The cells are valid until the next call.
  std::span<const std::string_view> CellsOf(const ModelTensor& tensor) {
    const TensorEntry& entry = model_.entry(tensor);
    const bool known = !model_.checkpoint().names_only();
    shape_ = known ? FormatShape(entry.shape) : "-";
    bytes_ = known ? std::to_string(entry.bytes) : "-";
    layer_ = NumberOrDash(tensor.layer);
    // Packed tensors hold every expert of their layer.
    expert_ = tensor.packed_expert() ? "all" : NumberOrDash(tensor.expert);
    cells_ = {entry.name,
              known ? std::string_view(entry.dtype) : "-",
              shape_,
              bytes_,
              FileOf(model_, entry),
              PartName(tensor.part),
              layer_,
              expert_,
              tensor.rule->role};
    return cells_;
  }

 private:
  const MoeModel& model_;
  std::string shape_, bytes_, layer_, expert_;
  std::array<std::string_view, 9> cells_;
};

// The table of a large model is never in memory as a whole.
Status WriteTable(const MoeModel& model, const Selection& selection) {
  TableColumns columns(
      {"name", "dtype", "shape", ">bytes", "file", "part", ">layer", ">expert", "role"});
  RowMaker rows(model);
  uint64_t bytes = 0;
  for (const ModelTensor* tensor : selection) {
    bytes += model.entry(*tensor).bytes;
    columns.Measure(rows.CellsOf(*tensor));
  }
  std::string total = Plural(selection.size(), "tensor");
  if (!model.checkpoint().names_only()) total += ", " + ExactBytes(bytes);
  if (IsQuiet()) return WriteReport(total);
  ResultStream out(ResultStream::Kind::kText);
  out.Append(columns.HeadingLine());
  for (const ModelTensor* tensor : selection) {
    out.Append(columns.Line(rows.CellsOf(*tensor)));
  }
  out.Append(Cat("\n", total, "\n"));
  return out.Finish();
}

std::string Dumped(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// For a document of a hundred thousand tensors most of the time is spent here: nothing is allocated
// for text that needs no escapes.
void AppendText(std::string_view text, std::string& out) {
  if (IsPlainText(text)) {
    out.append("\"").append(text).append("\"");
  } else {
    out += Dumped(std::string(text));
  }
}

void AppendNumber(uint64_t number, std::string& out) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void AppendNumberOrNull(const char* key, std::optional<uint32_t> number, std::string& out) {
  out += key;
  if (number) {
    AppendNumber(*number, out);
  } else {
    out += "null";
  }
}

void AppendTensor(const MoeModel& model, const ModelTensor& tensor, std::string& out) {
  const TensorEntry& entry = model.entry(tensor);
  out += "{\"name\":";
  AppendText(entry.name, out);
  if (!model.checkpoint().names_only()) {
    out += ",\"dtype\":";
    AppendText(entry.dtype, out);
    out += ",\"shape\":[";
    for (size_t i = 0; i < entry.shape.size(); ++i) {
      if (i > 0) out += ',';
      AppendNumber(entry.shape[i], out);
    }
    out += "],\"bytes\":";
    AppendNumber(entry.bytes, out);
    out += ",\"offset\":";
    AppendNumber(entry.offset, out);
  }
  out += ",\"file\":";
  AppendText(FileOf(model, entry), out);
  out += ",\"part\":";
  AppendText(PartName(tensor.part), out);
  AppendNumberOrNull(",\"layer\":", tensor.layer, out);
  AppendNumberOrNull(",\"expert\":", tensor.expert, out);
  AppendNumberOrNull(",\"expert_axis\":", tensor.axis, out);
  out += ",\"role\":";
  AppendText(tensor.rule->role, out);
  out += tensor.mtp ? ",\"mtp\":true}" : ",\"mtp\":false}";
}

// One tensor per line: the document is as easy to grep as the table, and is never in memory as a
// whole.
Status WriteDocument(const MoeModel& model, const Selection& selection) {
  ResultStream out(ResultStream::Kind::kJson);
  out.Append("{\n\"source\": " + Dumped(model.checkpoint().source().string()));
  out.Append(",\n\"family\": " + Dumped(model.family().name));
  out.Append(",\n\"tensors\": [\n");
  std::string line;
  for (const ModelTensor* tensor : selection) {
    line.clear();
    AppendTensor(model, *tensor, line);
    line += tensor == selection.back() ? "\n" : ",\n";
    out.Append(line);
  }
  out.Append("]\n}\n");
  return out.Finish();
}

Result<int> RunCheck(const MoeModel& model, bool json) {
  SHARD_TRY(std::vector<CheckFinding> findings, moepack::CheckModel(model));
  if (findings.empty()) {
    const Status status = CheckByConversion(model);
    if (!status) {
      findings.push_back({FindingKind::kConversion, status.error().message, "", ""});
    }
  }
  SHARD_CHECK(json ? WriteJsonResult(CheckJson(model, findings)) : WriteCheck(model, findings));
  return findings.empty() ? kExitDone : ExitCode(Code::kCorrupt);
}

Result<int> PrintSummary(const Arguments& arguments, const MoeModel& model,
                         const PromisedModel* promised) {
  NodeSizeOptions options = arguments.nodes;
  options.partial = promised != nullptr && promised->partial;
  SHARD_TRY(const NodeSizes nodes, SizeNodes(model, options));
  const Summary summary{model, nodes, promised};
  SHARD_CHECK(arguments.json ? WriteJsonResult(SummaryJson(summary))
                             : WriteReport(SummaryText(summary), SummaryLine(summary)));
  return kExitDone;
}

// A config without tensors.
Result<int> RunPromised(const Arguments& arguments, const moepack::Source& source,
                        const std::string& config) {
  if (!arguments.summary) {
    return Error{Code::kNotFound,
                 Cat(arguments.source.shown(), ": expected tensors, found a config alone"),
                 "a config is enough for list-tensors --summary"};
  }
  if (!arguments.source.model.config_file.empty()) {
    return Error{
        Code::kInvalidArgument,
        Cat("--config has no effect: SRC is a config alone, ", source.tree->NameOf(config)),
        "leave it out, or name the other config as SRC"};
  }
  SHARD_TRY(const PromisedModel promised, OpenPromised(source, config, arguments.source.model));
  return PrintSummary(arguments, promised.model, &promised);
}

// As after `hf download --include "*.json"`.
void NoteIndexAlone(const SourceTree& tree, const std::string& index, const std::string& config) {
  PrintNotes({Cat(tree.NameOf(index), ": none of the files that it names is there; ",
                  config.empty() ? "names come from the index, and shapes and sizes are unknown"
                                 : Cat("sizes are what ", config, " promises"))});
}

void NoteMissing(const TensorFilter& filter, const MoeModel& model) {
  if (const ExpertIds layers = filter.MissingLayers(model); !layers.empty())
    PrintNotes({Cat("the model has no tensors in ", layers.size() == 1 ? "layer " : "layers ",
                    FormatIds(layers))});
  if (const ExpertIds experts = filter.MissingExperts(model); !experts.empty())
    PrintNotes({Cat("the model has no tensors of ", experts.size() == 1 ? "expert " : "experts ",
                    FormatIds(experts))});
}

Result<int> Run(Arguments& arguments) {
  arguments.source.model.sample_weights = false;
  SHARD_TRY(const TensorFilter filter, TensorFilter::Make(arguments.filter));
  SHARD_TRY(moepack::Source source, OpenSource(arguments.source.source, arguments.source.remote));
  const auto index = IndexAlone(source), config = ConfigAlone(source);
  const bool promised = config && (arguments.summary || !index);
  if (index) NoteIndexAlone(*source.tree, *index, promised ? *config : "");
  if (promised) return RunPromised(arguments, source, *config);
  if (index) source.file = *index;
  SHARD_TRY(const MoeModel model, OpenModel(source, arguments.source));
  NoteTraffic(*source.tree, SizeOfFiles(model.checkpoint()));
  if (arguments.check) return RunCheck(model, arguments.json);
  if (arguments.summary) {
    return PrintSummary(arguments, model, nullptr);
  }
  NoteMissing(filter, model);
  Selection selection;
  for (const ModelTensor& tensor : model.tensors()) {
    SHARD_TRY(const bool accepted, filter.Accepts(model, tensor));
    if (accepted) selection.push_back(&tensor);
  }
  SHARD_CHECK(arguments.json ? WriteDocument(model, selection) : WriteTable(model, selection));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source);
  StartSection(app, "Summary");
  CLI::Option* summary = app.add_flag(
      "--summary", arguments->summary,
      "Print family, layers, experts, total and active parameters, bytes by part, and the size of "
      "one node for several numbers of groups, instead of tensors.");
  const auto size = [&](const char* name, auto& value, const char* type, const char* text) {
    return app.add_option(name, value, text)
        ->type_name(type)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->needs(summary);
  };
  size("--groups", arguments->nodes.groups, "LIST",
       "With --summary: sizes of nodes for these numbers of groups, such as 2,3,8. Default: 2, 4, "
       "8 and 16.")
      ->transform(AsCount(1, kMaxGroups));
  CLI::Option* recipes =
      size("--recipe,--quantize", arguments->nodes.recipes, "LIST",
           "With --summary: sizes of nodes for these recipes, such as Q4_K_M,balanced. Default: a "
           "few usual ones.");
  Offer(recipes, RecipeNames());
  AddConvertOptions(app, arguments->nodes.convert);
  for (const char* name : {"--pre", "--mtp"}) {
    CLI::Option* option = app.get_option(name)->needs(summary);
    option->description("For the sizes by recipe of --summary. " + option->get_description());
  }
  StartSection(app, "Checks");
  CLI::Option* check =
      app.add_flag("--check", arguments->check,
                   "Compare the tensors and their shapes with what config.json (or the metadata of "
                   "a GGUF model) promises, and name what is missing, extra or misshapen. Exit "
                   "status 3 when something is.")
          ->excludes(summary);
  StartSection(app, "Selection");
  const auto filter = [&](const char* name, auto& value, const char* type, const char* text) {
    return app.add_option(name, value, text)->type_name(type)->excludes(summary)->excludes(check);
  };
  filter("--part", arguments->filter.parts, "PART",
         "Only this part: trunk, router, shared or expert. May be repeated.")
      ->allow_extra_args(false)
      ->check(OneOf({"trunk", "router", "shared", "expert"}));
  filter("--layer", arguments->filter.layers, "IDS", "Only these layers: 0-3,7.");
  filter("--expert", arguments->filter.expert_ids, "IDS",
         "Only these experts, and packed tensors that hold one of them.");
  filter("--regex", arguments->filter.regex, "REGEX",
         "Only names in which this ECMAScript regular expression has a match.");
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace list_tensors_command

constinit const Command kListTensors = {
    "list-tensors",
    "Lists every tensor of a checkpoint with its part, layer, expert and role",
    "Reads only headers. An index file (model.safetensors.index.json) on its own is enough to see "
    "names, parts, layers and experts; types, shapes and sizes are then shown as \"-\". For "
    "--summary a config.json on its own is enough. A directory with both and without weights will "
    "do.",
    {"moepack list-tensors fixtures/tiny-moe --summary",
     "moepack list-tensors fixtures/tiny-moe --part expert --layer 0 --expert 0-2"},
    {"--summary", "--groups", "--recipe", "--part", "--layer", "--expert", "--regex", "--check",
     "--json"},
    list_tensors_command::Bind};

}  // namespace moepack::cli
