#include "tools/reports/planning/model_summary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/calibrate/calibrated_record.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/model.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

// ---- Active parameters

// All zero if top-k is unknown.
struct ActiveCounts {
  uint64_t all = 0;                // ours: every weight that a token uses
  uint64_t without_embedding = 0;  // the input embedding counts as a look-up of one row
  uint64_t without_tables = 0;     // without the head, too
};

// How the published cards of the model's family count: the figure, and in words what it leaves out
// ("" if nothing). docs/families.md compares with the cards.
struct CardCount {
  uint64_t active = 0;
  std::string_view without;
};

CardConvention ConventionOf(const MoeModel& model) {
  if (!model.checkpoint().is_gguf()) return model.family().cards;
  const GgufArchitecture* architecture = FindArchitecture(model.config().architecture);
  return architecture == nullptr ? CardConvention::kAll : architecture->cards;
}

ActiveCounts CountActive(const ParameterCount& parameters) {
  if (parameters.active == 0) return {};
  const uint64_t used = parameters.active - parameters.input_embedding;
  return {parameters.active, used, used - parameters.head};
}

CardCount CountAsCards(const MoeModel& model, const ParameterCount& parameters) {
  const ActiveCounts counts = CountActive(parameters);
  switch (ConventionOf(model)) {
    case CardConvention::kWithoutEmbedding:
      return {counts.without_embedding, "the input embedding"};
    case CardConvention::kWithoutTables:
      return {counts.without_tables, "input embedding and head"};
    case CardConvention::kAll:
      break;
  }
  return {counts.all, ""};
}

// ----

