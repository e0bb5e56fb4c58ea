#include "tests/faults/support/writing_commands.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/generator.h"
#include "libshard/base/text/text.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

namespace fs = std::filesystem;
using moepack::Cat;

void WriteText(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Two layers and eight experts: a few hundred kilobytes.
fixtures::Options SmallModel() {
  fixtures::Options options;
  options.layers = 2;
  options.experts = 8;
  options.top_k = 2;
  return options;
}

std::string TokenIds() {
  std::string ids;
  for (int i = 0; i < 96; ++i) ids += Cat((i * 7 + i / 5) % 90 + 3, " ");
  return ids;
}

// "d/groups/000/experts.gguf" becomes "groups/000/experts.gguf".
bool IsTemporary(const std::string& name) {
  return name.find(".tmp-") != name.npos || name.find(".partial") != name.npos;
}

// A document that is replaced after every step has more states than the old and the new one; each
// of them is complete.
bool IsStep(const WritingCommand& command, const std::string& name, const std::string& bytes) {
  return name == command.in_steps && nlohmann::json::accept(bytes);
}

// The first name whose file in `found` is neither as in `before` nor as in `golden`.
std::string StrangeFile(const WritingCommand& command, const Tree& found, const Tree& before,
                        const Tree& golden) {
  const auto is = [](const Tree& tree, const std::string& name, const std::string& bytes) {
    const auto place = tree.find(name);
    return place != tree.end() && place->second == bytes;
  };
  for (const auto& [name, bytes] : found) {
    if (IsTemporary(name) || is(before, name, bytes) || is(golden, name, bytes)) continue;
    if (!before.contains(name) && !golden.contains(name)) continue;  // beside the files that count
    if (IsStep(command, name, bytes)) continue;
    return Cat(name, ": ", bytes.size(), " bytes that are neither the old nor the new ones");
  }
  for (const auto& [name, bytes] : before) {
    if (!found.contains(name) && golden.contains(name)) return Cat(name, " is lost");
  }
  return "";
}

bool IsDone(const WritingCommand& command, const fs::path& workspace) {
  const Tree& golden = SharedInputs().Golden(command);
  const Tree found = OutputOf(command, workspace);
  if (!command.is_random) return DifferenceOf(found, golden).empty();
  return found.size() == golden.size();
}

// Whether the message names the place: the file itself, a directory that holds it, or the output.
bool NamesPlace(const std::string& message, const fs::path& path, const WritingCommand& command) {
  if (path.empty() || message.find(command.output) != message.npos) return true;
  if (message.starts_with("error: .: ")) return true;  // the workspace itself
  for (const fs::path& part : path) {
    if (part.string().size() > 1 && message.find(part.string()) != message.npos) return true;
  }
  return false;
}

WritingCommand Makes(const char* name, std::vector<std::string> arguments, const char* output) {
  return {name, std::move(arguments), output, true, false};
}
WritingCommand Changes(const char* name, std::vector<std::string> arguments, const char* output) {
  return {name, std::move(arguments), output, false, false};
}
// A layout, whose list of manifests grows.
WritingCommand InLayout(const char* name, std::vector<std::string> arguments, const char* output) {
  return {name, std::move(arguments), output, false, false, "index.json"};
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
      Makes("QuantizeDistribution", {"quantize", "dist", "--pure", "Q8_0", "-j", "1", "-o", "made"},
            "made"),
      Makes("Build", {"build", "src", "--plan", "plan.json", "-j", "1", "-o", "made"}, "made"),
      Makes("BuildForce",
            {"build", "src", "--plan", "plan.json", "--format", "gguf", "--model-id", "other", "-j",
             "1", "--force", "-o", "dist"},
            "dist"),
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
      InLayout("Copy", {"copy", "layout:models:v1", "layout:made", "-j", "1"}, "made"),
      InLayout("Tag", {"tag", "layout:models:v1", "stable"}, "models"),
      InLayout("Gc", {"gc", "layout:models", "--older-than", "0"}, "models"),
      WritingCommand{
          "Sign", {"sign", "layout:models:v1", "--key", "key.key"}, "models", false, true},
      WritingCommand{"Keygen", {"keygen", "-o", "keys/one"}, "keys", false, true},
      Makes("Profile",
            {"profile", "src", "--tokens", "ids.txt", "--threads", "1", "-o", "made.json"},
            "made.json"),
      Makes("StatisticsConvert",
            {"statistics", "convert", "stats.json", "--to", "hot-cache", "-o", "made.json"},
            "made.json"),
      Makes("Refit",
            {"refit", "src", "--plan", "plan.json", "--tokens", "ids.txt", "--context", "16",
             "--least-tokens", "1", "--steps", "ridge", "--threads", "1", "-j", "1", "-o", "made"},
            "made"),
      WritingCommand{"Experiment",
                     {"experiment", "src", "--strategies", "contiguous", "--eligible", "4",
                      "--tokens", "ids.txt", "--threads", "1", "-o", "made.json"},
                     "made.json",
                     false,
                     false,
                     "made.json"},
      Makes("Report", {"report", "dist", "-o", "made.html"}, "made.html"),
  };
}

}  // namespace

Tree ReadTree(const fs::path& directory) {
  Tree tree;
  std::error_code error;
  if (fs::is_regular_file(directory, error))
    tree[directory.filename()] = fixtures::ReadFile(directory);
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file())
      tree[fs::relative(it->path(), directory)] = fixtures::ReadFile(it->path());
  }
  return tree;
}

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

const WritingCommand& CommandOf(const std::string& name) {
  const auto& all = WritingCommands();
  return *std::find_if(all.begin(), all.end(),
                       [&](const WritingCommand& command) { return command.name == name; });
}

