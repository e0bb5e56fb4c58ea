#include "manifest/write/card_sections.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/expectation.h"
#include "manifest/document/made_from.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/source_place.h"
#include "manifest/document/whole_model.h"

namespace moepack::manifest {
namespace {

// A card is for people; distribution.json has the rest.
constexpr size_t kMaxFigures = 64;
constexpr size_t kMaxSourceRows = 256;
constexpr size_t kMaxFigureText = 200;
constexpr size_t kMaxQualityGroups = 32;
constexpr int kDigits = 4;

using Figures = std::vector<std::pair<std::string, std::string>>;

// Adds every scalar below `value` under the path of its keys: "groups[0].kld".
void AddFigures(const std::string& path, const Json& value, Figures& figures) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      AddFigures(path.empty() ? key : Cat(path, ".", key), member, figures);
    return;
  }
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) AddFigures(Cat(path, "[", i, "]"), value[i], figures);
    return;
  }
  figures.emplace_back(path, value.is_string() ? value.get<std::string>() : value.dump());
}

Figures FiguresOf(const Manifest& manifest, const char* section) {
  Figures figures;
  if (manifest.original == nullptr || !manifest.original->is_object()) return figures;
  const auto found = manifest.original->find(section);
  if (found != manifest.original->end() && found->is_object()) AddFigures("", *found, figures);
  return figures;
}

std::string FigureTable(const char* title, const Figures& figures) {
  if (figures.empty()) return "";
  std::string out = Cat("| ", title, " | |\n| --- | --- |\n");
  for (size_t i = 0; i < figures.size() && i < kMaxFigures; ++i) {
    const auto& [name, value] = figures[i];
    out +=
        Cat("| ", MarkdownText(name), " | ", MarkdownText(value.substr(0, kMaxFigureText)), " |\n");
  }
  if (figures.size() > kMaxFigures)
    out += Cat("\n", figures.size() - kMaxFigures, " more are in `distribution.json`.\n");
  return out + "\n";
}

// "0.0312 ± 0.0004": with as many digits as the record has.
std::string WithError(const MeanError& figure) {
  std::ostringstream out;
  out << std::setprecision(kDigits) << figure.mean << " ± " << std::setprecision(2) << figure.error;
  return std::move(out).str();
}

std::string ShareWithError(const MeanError& share) {
  return Cat(FormatShare(share.mean), " ± ", FormatShare(share.error));
}

void AddQualityRow(const std::string& run, const QualityFigures& figures, std::string& out) {
  const std::optional<DamageFigures>& damage = figures.split ? figures.split : figures.total;
  out += Cat("| ", MarkdownText(run), " | ", FormatCount(figures.tokens), " | ",
             WithError(figures.nats), " | ", damage ? WithError(damage->extra_nats) : "", " | ",
             damage ? WithError(damage->kld) : "", " | ",
             damage ? ShareWithError(damage->top1) : "", " |\n");
}

void AddQualityRows(const std::string& run, const QualityRow& row, std::string& out) {
  AddQualityRow(run, row.all, out);
  for (const auto& [bucket, figures] : row.buckets)
    AddQualityRow(Cat(run, ", ", bucket.empty() ? "(no bucket)" : bucket), figures, out);
}

constexpr const char* kColumns =
    "\n\n- nats: minus the log-probability of the text, per token\n"
    "- extra nats: how much more that is than the whole model's\n"
    "- KLD: the KL divergence of the predictions of the next token\n"
    "- same top-1: how often both find the same next token likeliest\n\n";

// Damage is that of the split or, for a distribution that lacks experts, relative to the reference.
std::string QualityText(const QualityRecord& record) {
  const std::string not_held_out = NotHeldOutText(record.made_from, record.sessions);
  std::string out =
      Cat("Measured by moepack ", MarkdownText(record.tool_version), " on ",
          Plural(record.tokens, "token"), " of ", Plural(record.sessions, "session"),
          not_held_out.empty() ? " of held-out text." : Cat(" of text. ", not_held_out),
          " A node is compared with ",
          record.unmasked ? "the whole model in the same types" : "the model that it was made from",
          ".", kColumns);
  out += "| run | tokens | nats | extra nats | KLD | same top-1 |\n";
  out += "| --- | --- | --- | --- | --- | --- |\n";
  size_t rows = 0;
  if (record.unmasked)
    AddQualityRows(record.unmasked->all.total ? "whole model, compared with the unquantized model"
                                              : "whole model",
                   *record.unmasked, out);
  AddQualityRows("each session on its node", record.best, out);
  for (const auto& [group, row] : record.groups) {
    if (++rows > kMaxQualityGroups) break;
    AddQualityRows(Cat("node ", group), row, out);
  }
  if (record.groups.size() > kMaxQualityGroups)
    out += Cat("\n", record.groups.size() - kMaxQualityGroups,
               " more nodes are in `distribution.json`.\n");
  out += "\n";
  if (record.unmasked && record.unmasked->all.total)
    out += Cat("Quantization alone costs a KLD of ", WithError(record.unmasked->all.total->kld),
               " from the unquantized model.\n\n");
  return out + Cat("Tokens measured: SHA-256 `", record.tokens_sha256, "`.\n\n");
}

