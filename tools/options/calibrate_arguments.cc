#include "tools/options/calibrate_arguments.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "libshard/base/text/text.h"
#include "runtime-shim/calibrate/feedback.h"
#include "runtime-shim/cpu/dots.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/runtime_options.h"

namespace moepack::cli {
namespace calibrate_options {
namespace {

constexpr uint64_t kLeastMemoryOfCalibration = 16'000'000;
constexpr uint64_t kMostTokens = 1ull << 40;

// Counts changes of the method that change bytes.
constexpr const char* kMethod = "feedback-2";

// The parameters of a record that are counts.
struct CountParameter {
  const char* name;
  uint64_t least, most;
  uint64_t (*get)(const runtime::CalibrateOptions& options);
  void (*set)(runtime::CalibrateOptions& options, uint64_t value);
};
constexpr CountParameter kCounts[] = {
    {"most_tokens", 0, kMostTokens, [](const runtime::CalibrateOptions& o) { return o.tokens; },
     [](runtime::CalibrateOptions& o, uint64_t value) { o.tokens = value; }},
    {"context", 2, 1u << 24, [](const runtime::CalibrateOptions& o) { return uint64_t{o.context}; },
     [](runtime::CalibrateOptions& o, uint64_t value) {
       o.context = static_cast<uint32_t>(value);
     }},
    {"fold", 2, 1u << 20, [](const runtime::CalibrateOptions& o) { return uint64_t{o.fold}; },
     [](runtime::CalibrateOptions& o, uint64_t value) { o.fold = static_cast<uint32_t>(value); }},
    {"least_tokens", 1, kMostTokens,
     [](const runtime::CalibrateOptions& o) { return o.least_tokens; },
     [](runtime::CalibrateOptions& o, uint64_t value) { o.least_tokens = value; }},
};

constexpr const char* kExecutorParameter = "executor";

// What the options of a run do not decide.
TextParameters OfThisMachine() {
  return {{"method", kMethod},
          {"instructions", runtime::DotInstructions()},
          {"damping", Cat(runtime::kFeedbackDamping)}};
}

void AddCalibrationTexts(CLI::App& app, const std::string& prefix, TextArguments& texts) {
  StartSection(app, "Calibration");
  app.add_option("--calibrate", texts.texts,
                 "Encode with error feedback on these texts, so that the file of the same size is "
                 "closer to the model (docs/calibration.md). Each file is one session in UTF-8; in "
                 "a .jsonl file each line is one: {\"text\": ...} or {\"tokens\": [...]}, "
                 "optionally with \"session\" and \"bucket\". Several files may follow, and the "
                 "option may be repeated; - is standard input, a text or such lines.")
      ->type_name("FILE");
  app.add_option(
         "--calibrate-tokens", texts.tokens,
         "The same for token ids, such as 12,7,9, or the name of a file of ids; - is standard "
         "input.")
      ->type_name("IDS|FILE");
  app.add_option(
         Cat("--", prefix, "bucket"), texts.bucket,
         "The kind of the calibration text (code, chat, math, ...), for sessions that do not state "
         "it.")
      ->type_name("NAME")
      ->check(AsUtf8());
}

void AddChoiceOfText(CLI::App& app, const std::string& prefix, runtime::CalibrateOptions& options) {
  app.add_option(Cat("--", prefix, "most-tokens"), options.tokens,
                 "Calibrate on at most this many tokens of each bucket: whole sessions that are "
                 "spread over it, and of long ones a part. Default: all.")
      ->type_name("N")
      ->transform(AsCount(1, kMostTokens));
  app.add_option(Cat("--", prefix, "context"), options.context,
                 "Tokens of a window of the text. Default: 512.")
      ->type_name("N")
      ->transform(AsCount(2, 1u << 24));
  app.add_option(Cat("--", prefix, "keep-back"), options.fold,
                 "Hold out every N-th session, or window, to see whether feedback helps. Default: "
                 "8.")
      ->type_name("N")
      ->transform(AsCount(2, 1u << 20));
  app.add_option(
         Cat("--", prefix, "least-tokens"), options.least_tokens,
         "Encode a matrix without feedback if fewer tokens than this reach it. Default: 32.")
      ->type_name("N")
      ->transform(AsCount(1, kMostTokens));
  app.add_option(Cat("--", prefix, "shrink"), options.shrink,
                 "How strongly what few tokens say about an expert is drawn towards its layer. "
                 "Default: 1.")
      ->type_name("X")
      ->transform(AsReal(0, 1e6));
}

void AddHeldOut(CLI::App& app, const std::string& prefix, CalibrateArguments& arguments) {
  app.add_option(Cat("--", prefix, "held-out-text"), arguments.held_out,
                 "Texts that are to measure the result later, in the form of --calibrate: refused "
                 "if they are also calibration text.")
      ->type_name("FILE");
  arguments.force_option = Cat("--", prefix, "force-overlap");
  app.add_flag(arguments.force_option, arguments.force_overlap,
               "Only warn of text that is both held out and calibrated on.");
}

void AddResources(CLI::App& app, const std::string& prefix, CalibrateArguments& arguments) {
  runtime::CalibrateOptions& options = arguments.options;
  if (!prefix.empty()) {
    app.add_option(Cat("--", prefix, "memory"), options.memory,
                   "Upper bound for activations and matrices of a calibration, about, without the "
                   "weights: 512M, 24GiB. Default: 4GiB.")
        ->type_name("SIZE")
        ->transform(AsBytes(kLeastMemoryOfCalibration));
  }
  app.add_option(Cat("--", prefix, "scratch"), options.scratch,
                 "Directory for activations of a calibration that do not fit into memory. Default: "
                 "TMPDIR or /tmp.")
      ->type_name("DIR");
  if (prefix.empty()) StartSection(app, "Resources");
  AddExecutorChoice(app, prefix, "Where the model of a calibration runs", options.executor,
                    arguments.device);
}

}  // namespace
}  // namespace calibrate_options

void AddNamedFiles(const CalibrateArguments& arguments, std::vector<std::string>& files) {
  AddNamedFiles(arguments.texts, files);
  files.insert(files.end(), arguments.held_out.begin(), arguments.held_out.end());
}

void AddCalibrate(CLI::App& app, const std::string& prefix, CalibrateArguments& arguments) {
  using namespace calibrate_options;
  const size_t before = app.get_options().size();
  AddCalibrationTexts(app, prefix, arguments.texts);
  AddChoiceOfText(app, prefix, arguments.options);
  AddHeldOut(app, prefix, arguments);
  AddResources(app, prefix, arguments);
  const std::vector<CLI::Option*> options = app.get_options();
  // Token ids alone are calibration text, too.
  CLI::Option* const texts = app.get_option("--calibrate");
  CLI::Option* const tokens = app.get_option("--calibrate-tokens");
  for (size_t i = before; i < options.size(); ++i) {
    if (options[i] == texts || options[i] == tokens) continue;
    options[i]->each([&arguments](const std::string&) { arguments.has_details = true; });
  }
}

Status CheckCalibrate(const CalibrateArguments& arguments) {
  if (arguments.runs() || !arguments.has_details) return Ok();
  return Error{Code::kInvalidArgument,
               "options of a calibration have no effect without --calibrate",
               "--calibrate names the texts"};
}

std::vector<std::string> RecordCalibrateOptions(const CalibrateArguments& arguments) {
  if (!arguments.runs()) return {"--calibrated-store"};
  const runtime::CalibrateOptions &options = arguments.options, usual;
  std::vector<std::string> words;
  const auto add = [&](const char* name, std::string value) {
    words.insert(words.end(), {name, std::move(value)});
  };
  const auto add_changed = [&](const char* name, const auto& value, const auto& usual_value) {
    if (value != usual_value) add(name, Cat(value));
  };
  for (const std::string& file : arguments.texts.texts) add("--calibrate", FileName(file));
  for (const std::string& ids : arguments.texts.tokens) add("--calibrate-tokens", FileName(ids));
  add_changed("--calibrate-bucket", arguments.texts.bucket, "");
  add_changed("--calibrate-most-tokens", options.tokens, usual.tokens);
  add_changed("--calibrate-context", options.context, usual.context);
  add_changed("--calibrate-keep-back", options.fold, usual.fold);
  add_changed("--calibrate-least-tokens", options.least_tokens, usual.least_tokens);
  add_changed("--calibrate-shrink", options.shrink, usual.shrink);
  add_changed("--calibrate-executor", options.executor, usual.executor);
  return words;
}

void RecordParameters(const runtime::CalibrateOptions& options, CalibratedRecord& record) {
  record.parameters = calibrate_options::OfThisMachine();
  for (const auto& count : calibrate_options::kCounts)
    record.parameters[count.name] = Cat(count.get(options));
  record.parameters["shrink"] = Cat(options.shrink);
  record.parameters[calibrate_options::kExecutorParameter] = options.executor;
}

Result<runtime::CalibrateOptions> CalibrateOptionsOf(const std::string& where,
                                                     const CalibratedRecord& record) {
  const auto text = [&](const std::string& name) {
    const auto found = record.parameters.find(name);
    return found == record.parameters.end() ? std::string() : found->second;
  };
  const auto wrong = [&](Code code, const std::string& name, const std::string& expected) {
    return Error{code, Cat(where, ": parameter ", name, ": expected ", expected, ", found ",
                           Quoted(text(name)))};
  };
  for (const auto& [name, value] : calibrate_options::OfThisMachine()) {
    if (text(name) != value)
      return wrong(Code::kMismatch, name, Cat(Quoted(value), ", which this program computes here"));
  }
  runtime::CalibrateOptions options;
  for (const auto& count : calibrate_options::kCounts) {
    const std::optional<uint64_t> value = ParseUint(text(count.name));
    if (!value || *value < count.least || *value > count.most)
      return wrong(Code::kCorrupt, count.name, "a count");
    count.set(options, *value);
  }
  const std::string shrink = text("shrink");
  char* end = nullptr;
  options.shrink = std::strtod(shrink.c_str(), &end);
  if (shrink.empty() || *end != '\0' || !std::isfinite(options.shrink) || options.shrink < 0)
    return wrong(Code::kCorrupt, "shrink", "a number");
  options.executor = text(calibrate_options::kExecutorParameter);
  return options;
}

void AddCalibratedStore(CLI::App& app, CalibrateArguments& arguments) {
  StartSection(app, "Calibration");
  app.add_option(
         "--calibrated-store", arguments.store,
         "Tensors that were encoded with error feedback. --calibrate writes them there layer by "
         "layer, and resumes there; the default is the output's name with .calibrated behind it. "
         "Without --calibrate they are taken from there, for the same source and types.")
      ->type_name("DIR");
}

}  // namespace moepack::cli
