#include "manifest/write/weights_section.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

// A card is for people; distribution.json has the rest.
constexpr size_t kMaxLayerRows = 128, kMaxTexts = 64;

std::string Fixed(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << value;
  return std::move(out).str();
}

std::string MethodLine(const RefitRecord& record) {
  const std::vector<std::string> options = ParameterOptions(record);
  std::string out = Cat("- steps: ", MarkdownText(moepack::Join(record.steps, ", ")), "\n");
  if (!options.empty()) out += Cat("- options: ", MarkdownText(moepack::Join(options, ", ")), "\n");
  return out;
}

std::string TextTable(const std::vector<CalibrationText>& texts) {
  if (texts.empty()) return "";
  std::string out =
      "\n| calibration text | bucket | tokens | SHA-256 of all its tokens |\n"
      "| --- | --- | --- | --- |\n";
  for (size_t i = 0; i < texts.size() && i < kMaxTexts; ++i) {
    const CalibrationText& text = texts[i];
    out += Cat("| ", MarkdownText(text.name), " | ", MarkdownText(text.bucket), " | ",
               text.taken ? Cat(FormatCount(text.taken->tokens), " of ") : "",
               FormatCount(text.tokens), " | `", text.sha256, "` |\n");
  }
  if (texts.size() > kMaxTexts)
    out += Cat("\n", texts.size() - kMaxTexts, " more are in `distribution.json`.\n");
  return out;
}

std::string LayerTable(const RefitRecord& record) {
  std::string out =
      "\n| layer | group | error before | after | neurons moved |\n"
      "| --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < record.outcomes.size() && i < kMaxLayerRows; ++i) {
    const RefitOutcome& outcome = record.outcomes[i];
    out += Cat("| ", outcome.layer, " | ", outcome.group, " | ", Fixed(outcome.error_before), " | ",
               outcome.accepted ? Fixed(outcome.error_after) : "not accepted", " | ",
               outcome.accepted ? FormatCount(outcome.neurons_moved) : "", " |\n");
  }
  if (record.outcomes.size() > kMaxLayerRows)
    out += Cat("\n", record.outcomes.size() - kMaxLayerRows, " more are in `distribution.json`.\n");
  return out;
}

std::string RefitText(const Manifest& manifest) {
  const RefitRecord& record = *manifest.refit;
  uint64_t tensors = 0;
  for (const BundleRecord& bundle : manifest.bundles) {
    tensors += static_cast<uint64_t>(
        std::count_if(bundle.tensors.begin(), bundle.tensors.end(),
                      [](const TensorRecord& tensor) { return !tensor.derived.empty(); }));
  }
  return Cat(
      "The experts of the groups and their rows of the "
      "routers are not the model's own: they were refitted on calibration text, so that "
      "each group alone comes closer to the whole model (",
      Plural(tensors, "tensor"),
      ", marked `derived` in `distribution.json`). All other "
      "tensors are the model's. The refit has version ",
      MarkdownCode(manifest.versions.refit), ".\n\n", MethodLine(record),
      TextTable(record.calibration),
      "\nThe error is that of what the layer adds on held-out text, relative to "
      "what the whole model adds.\n",
      LayerTable(record));
}

std::string ByMethod(const std::string& method) {
  if (method.empty()) return "";
  return Cat(", by the method ", MarkdownCode(method), " of `moepack build --calibrate`");
}

// A source has no record of each matrix.
std::string CalibratedSourceText(const CalibrationKeys& keys) {
  return Cat(
      "The source, a GGUF, was quantized with error feedback on calibration text: what rounding a "
      "column loses, later columns take up. By its keys `moepack.calibration.*` that was on ",
      Plural(keys.tokens, "token"), ByMethod(keys.method), ".\n");
}

std::string CalibratedText(const CalibratedRecord& record) {
  const CalibratedFigures sum = record.sum();
  const auto method = record.parameters.find("method");
  return Cat(
      "The tensors were quantized with error feedback on calibration text: what rounding a column "
      "loses, later columns take up, so that files of the same types and size are closer to the "
      "model. That was done for ",
      FormatCount(sum.accepted), " of ", FormatCount(sum.matrices), " matrices, on ",
      Plural(record.tokens(), "token"),
      method == record.parameters.end() ? "" : ByMethod(method->second), ".\n",
      TextTable(record.calibration));
}

}  // namespace

std::string WeightsText(const Manifest& manifest) {
  std::vector<std::string> parts;
  if (manifest.refit) parts.push_back(RefitText(manifest));
  if (manifest.calibrated) parts.push_back(CalibratedText(*manifest.calibrated));
  if (manifest.model.calibrated) parts.push_back(CalibratedSourceText(*manifest.model.calibrated));
  if (parts.empty()) return "";
  return Cat("\n## What was done to the weights\n\n", moepack::Join(parts, "\n"));
}

}  // namespace moepack::manifest