// 30.5B, 235.1B, 1.0T: one digit more than FormatParameters, which spells names.
std::string OneDecimal(uint64_t count) {
  constexpr std::array<std::pair<double, char>, 4> kUnits = {
      {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  for (const auto& [size, letter] : kUnits) {
    const double value = static_cast<double>(count) / size;
    // From 999.95 on, the smaller unit would print as 1000.0.
    if (value < 0.99995) continue;
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.1f%c", value, letter);
    return text.data();
  }
  return std::to_string(count);
}

// Layers may differ: "8", or "2-8".
std::string TopKText(const MoeModel& model) {
  uint32_t least = UINT32_MAX, most = 0;
  for (const MoeLayer& layer : model.layers()) {
    least = std::min(least, layer.top_k);
    most = std::max(most, layer.top_k);
  }
  if (most == 0) return "unknown";
  return least == most ? std::to_string(most) : Cat(least, "-", most);
}

size_t MtpLayers(const MoeModel& model) {
  return std::count_if(model.layers().begin(), model.layers().end(),
                       [](const MoeLayer& layer) { return layer.mtp; });
}

std::string LayersText(const MoeModel& model) {
  const size_t mtp = MtpLayers(model);
  std::string text =
      model.config().layers == 0 ? "" : Plural(model.config().layers, "layer") + ", ";
  text += Plural(model.layers().size() - mtp, "MoE layer");
  if (mtp > 0) text += ", " + Plural(mtp, "multi-token-prediction block");
  return text;
}

std::string ExpertsText(const MoeModel& model) {
  std::string text = Cat(model.max_experts(), " per layer, top-", TopKText(model));
  if (model.config().shared_experts > 0)
    text += Cat(", ", model.config().shared_experts, " shared");
  const Routing& routing = model.routing();
  text += Cat("; gating ", GatingName(routing.gating), routing.normalize ? ", renormalised" : "");
  if (routing.groups > 1)
    text += Cat(", ", routing.groups_used, " of ", routing.groups, " routing groups");
  return text;
}

struct PartTotal {
  moepack::Part part = moepack::Part::kTrunk;
  uint64_t tensors = 0, bytes = 0;
};

std::array<PartTotal, 4> TotalsByPart(const MoeModel& model) {
  std::array<PartTotal, 4> totals;
  for (size_t i = 0; i < totals.size(); ++i) totals[i].part = static_cast<moepack::Part>(i);
  for (const ModelTensor& tensor : model.tensors()) {
    PartTotal& total = totals[static_cast<size_t>(tensor.part)];
    ++total.tensors;
    total.bytes += model.entry(tensor).bytes;
  }
  return totals;
}

std::string PartsTable(const MoeModel& model) {
  const auto totals = TotalsByPart(model);
  uint64_t all = 0;
  for (const PartTotal& total : totals) all += total.bytes;
  Table table({"part", ">tensors", ">bytes", ">", ">share"});
  for (const PartTotal& total : totals) {
    std::array<char, 16> share = {"-"};
    if (all > 0)
      std::snprintf(share.data(), share.size(), "%.1f%%",
                    100.0 * static_cast<double>(total.bytes) / static_cast<double>(all));
    const bool known = !model.checkpoint().names_only();
    table.Row({PartName(total.part), FormatCount(total.tensors),
               known ? FormatCount(total.bytes) : "-", known ? FormatBytes(total.bytes) : "-",
               share.data()});
  }
  return table.Render();
}

std::string NodesTable(const NodeSizes& sizes) {
  std::vector<std::string> headings = {">groups", ">experts"};
  for (const std::string& format : sizes.formats) headings.push_back(">" + format);
  Table table(headings);
  for (const NodeSize& row : sizes.rows) {
    table.Cell(uint64_t{row.groups});
    table.Cell(row.expert_count);
    for (const uint64_t bytes : row.bytes) table.Cell(FormatBytes(bytes));
  }
  return "size of the largest node, without overlay; experts it holds of a layer\n" +
         table.Render();
}

Json NodesJson(const NodeSizes& sizes) {
  Json nodes = Json::array();
  for (const NodeSize& row : sizes.rows) {
    Json bytes = Json::object();
    for (size_t i = 0; i < row.bytes.size(); ++i) bytes[sizes.formats[i]] = row.bytes[i];
    nodes.push_back({{"groups", row.groups}, {"experts", row.expert_count}, {"bytes", bytes}});
  }
  return nodes;
}

std::string FilesText(const Summary& summary) {
  const PromisedModel* promised = summary.promised;
  if (promised == nullptr) return Plural(summary.model.checkpoint().files().size(), "file");
  const std::string plain = promised->unfollowed.empty()
                                ? ""
                                : Cat(", and not of the quantized ones that the checkpoint has (",
                                      promised->unfollowed, ")");
  return Cat("none: no tensors were seen, sizes are what config.json promises of weights in ",
             promised->stored, plain);
}

std::string CalibratedText(const CalibrationKeys& keys) {
  return Cat("on ", Plural(keys.tokens, "token"), keys.method.empty() ? "" : ", ",
             Shown(keys.method), ", says the file");
}

Json CalibratedJson(const std::optional<CalibrationKeys>& keys) {
  if (!keys) return nullptr;
  return {{"version", keys->version},
          {"method", keys->method},
          {"texts", keys->texts},
          {"tokens", keys->tokens}};
}

Json PromisedJson(const PromisedModel* promised) {
  if (promised == nullptr) return nullptr;
  return {{"stored", promised->stored},
          {"unfollowed_quantization", promised->unfollowed},
          {"not_counted", promised->missing}};
}

}  // namespace

std::string ParameterSpelling(const MoeModel& model, const ParameterCount& parameters,
                              bool partial) {
  if (parameters.total == 0) return "unknown";
  const char* const least = partial ? "at least " : "";
  std::string text = Cat(least, OneDecimal(parameters.total), " total");
  if (parameters.active == 0 || TopKText(model) == "unknown") return text;
  const CardCount card = CountAsCards(model, parameters);
  const std::string active = FormatParameters(card.active);
  text += Cat(", ", least, OneDecimal(parameters.active), " active");
  if (!card.without.empty()) {
    text += Cat(", ", OneDecimal(card.active), " without ", card.without,
                " as the cards of this family count");
  }
  text += Cat(" (", least, FormatParameters(parameters.total), "-A", active, ", ", active, "-",
              model.max_experts(), "E)");
  if (parameters.mtp > 0)
    text += Cat(", and ", OneDecimal(parameters.mtp), " in prediction blocks");
  if (parameters.other_modalities > 0)
    text += Cat(", and ", OneDecimal(parameters.other_modalities), " in towers");
  return text;
}

namespace {

std::string SpellingOf(const Summary& summary, const ParameterCount& parameters) {
  const bool partial = summary.promised != nullptr && summary.promised->partial;
  return ParameterSpelling(summary.model, parameters, partial);
}

}  // namespace

std::string SummaryLine(const Summary& summary) {
  const MoeModel& model = summary.model;
  return Cat(model.family().name, ": ", SpellingOf(summary, CountParameters(model)), "; ",
             LayersText(model), "; ", ExpertsText(model));
}

std::string SummaryText(const Summary& summary) {
  const MoeModel& model = summary.model;
  const ParameterCount parameters = CountParameters(model);
  Table facts({"", ""});
  facts.Row({"family", Cat(model.family().name, model.config().architecture.empty() ? "" : ", ",
                           model.config().architecture)});
  facts.Row({"layers", LayersText(model)});
  facts.Row({"experts", ExpertsText(model)});
  facts.Row({"parameters", SpellingOf(summary, parameters)});
  facts.Row({"files", FilesText(summary)});
  if (const auto keys = FindCalibrationKeys(model.checkpoint().metadata()))
    facts.Row({"calibrated", CalibratedText(*keys)});
  if (summary.promised != nullptr && !summary.promised->missing.empty()) {
    facts.Row({"not counted", Cat(moepack::Join(summary.promised->missing, ", "),
                                  ": moepack does not work out their sizes from config.json")});
  }
  // The headings are empty, so their line is dropped.
  std::string text = facts.Render().substr(1) + "\n" + PartsTable(model);
  if (!summary.nodes.rows.empty()) text += "\n" + NodesTable(summary.nodes);
  for (const std::string& note : summary.nodes.notes) {
    text += Cat("note: ", Shown(note), "\n");
  }
  return text;
}

Json SummaryJson(const Summary& summary) {
  const MoeModel& model = summary.model;
  const ParameterCount parameters = CountParameters(model);
  Json layers = Json::array();
  for (const MoeLayer& layer : model.layers()) {
    layers.push_back({{"layer", layer.layer},
                      {"experts", layer.expert_count},
                      {"top_k", layer.top_k},
                      {"expert_bytes", layer.expert_bytes},
                      {"mtp", layer.mtp}});
  }
  Json parts = Json::object();
  for (const PartTotal& total : TotalsByPart(model)) {
    parts[std::string(PartName(total.part))] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  }
  const ActiveCounts active = CountActive(parameters);
  return {{"source", model.checkpoint().source().string()},
          {"names_only", model.checkpoint().names_only()},
          {"family", model.family().name},
          {"architecture", model.config().architecture},
          {"layers", model.config().layers},
          {"experts", model.max_experts()},
          {"top_k", model.config().top_k},
          {"shared_experts", model.config().shared_experts},
          {"gating", GatingName(model.routing().gating)},
          {"normalize", model.routing().normalize},
          {"parameters",
           {{"total", parameters.total},
            {"active", parameters.active},
            {"active_without_embedding", active.without_embedding},
            {"active_without_embedding_and_head", active.without_tables},
            {"active_as_cards_count", CountAsCards(model, parameters).active},
            {"mtp", parameters.mtp},
            {"other_modalities", parameters.other_modalities},
            {"spelling", SpellingOf(summary, parameters)}}},
          {"moe_layers", std::move(layers)},
          {"parts", std::move(parts)},
          {"node_sizes", NodesJson(summary.nodes)},
          {"node_size_notes", summary.nodes.notes},
          {"promised", PromisedJson(summary.promised)},
          {"calibrated", CalibratedJson(FindCalibrationKeys(model.checkpoint().metadata()))}};
}

}  // namespace moepack::cli