// ---- Inputs

Inputs::Inputs() {
  if (!fixtures::MakeCheckpoint("qwen3-moe", dir_ / "src", SmallModel())) problem_ = "src";
  WriteText(dir_ / "overlay.json", R"({"version": "two", "layers": {"*": "3"}})");
  WriteText(dir_ / "ids.txt", TokenIds());
  fs::create_directories(dir_ / "keys");
  Make({"plan", "src", "--groups", "2", "-o", "plan.json"});
  Make({"build", "src", "--plan", "plan.json", "--format", "gguf", "-o", "dist"});
  for (const std::string part : {"0", "1"})
    Make({"shard-experts", "src", "--plan", "plan.json", "--format", "gguf", "--only",
          part == "0" ? "trunk,group:0" : "assets,group:1", "-o", "part-" + part});
  for (const std::string task : {"0/2", "1/2"})
    Make({"build", "src", "--plan", "plan.json", "--task", task, "-o", "share"});
  Make({"publish", "dist", "layout:models:v1", "--link", "copy"});
  Make({"quantize", "dist", "--pure", "Q8_0", "-o", "other"});
  Make({"publish", "other", "layout:models:v2", "--link", "copy"});
  Make({"tag", "layout:models:v2", "--remove"});  // for gc
  Make({"pull", "layout:models:v1", "--group", "0", "-o", "pulled", "--link", "copy"});
  Make({"profile", "src", "--tokens", "ids.txt", "-o", "stats.json"});
  Make({"keygen", "-o", "key", "--type", "ed25519"});
}

void Inputs::Make(const std::vector<std::string>& arguments) {
  if (!problem_.empty()) return;
  const auto end = moepack::cli::ChildProcess(path(), arguments).Wait();
  if (end.status == 0) return;
  for (const std::string& word : arguments) problem_ += word + " ";
  problem_ += end.err;
}

std::unique_ptr<fixtures::TempDir> Inputs::Copy() const {
  auto copy = std::make_unique<fixtures::TempDir>();
  fs::copy(path(), copy->path(), fs::copy_options::recursive);
  return copy;
}

std::string Inputs::ProblemOf(const WritingCommand& command) {
  if (problem_.empty()) Golden(command);
  return problem_ + problems_[command.name];
}

const Tree& Inputs::Golden(const WritingCommand& command) {
  const auto known = golden_.find(command.name);
  if (known != golden_.end()) return known->second;
  const auto workspace = Copy();
  const auto end = moepack::cli::ChildProcess(workspace->path(), command.arguments).Wait();
  if (end.status != 0) problems_[command.name] = end.err;
  return golden_[command.name] = OutputOf(command, workspace->path());
}

const Tree& Inputs::Before(const WritingCommand& command) {
  const auto known = before_.find(command.name);
  if (known != before_.end()) return known->second;
  return before_[command.name] = OutputOf(command, path());
}

Inputs& SharedInputs() {
  static Inputs inputs;
  return inputs;
}

// ---- Judging

std::string DifferenceOf(const Tree& found, const Tree& golden) {
  for (const auto& [name, bytes] : golden) {
    const auto place = found.find(name);
    if (place == found.end()) return Cat(name, " is missing");
    if (place->second != bytes) return Cat(name, " differs");
  }
  for (const auto& [name, bytes] : found) {
    if (!golden.contains(name) && !IsTemporary(name)) return Cat(name, " should not be there");
  }
  return "";
}

Tree OutputOf(const WritingCommand& command, const fs::path& workspace) {
  return ReadTree(workspace / command.output);
}

std::string ProblemOfFiles(const WritingCommand& command, bool there, const Tree& found) {
  if (command.is_random) return "";
  const Tree& golden = SharedInputs().Golden(command);
  const Tree& before = SharedInputs().Before(command);
  if (!command.at_once) return StrangeFile(command, found, before, golden);
  if (!there) return "";
  if (DifferenceOf(found, golden).empty() || DifferenceOf(found, before).empty()) return "";
  return "the output is not whole: " + DifferenceOf(found, golden);
}

std::string ProblemOfOutput(const WritingCommand& command, const fs::path& workspace) {
  return ProblemOfFiles(command, fs::exists(workspace / command.output),
                        OutputOf(command, workspace));
}

std::string ProblemOfRun(const WritingCommand& command, const fs::path& workspace,
                         const FaultRun& run) {
  if (run.signal != 0) return Cat("signal ", run.signal);
  if (run.status == 0) {
    if (!IsDone(command, workspace)) return "status 0, but the output is not right";
    return "";
  }
  if (run.status < 1 || run.status > 7) return Cat("status ", run.status);
  const size_t message = run.err.find("error: ");
  if (message == run.err.npos) return "no error is told";
  if (!NamesPlace(run.err.substr(message), run.path, command)) return "the message names no file";
  return ProblemOfOutput(command, workspace);
}

std::string ProblemOfRerun(const WritingCommand& command, const fs::path& workspace) {
  const bool was_done = IsDone(command, workspace);
  const auto end = moepack::cli::ChildProcess(workspace, command.arguments).Wait();
  if (end.signal != 0) return Cat("run again: signal ", end.signal);
  // A key is never replaced, not even the half of a pair that a kill left.
  if (command.name == "Keygen" && end.status == 2) return "";
  if (end.status != 0 && !was_done) return Cat("run again: status ", end.status, ": ", end.err);
  if (IsDone(command, workspace)) return "";
  return "run again: the output is not right: " +
         DifferenceOf(OutputOf(command, workspace), SharedInputs().Golden(command));
}

}  // namespace faults
