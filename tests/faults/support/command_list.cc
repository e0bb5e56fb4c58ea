// The commands under test.
#include <algorithm>

#include "tests/faults/support/writing_commands.h"

namespace faults {
namespace {

// The model in files of at most 100K.
constexpr const char* kFirstPart = "made-00001-of-00004.gguf";

WritingCommand Makes(const char* name, std::vector<std::string> arguments, const char* output) {
  return {name, std::move(arguments), output, true, false};
}
WritingCommand Changes(const char* name, std::vector<std::string> arguments, const char* output) {
  return {name, std::move(arguments), output, false, false};
}

// A document of the output is replaced in several steps.
WritingCommand InSteps(const char* name, std::vector<std::string> arguments, const char* output,
                       const char* document) {
  return {name, std::move(arguments), output, false, false, document};
}
// A layout, whose list of manifests grows.
WritingCommand InLayout(const char* name, std::vector<std::string> arguments, const char* output) {
  return InSteps(name, std::move(arguments), output, "index.json");
}
WritingCommand MakesRandom(const char* name, std::vector<std::string> arguments,
                           const char* output) {
  return {name, std::move(arguments), output, true, true};
}

WritingCommand MakesSet(const char* name, std::vector<std::string> arguments, const char* output,
                        const char* first) {
  return {name, std::move(arguments), output, false, false, {}, false, first};
}

std::vector<std::string> RefitWith(std::vector<std::string> more) {
  std::vector<std::string> words = {
      "refit",          "src", "--plan",  "plan.json", "--tokens",  "ids.txt", "--context", "16",
      "--least-tokens", "1",   "--steps", "ridge",     "--threads", "1",       "-j",        "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> CalibrateWith(std::vector<std::string> more) {
  std::vector<std::string> words = {"quantize",           "src",     "--pure",    "Q8_0",
                                    "--calibrate-tokens", "ids.txt", "--context", "16",
                                    "--least-tokens",     "1",       "-j",        "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<WritingCommand> PackingCommands() {
  return {
      Makes("Plan", {"plan", "src", "--groups", "2", "-o", "made.json"}, "made.json"),
      Makes("ShardExperts",
            {"shard-experts", "src", "--plan", "plan.json", "-j", "1", "-o", "made"}, "made"),
      Changes("ShardExpertsOnly",
              {"shard-experts", "src", "--plan", "plan.json", "--format", "gguf", "--only",
               "group:1", "-j", "1", "-o", "part-0"},
              "part-0"),
      Makes("Quantize", {"quantize", "src", "--pure", "Q8_0", "-j", "1", "-o", "made.gguf"},
            "made.gguf"),
      MakesSet("QuantizeParts",
               {"quantize", "src", "--pure", "Q8_0", "--max-part-size", "100K", "-j", "1", "-o",
                "out/made.gguf"},
               "out", kFirstPart),
      MakesSet("QuantizePartsForce",
               {"quantize", "src", "--pure", "Q8_0", "--max-part-size", "100K", "-j", "1",
                "--force", "-o", "set/made.gguf"},
               "set", kFirstPart),
      Makes("QuantizeCalibrated", CalibrateWith({"-o", "made.gguf"}), "made.gguf"),
      InSteps("CalibratedStore", CalibrateWith({"--calibrated-store", "made", "-o", "out.gguf"}),
              "made", "calibration.json"),
      // The other task has done its part (Inputs::MakeSharedCalibration).
      InSteps("CalibrateTask", CalibrateWith({"--task", "0/2", "-o", "shared.gguf"}),
              "shared.gguf.calibrated.tasks", "00000-of-00002/calibration.json"),
      Makes("QuantizeDistribution", {"quantize", "dist", "--pure", "Q8_0", "-j", "1", "-o", "made"},
            "made"),
      Makes("Build", {"build", "src", "--plan", "plan.json", "-j", "1", "-o", "made"}, "made"),
      Makes("BuildRefitted",
            {"build", "src", "--plan", "plan.json", "--refit-store", "store", "-j", "1", "-o",
             "made"},
            "made"),
      Makes("BuildForce",
            {"build", "src", "--plan", "plan.json", "--format", "gguf", "--model-id", "other", "-j",
             "1", "--force", "-o", "dist"},
            "dist"),
      // Its files get their names one by one, as in a mount point.
      MakesSet("BuildIntoDirectory",
               {"build", "src", "--plan", "plan.json", "-j", "1", "-o", "empty"}, "empty",
               "distribution.json"),
      Makes("Join", {"join", "part-0", "part-1", "-j", "1", "-o", "made"}, "made"),
      Makes("BuildTask",
            {"build", "src", "--plan", "plan.json", "--task", "0/2", "-j", "1", "-o", "made"},
            "made.tasks/00000-of-00002"),
      Makes("QuantizeTask",
            {"quantize", "src", "--pure", "Q8_0", "--task", "1/2", "-j", "1", "-o", "made.gguf"},
            "made.gguf.tasks/00001-of-00002"),
      Makes("JoinTasks", {"join", "share.tasks", "-j", "1", "-o", "made"}, "made"),
      Makes("Overlay",
            {"overlay", "dist", "--overlay-file", "overlay.json", "-j", "1", "-o", "made"}, "made"),
      Makes("Assemble", {"assemble", "dist", "--group", "1", "-j", "1", "-o", "made"}, "made"),
      Makes("AssembleSingle",
            {"assemble", "dist", "--group", "0", "--layout", "single", "-j", "1", "-o", "made"},
            "made"),
  };
}

std::vector<WritingCommand> OtherCommands() {
  return {
      InLayout("Publish", {"publish", "dist", "layout:made:v1", "-j", "1"}, "made"),
      Makes("PublishFiles", {"publish", "dist", "--to-dir", "made", "-j", "1"}, "made"),
      Makes("Pull", {"pull", "layout:models:v1", "--group", "1", "-j", "1", "-o", "made"}, "made"),
      Changes("PullMore", {"pull", "layout:models:v1", "--group", "1", "-j", "1", "-o", "pulled"},
              "pulled"),
      Makes("PullUpdate",
            {"pull", "layout:models:v1", "--group", "1", "--update", "-j", "1", "-o", "older"},
            "older"),
      Makes("PullAssemble",
            {"pull", "layout:models:v1", "--group", "1", "-j", "1", "-o", "pulled-1", "--assemble",
             "made"},
            "made"),
      InLayout("Copy", {"copy", "layout:models:v1", "layout:made", "-j", "1"}, "made"),
      InLayout("Tag", {"tag", "layout:models:v1", "stable"}, "models"),
      InLayout("TagRemove", {"tag", "layout:models:v1", "--remove"}, "models"),
      InLayout("Gc", {"gc", "layout:models", "--older-than", "0"}, "models"),
      // An Ed25519 key signs the same bytes in the same way, but not the P-256 key of --oms.
      InLayout("Sign", {"sign", "layout:models:v1", "--key", "key.key"}, "models"),
      MakesRandom("SignFiles", {"sign", "dist", "--oms", "--key", "p256.key"}, "dist/model.sig"),
      WritingCommand{"Keygen", {"keygen", "-o", "out/one"}, "out", false, true},
      Makes("Profile",
            {"profile", "src", "--tokens", "ids.txt", "--threads", "1", "-o", "made.json"},
            "made.json"),
      // The record comes last: only with it the task is done.
      MakesSet("ProfileTask",
               {"profile", "src", "--tokens", "ids.txt", "--threads", "1", "--task", "0/2", "-o",
                "made.json"},
               "made.json.tasks/00000-of-00002", "profile-task.json"),
      Changes("ProfileFiles",
              {"profile", "src", "--tokens", "ids.txt", "--threads", "1", "-o", "out/made.json.zst",
               "--trace", "out/trace.csv.zst", "--imatrix", "out/imatrix.gguf", "--force"},
              "out"),
      Changes("EvalRecord",
              {"eval", "dist", "--tokens", "ids.txt", "--context", "32", "--generate", "0",
               "--threads", "1", "--record"},
              "dist"),
      Makes("StatisticsMerge",
            {"statistics", "merge", "stats.json", "stats-2.json", "-o", "made.json"}, "made.json"),
      Makes("StatisticsConvert",
            {"statistics", "convert", "stats.json", "--to", "hot-cache", "-o", "made.json"},
            "made.json"),
      Makes("Refit", RefitWith({"-o", "made"}), "made"),
      InSteps("RefitStore", RefitWith({"--store", "made"}), "made", "refit.json"),
      InSteps("RefitTask", RefitWith({"--store", "made", "--task", "1/2"}), "made.tasks",
              "00001-of-00002.refit/refit.json"),
      InSteps("Experiment",
              {"experiment", "src", "--strategies", "contiguous", "--eligible", "4", "--tokens",
               "ids.txt", "--threads", "1", "-o", "made.json"},
              "made.json", "made.json"),
      Makes("Report", {"report", "dist", "-o", "made.html"}, "made.html"),
  };
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const WritingCommand& command) {
  return out << command.name;
}

const std::vector<WritingCommand>& WritingCommands() {
  static const std::vector<WritingCommand> commands = [] {
    std::vector<WritingCommand> all = PackingCommands();
    for (WritingCommand& command : OtherCommands()) all.push_back(std::move(command));
    return all;
  }();
  return commands;
}

std::vector<WritingCommand> CloningCommands() {
  std::vector<WritingCommand> commands;
  for (const char* name :
       {"Join", "Overlay", "Assemble", "Publish", "PublishFiles", "Pull", "PullMore", "Copy"}) {
    WritingCommand& command = commands.emplace_back(CommandOf(name));
    command.arguments.insert(command.arguments.end(), {"--link", "reflink"});
    command.clones = true;
  }
  // It clones ranges that lie at the same place of a block in the source.
  commands.emplace_back(CommandOf("ShardExperts")).clones = true;
  return commands;
}

const WritingCommand& CommandOf(std::string_view name) {
  const auto& all = WritingCommands();
  return *std::find_if(all.begin(), all.end(),
                       [&](const WritingCommand& command) { return command.name == name; });
}

}  // namespace faults