std::string NotMeasuredText(const Manifest& manifest) {
  const bool whole = HoldsWholeModel(manifest);
  return Cat("Not measured. `moepack eval .", whole ? "" : " --against SRC",
             " --text FILE` measures on held-out text what the split costs",
             whole ? "" : "; SRC is the model that it was made from", ".\n\n");
}

std::string DigestText(const SourceRecord& source) {
  if (!source.sha256.empty()) return Cat("`", source.sha256, "`");
  return Cat("`", source.header_sha256, "` (header)");
}

std::string SourceTable(const ModelRecord& model) {
  std::string out = "| source file | bytes | SHA-256 |\n| --- | --- | --- |\n";
  for (size_t i = 0; i < model.source.size() && i < kMaxSourceRows; ++i) {
    const SourceRecord& source = model.source[i];
    out += Cat("| ", MarkdownCode(source.file), " | ", FormatCount(source.size), " | ",
               DigestText(source), " |\n");
  }
  if (model.source.size() > kMaxSourceRows)
    out += Cat("\n", model.source.size() - kMaxSourceRows, " more are in `distribution.json`.\n");
  const bool whole = std::none_of(model.source.begin(), model.source.end(),
                                  [](const SourceRecord& source) { return source.sha256.empty(); });
  if (!whole)
    out += "\n(header): the digest is that of the bytes before the data of the tensors.\n";
  return out;
}

// Options that are recorded without their path: capitals stand for it, as in the help.
constexpr std::pair<const char*, const char*> kPlaces[] = {
    {"--plan", "PLAN"}, {"--refit-store", "STORE"}, {"--calibrated-store", "STORE"}};

std::string CommandText(const std::vector<std::string>& command) {
  std::vector<std::string> words = {"moepack"};
  for (size_t i = 0; i < command.size(); ++i) {
    words.push_back(command[i]);
    const bool has_value = i + 1 < command.size() && !command[i + 1].starts_with("--");
    for (const auto& [option, place] : kPlaces) {
      if (command[i] == option && !has_value) words.push_back(place);
    }
  }
  return ShellCommand(words);
}

// Whether a command splits a model, and names no overlay.
bool SplitsWithoutOverlay(const std::vector<std::string>& command) {
  if (command.empty() || (command[0] != "build" && command[0] != "shard-experts")) return false;
  return std::none_of(command.begin(), command.end(), [](const std::string& word) {
    return word == "--overlay-file" || word == "--plan";
  });
}

// Overlays that the recorded command did not make: it is that of the build before them.
std::string LaterOverlays(const Manifest& manifest) {
  std::string out;
  for (const OverlayPlan& overlay : manifest.plan.overlays) {
    const std::string name = Cat("- overlay ", MarkdownCode(overlay.version));
    if (!overlay.parent.empty()) {
      out += Cat(name, ": made from ", MarkdownCode(overlay.parent), " by `moepack overlay`\n");
    } else if (SplitsWithoutOverlay(manifest.command)) {
      out += Cat(name, ": added later, by `moepack overlay`\n");
    }
  }
  return out;
}

}  // namespace

std::string MeasuredText(const Manifest& manifest) {
  const Figures quality = FiguresOf(manifest, "quality");
  Figures calibration = FiguresOf(manifest, "calibration");
  // Digests are for programs.
  std::erase_if(calibration, [](const auto& figure) { return figure.first == kCalibrationTexts; });
  std::string out = "\n## Quality of the split\n\n";
  // What the plan expects from statistics is not a measurement of the split.
  const bool others = std::any_of(quality.begin(), quality.end(), [](const auto& figure) {
    return !figure.first.starts_with("expected.");
  });
  if (manifest.quality) out += QualityText(*manifest.quality);
  if (!manifest.quality && !others) out += NotMeasuredText(manifest);
  out += FigureTable(others ? "measured" : "expected of statistics", quality) +
         FigureTable("calibration", calibration);
  out.pop_back();
  return out;
}

std::string ProvenanceText(const Manifest& manifest) {
  const ModelRecord& model = manifest.model;
  std::string out = "\n## Where it comes from\n\n";
  if (!model.id.empty()) out += Cat("- model: ", MarkdownText(model.id), "\n");
  if (!model.revision.empty()) out += Cat("- revision: ", MarkdownText(model.revision), "\n");
  if (const std::string url = SourceUrlOf(model); !url.empty())
    out += Cat("- read from: ", MarkdownCode(url), "\n");
  if (!manifest.command.empty())
    out += Cat("- command, without paths: ", MarkdownCode(CommandText(manifest.command)), "\n");
  out += LaterOverlays(manifest);
  if (!out.ends_with("\n\n")) out += "\n";
  if (!model.source.empty()) out += SourceTable(model) + "\n";
  // README.md is the one file without a digest, and whoever changed it could name another here.
  return out + Cat("A trusted digest proves all files but this one:\n\n```\nmoepack verify . "
                   "--digest sha256:",
                   ManifestDigest(manifest), "\n```\n");
}

}  // namespace moepack::manifest
