#include "tools/page/page.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "tools/base/range_text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/style.h"

namespace moepack::cli {
namespace {

using MakeSection = std::optional<PageSection> (*)(const PageInputs& inputs);
// What it is and costs comes first, then why.
constexpr MakeSection kSections[] = {BytesSection,       DamageSection,    ExperimentSection,
                                     CalibrationSection, RefitSection,     RoutingSection,
                                     CaptureSection,     PlacementSection, OverlapSection,
                                     NextSection,        InputsSection};

std::string ModelName(const PageInputs& inputs) {
  if (!inputs.distribution) return "Split of a model";
  const manifest::ModelRecord& model = inputs.distribution->model;
  return model.id.empty() ? model.family : model.id;
}

std::string ExpertCounts(const LayerCounts& layers) {
  uint32_t least = UINT32_MAX, most = 0;
  for (const auto& [layer, experts] : layers) {
    least = std::min(least, experts);
    most = std::max(most, experts);
  }
  return RangeText(least, most, "expert");
}

// One line under the title; not HTML.
std::string Subtitle(const PageInputs& inputs) {
  if (!inputs.distribution) return "";
  const manifest::Manifest& manifest = *inputs.distribution;
  const manifest::ModelRecord& model = manifest.model;
  std::string out =
      Cat(model.architecture, ", ", FormatParameters(model.parameters_total), " parameters, ",
          FormatParameters(model.parameters_active), " active; ",
          Plural(model.moe_layers.size(), "layer"), " of ", ExpertCounts(model.moe_layers), "; ");
  out += manifest.recipe.name.empty() ? "types of the source" : manifest.recipe.name;
  out += Cat("; versions ", manifest.versions.model, ", ", manifest.versions.shard);
  if (!manifest.versions.replica.empty()) out += Cat(", ", manifest.versions.replica);
  return out;
}

std::string Findings(const std::vector<PageSection>& sections) {
  std::string out;
  for (const PageSection& section : sections) {
    for (const std::string& finding : section.findings) {
      if (!finding.empty()) out += Cat("<li>", finding, "</li>\n");
    }
  }
  return out.empty() ? "" : Cat("<ul class=\"findings\">\n", out, "</ul>\n");
}

std::string Warnings(const std::vector<std::string>& warnings) {
  if (warnings.empty()) return "";
  std::string out = "<ul class=\"warnings\">\n";
  for (const std::string& warning : warnings) out += Cat("<li>", Escaped(warning), "</li>\n");
  return out + "</ul>\n";
}

std::string Navigation(const std::vector<PageSection>& sections) {
  std::string out = "<nav aria-label=\"Sections\"><ul>\n";
  for (const PageSection& section : sections)
    out += Cat("<li><a href=\"#", section.id, "\">", section.title, "</a></li>\n");
  return out + "</ul></nav>\n";
}

}  // namespace

std::string PageTitle(const PageInputs& inputs) {
  const std::string name = ModelName(inputs);
  if (!inputs.plan && !inputs.distribution)
    return inputs.scores ? "Routing of a model" : "Measurements of a model";
  if (!inputs.plan) return name;
  return Cat(name, " on ", Plural(inputs.plan->groups.size(), "node"));
}

std::string ReportPage(const PageInputs& inputs) {
  std::vector<PageSection> sections;
  for (const MakeSection make : kSections) {
    if (std::optional<PageSection> section = make(inputs)) sections.push_back(*std::move(section));
  }
  const std::string title = Escaped(PageTitle(inputs));
  std::string out = Cat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"moepack ",
      Escaped(ToolVersion()),
      "\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
      title, "</title>\n<style>", PageStyle(), "</style>\n</head>\n<body>\n<header>\n<h1>", title,
      "</h1>\n");
  const std::string subtitle = Subtitle(inputs);
  if (!subtitle.empty()) out += Cat("<p class=\"sub\">", Escaped(subtitle), "</p>\n");
  out += Cat(Findings(sections), Warnings(inputs.warnings), Navigation(sections), "</header>\n",
             "<main>\n");
  for (const PageSection& section : sections) {
    out += Cat("<section id=\"", section.id, "\">\n<h2><a href=\"#", section.id, "\">",
               section.title, "</a></h2>\n", section.body, "</section>\n");
  }
  return Cat(out, "</main>\n</body>\n</html>\n");
}

}  // namespace moepack::cli
